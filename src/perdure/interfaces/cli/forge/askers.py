"""The port that answers the turns of an interview, and askers without a person: a list of answers, the defaults."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import AskQuestion, Clarify, ReadyToAssemble, ShowPreview, is_undecided
from perdure.errors import Invalid, PerdureError
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.output.terminal import lines
from perdure.interfaces.cli.prompts.plain import read_number
from perdure.text.strict_json import SYNTAX, parse_json

_LARGEST = 1 << 20
_NUMBER = re.compile(r"\(Other: a (?:number|temperature)")
"""Matches questions that accept a number other than the number of an option."""
_NUMBERS = re.compile(r"[0-9][0-9\s,]*")
"""Matches typed numbers: of one option, or by mistake of several."""


class Asker(Protocol):
    """Answers turns."""

    async def ask_description(self) -> str:
        """Return the description of the bot. Raises: Invalid when there is none and no person can be asked."""
        ...

    async def answer(self, session: SessionView) -> Any:
        """Return an answer to the pending turn in its wire form, or a Restart.

        Raises: Invalid when there is none; KeyboardInterrupt or EOFError when the person leaves the interview.
        """
        ...

    def show(self, session: SessionView, texts: Sequence[str]) -> None:
        """Show information that precedes the pending turn."""
        ...

    def show_busy(self) -> AbstractContextManager[object]:
        """Show, inside a `with` block, that a model thinks about the next question."""
        ...

    def show_error(self, error: PerdureError, pending: "Pending | None" = None) -> None:
        """Show why an answer was rejected. The caller then asks the question again.

        Raises: the error, with the pending turn, when this asker has no other answer.
        """
        ...


@dataclass(frozen=True)
class Restart:
    """The request to start again with another description, before the first answer."""

    description: str


@dataclass(frozen=True)
class Pending:
    """A session that waits for an answer, and the command that resumes it."""

    session: SessionView
    resume_command: str

    def explain(self, error: PerdureError, place: str = "") -> PerdureError:
        """Return the error with the pending question, its options, and the command that resumes the session."""
        question = pending_text(self.session)
        detail = (
            f"{place}{error.detail} Pending question: {question} Nothing is lost. Resume with: {self.resume_command}"
        )
        return type(error)(detail, errors=describe_options(self.session), current=self.session.wire())


class DefaultAnswers:
    """Answers as before the person went back, else with the suggested or first option, and confirms everything."""

    async def ask_description(self) -> str:
        """See Asker.ask_description."""
        raise Invalid('Describe the bot: perdure new "I want a coding assistant".')

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        match session.turn:
            case AskQuestion(earlier=None) as turn:
                return {"option_index": default_option(turn)}
            case AskQuestion() as turn:
                return _repeat_earlier(turn)
            case Clarify():
                return {"free_text": session.initial_description}
            case _:
                return {"confirm": True}

    def show(self, session: SessionView, texts: Sequence[str]) -> None:  # noqa: ARG002 (the texts describe the session)
        """See Asker.show."""
        print_text(*texts)

    def show_busy(self) -> AbstractContextManager[object]:
        """See Asker.show_busy."""
        return nullcontext()

    def show_error(self, error: PerdureError, pending: Pending | None = None) -> None:
        """See Asker.show_error."""
        raise error if pending is None else pending.explain(error)


class AnswerList(DefaultAnswers):
    """Reads answers from a list, one for each question; another asker, if any, answers the questions after them."""

    def __init__(self, answers: list[Any], then: Asker | None = None) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self._then = then
        self._taken = 0
        self._place = ""

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        nothing = object()
        found = next(self._answers, nothing)
        self._taken += 1
        self._place = "" if found is nothing else f"Answer {self._taken} of the list: "
        if found is not nothing:
            return found
        if self._then is not None:
            return await self._then.answer(session)
        raise Invalid("The list has no more answers.")

    def show_error(self, error: PerdureError, pending: Pending | None = None) -> None:
        """See Asker.show_error."""
        raise error if pending is None else pending.explain(error, self._place)


def print_text(*texts: str) -> None:
    """Print texts on standard error, which keeps standard output for programs."""
    for text in texts:
        print(lines(text), file=sys.stderr)


def read_answers(path: Path) -> list[Any]:
    """Read a file with answers.

    Raises: NotFound; Invalid; Denied
    """
    answers = parse_json(read_file(path, _LARGEST), str(path), SYNTAX)
    if not isinstance(answers, list):
        raise Invalid(f"{path} must be a JSON list of answers, one for each question.")
    return answers


def default_option(turn: AskQuestion) -> int:
    """Return the index of the suggested option, or else of the first one."""
    ids = [option.id for option in turn.options]
    return ids.index(turn.suggestion.option_id) if turn.suggestion else 0


def description_prompt(session: SessionView) -> str:
    """Return the question for another description of the bot; it says what that discards."""
    question = "What should your bot do?"
    return f"{question} (Another description discards your answers.)" if session.earlier else question


def earlier_text(turn: AskQuestion) -> str | None:
    """Return the answer that a question had before the person went back; labels are one a line."""
    if turn.earlier is None or not turn.earlier.option_ids:
        return None if turn.earlier is None else turn.earlier.answer
    labels = {option.id: option.label for option in turn.options}
    return "\n".join(labels[each] for each in turn.earlier.option_ids if each in labels)


def _repeat_earlier(turn: AskQuestion) -> Any:
    """Return the answer that a question had before the person went back, in its wire form."""
    if turn.earlier is None or not turn.earlier.option_ids:
        return {"free_text": turn.earlier.answer if turn.earlier else ""}
    indexes = [at for at, option in enumerate(turn.options) if option.id in turn.earlier.option_ids]
    return {"option_indexes": indexes} if turn.multiple else {"option_index": indexes[0]}


def read_typed(turn: AskQuestion, text: str) -> Any:
    """Read typed text: the number of an option, free text, or "you decide", which selects the default option.

    Raises: Invalid when the text is a number that no option has, or several numbers, unless the question accepts one.
    """
    if turn.options and is_undecided(text):
        return {"option_index": default_option(turn)}
    if turn.options and _NUMBERS.fullmatch(text):
        if (chosen := read_number(text, len(turn.options))) is not None:
            return {"option_index": chosen}
        if not _NUMBER.search(turn.question):
            raise Invalid(
                f"There is no option {text[:20]}. Type 1 to {len(turn.options)}, counted from the top,"
                " or say it in words."
            )
    return {"free_text": text}


def label_of_answer(turn: AskQuestion, answer: Any, text: str) -> str:
    """Return the label of the chosen option, or the free text."""
    return turn.options[answer["option_index"]].label if "option_index" in answer else text


def is_back(text: str) -> bool:
    """Return whether typed text asks for an earlier question."""
    return text.strip().casefold() == "back"


def back_answer(session: SessionView) -> Any:
    """Return the answer that leads back to the start of this phase, else to the phase before; None at the start."""
    if any(each.phase == session.phase for each in session.conversation):
        return {"back": str(session.phase)}
    return "back" if session.conversation else None


def pending_text(session: SessionView) -> str:
    """Return the pending question in one line."""
    match session.turn:
        case AskQuestion(question=question):
            return question
        case Clarify(message=message):
            return message
        case ShowPreview(phase=phase):
            return f"Is the preview of {phase} correct?"  # only in drafts of earlier versions
        case ReadyToAssemble():
            return "All questions are answered. Build the bot?"


def describe_options(session: SessionView) -> list[str]:
    """Return the options of the pending question, numbered from 0 as `option_index` counts."""
    if not isinstance(session.turn, AskQuestion):
        return []
    return [f"{number}: {each.label}: {each.description}" for number, each in enumerate(session.turn.options)]
