"""The tool `read_result`: the rest of a result that was too long for a request."""

from collections.abc import Callable, Mapping
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.tool import CallContext, Check, ToolSpec
from perdure.minds.model.results import result_text

_CHUNK = 8000
_SPEC = ToolSpec(
    "read_result",
    "Reads on in the result of an earlier call, where only its beginning and its end were shown.",
    {
        "type": "object",
        "properties": {
            "call_id": {"type": "string", "description": "The call, as the cut result names it."},
            "offset": {"type": "integer", "minimum": 0, "description": "The first character to read (default: 0)."},
        },
        "required": ["call_id"],
        "additionalProperties": False,
    },
    "pure",
)


class ReadResultTool:
    """Reads recorded results of the goal that it runs in; see Tool."""

    spec = _SPEC

    def __init__(self, state: Callable[[], GoalState | None]) -> None:
        self._state = state

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate."""
        offset = arguments.get("offset", 0)
        if unknown := sorted(arguments.keys() - {"call_id", "offset"}):
            raise Invalid(f"read_result has no argument {unknown[0]!r}. It has: call_id, offset.")
        if not isinstance(arguments.get("call_id"), str):
            raise Invalid(f"call_id must be a string, found {arguments.get('call_id')!r}.")
        if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
            raise Invalid(f"offset must be a whole number of at least 0, found {offset!r}.")

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run."""
        call, state = context.call, self._state()
        wanted, offset = call.arguments["call_id"], call.arguments.get("offset", 0)
        if state is None or wanted not in state.calls or state.calls[wanted].is_open:
            return ToolOutput(
                call.call_id, ok=False, error=ToolError("not_found", f"No result of {wanted!r} is known.")
            )
        text, _ = result_text(state, wanted)
        end = min(offset + _CHUNK, len(text))
        more = end if end < len(text) else None
        output = {"text": text[offset:end], "total_characters": len(text), "next_offset": more}
        return ToolOutput(call.call_id, output=output)

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (it has no effect)
        """See Tool.check."""
        return "not_happened"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. It leaves nothing running."""
