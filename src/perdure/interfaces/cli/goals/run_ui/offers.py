"""The decisions that a person can make about a waiting call, as a question with options."""

from dataclasses import dataclass
from typing import Any

from perdure.app.goals.values import Ask, CallState, DecisionKind, ToolCall
from perdure.interfaces.cli.goals.display.hints import call_text
from perdure.interfaces.cli.output.terminal import lines
from perdure.interfaces.cli.prompts.layout import Choice


@dataclass(frozen=True)
class Option:
    """An option and its decision; without a kind of decision, the call stays open."""

    choice: Choice
    kind: DecisionKind | None = None
    value: Any = None


@dataclass(frozen=True)
class Offer:
    """A question about a call. Without options, the answer is free text."""

    call_id: str
    question: str
    options: tuple[Option, ...] = ()
    default: int = 0
    shown: str = ""
    """Text that is printed unchanged before the question."""
    why: str = ""
    """The reason of the question."""


LATER = Option(Choice("leave it", "decide later; the goal keeps waiting"))
_UNKNOWN = (
    Option(Choice("skip", "its effect exists; the call counts as done"), "skip"),
    Option(Choice("retry", "it had no effect; run it again"), "retry"),
    Option(Choice("abort", "end the goal as failed"), "abort"),
    LATER,
)
_APPROVAL = (
    Option(Choice("approve", "run exactly this"), "approve"),
    Option(Choice("deny", "do not run it; the goal gets the denial"), "deny"),
    LATER,
)


def offer_of(call: CallState) -> Offer | None:
    """Return the question about a call; None if the call does not wait for a person."""
    about = call.call
    if not call.is_open:
        return None
    if isinstance(about, Ask):
        options = [Option(Choice(each, ""), "answer", each) for each in about.options or ()]
        return Offer(about.call_id, about.question, (*options, LATER) if options else ())
    if call.unknown is not None:
        question = f"What should be done about {about.step}?"
        return Offer(about.call_id, question, _UNKNOWN, default=len(_UNKNOWN) - 1, why=lines(call.unknown.why))
    if call.awaits_approval and isinstance(about, ToolCall):
        question = f"Run {about.call_id}?"
        return Offer(about.call_id, question, _APPROVAL, default=len(_APPROVAL) - 1, shown=call_text(about))
    return None
