"""A tool call in full, as a person sees it before allowing it."""

import json

from perdure.interfaces.cli.output.terminal import lines, one_line
from perdure.kernel.events import ToolCall


def shown_call(call: ToolCall) -> str:
    """Return exactly what will be run."""
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return f"{one_line(f'{call.call_id}: {call.tool}, {call.effect}')}\n{lines(arguments)}"
