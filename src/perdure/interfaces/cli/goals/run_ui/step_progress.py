"""Progress reports of running steps, as lines for a person: at most one a second for each call."""

import time
from collections.abc import Callable

from perdure.app.goals.values import GoalState

_EVERY_S = 1.0
_LONGEST = 200


class ProgressLines:
    """Prints the progress of calls; reports within a second after the last line of a call are dropped."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said_s: dict[str, float] = {}

    def show(self, state: GoalState | None, call_id: str, text: str) -> None:
        """Print the progress of a call, with the name of its step from the state if there is one."""
        now_s = time.monotonic()
        if now_s - self._said_s.get(call_id, -_EVERY_S) < _EVERY_S:
            return
        self._said_s[call_id] = now_s
        call = None if state is None else state.calls.get(call_id)
        step = call_id.rpartition(".")[0] if call is None else call.call.step
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        self._say(f"step {step}: {shown}")
