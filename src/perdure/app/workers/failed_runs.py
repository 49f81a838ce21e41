"""Goals that could not be resumed here: each is left alone for a while, and why is logged once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.app.workers.worker import RunsEnded
from perdure.errors import Unavailable
from perdure.kernel.ports import Clock, Owned

PATIENCE_S = 60.0
"""How long a goal that could not be resumed here is left alone, unless something is recorded for it."""
MOMENT_S = 2.0
"""How long it is left alone when something outside was in the way, or its run recorded nothing."""
OWNED_S = 1.0


@dataclass(frozen=True)
class _Failed:
    last_seq: int
    until_s: float


class FailedRuns:
    """The goals that are left alone, each at the seq at which its run failed: a newer event ends the pause."""

    def __init__(self, clock: Clock, log: logging.Logger) -> None:
        self._clock = clock
        self._log = log
        self._failed: dict[str, _Failed] = {}
        self._warned: dict[str, str] = {}
        """The last failure of each goal that was logged: the same one is logged once."""

    def is_hopeless(self, goal_id: str, last_seq: int) -> bool:
        """Return whether a goal is still left alone; a pause that is over is forgotten."""
        failed = self._failed.get(goal_id)
        if failed is None:
            return False
        if failed.last_seq == last_seq and self._clock.boottime_s() < failed.until_s:
            return True
        del self._failed[goal_id]
        return False

    def left_alone(self) -> Sequence[tuple[str, int]]:
        """Return the goals that are left alone, each with its seq; the newest failure is last."""
        now_s = self._clock.boottime_s()
        return [(name, failed.last_seq) for name, failed in self._failed.items() if now_s < failed.until_s]

    def patience_s(self, goal_id: str) -> float | None:
        """Return for how many more seconds a goal is left alone; None when it has no failure."""
        failed = self._failed.get(goal_id)
        return None if failed is None else failed.until_s - self._clock.boottime_s()

    def leave_alone(self, goal_id: str, last_seq: int, patience_s: float) -> None:
        """Retry a goal after some seconds, or when something has happened to it."""
        self._failed.pop(goal_id, None)  # the newest are last
        self._failed[goal_id] = _Failed(last_seq, self._clock.boottime_s() + patience_s)

    def retry_now(self, goal_id: str) -> None:
        """Retry a goal as soon as it can run."""
        self._failed.pop(goal_id, None)

    def forget_warning(self, goal_id: str) -> None:
        """Log the next failure of a goal even if it is the same as the last one."""
        self._warned.pop(goal_id, None)

    def note(self, goal_id: str, last_seq: int, error: BaseException) -> None:
        """Leave a goal alone that could not be resumed: for a moment if something outside was in the way, else longer.

        That another worker has it is not a failure: it is retried at the next poll, and only then a little later, so
        that goals that stay owned do not take the turn of others.
        """
        before = self._failed.get(goal_id)
        if isinstance(error, Owned):
            is_again = before is not None and before.last_seq == last_seq
            self.leave_alone(goal_id, last_seq, OWNED_S if is_again else 0.0)
            return
        if isinstance(error, RunsEnded):
            self._log.debug("%s", error)
        elif self._warned.get(goal_id) != str(error):
            self._warned[goal_id] = str(error)
            self._log.warning("%s was given up here: %s", goal_id, error)
        self.leave_alone(goal_id, last_seq, MOMENT_S if isinstance(error, Unavailable) else PATIENCE_S)
