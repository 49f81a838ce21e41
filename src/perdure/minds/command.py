"""The mind of a command: one call, then the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Body, Termination, ToolCall
from perdure.kernel.mind import Proposal
from perdure.kernel.ports import GoalState
from perdure.minds.shell_words import split_words
from perdure.minds.step_status import call_id, status_of_step

STEP = "command"


class CommandMind:
    """Runs the goal's text as one command line; see Mind.

    Raises: Invalid when the text is not a command.
    """

    is_slow = False

    def __init__(self, text: str, *, shell: bool = False) -> None:
        self._arguments: dict[str, Any] = {"argv": [text], "shell": True} if shell else {"argv": _split(text)}
        if not text.strip() or not self._arguments["argv"] or not self._arguments["argv"][0]:
            raise Invalid("A command needs the name of a program, found none. Say what to run.")
        if "\0" in text:
            raise Invalid("A command cannot contain a NUL character.")

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (it records nothing)
        """See Mind.prepare."""
        return ()

    async def close(self) -> None:
        """See Mind.close."""

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (a command knows no time)
        """See Mind.decide."""
        found = status_of_step(state, STEP)
        match found.status:
            case "pending" | "retry":
                attempt = found.attempt + 1
                call = ToolCall(call_id(STEP, attempt), STEP, "exec", dict(self._arguments), "once", attempt)
                return Proposal([call])
            case "done":
                return Proposal(end=Termination("done", value=found.output))
            case "failed":
                detail = f"The command failed: {found.why}"
                return Proposal(end=Termination("failed", detail, found.output, error=found.error, steps=(STEP,)))
            case _:
                return Proposal()

    def has_news(self) -> bool:
        """See Mind.has_news. It decides only when it is asked."""
        return False

    def take_abandoned(self) -> Sequence[str]:
        """See Mind.take_abandoned. All its calls have an intent."""
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (nothing comes before)
        """See Mind.environment."""
        return {}


def _split(text: str) -> list[str]:
    try:
        return split_words(text, 'let a shell run the line: "shell": true in the request')
    except ValueError as error:
        raise Invalid(str(error)) from error
