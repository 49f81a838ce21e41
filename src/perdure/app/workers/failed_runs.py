"""Goals that could not be resumed here: each is paused for a while, and its error is logged once."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.app.workers.worker import RunsEnded
from perdure.errors import Unavailable
from perdure.kernel.ports import Clock, Owned

PATIENCE_S = 60.0
"""The pause after a failed resume, unless a new event is recorded for the goal."""
MOMENT_S = 2.0
"""The pause after a temporary failure, or a run that recorded nothing."""
OWNED_S = 1.0
"""The pause for a goal that another run or worker still owns."""


@dataclass(frozen=True)
class _Failed:
    last_seq: int
    until_s: float


class FailedRuns:
    """The paused goals, each with the seq at which its run failed: a newer event ends the pause."""

    def __init__(self, clock: Clock, log: logging.Logger) -> None:
        self._clock = clock
        self._log = log
        self._failed: dict[str, _Failed] = {}
        self._warned: dict[str, str] = {}
        """The last logged failure of each goal; the same failure is logged once."""

    def is_paused(self, goal_id: str, last_seq: int) -> bool:
        """Return whether a goal is still paused; a pause that is over is removed."""
        failed = self._failed.get(goal_id)
        if failed is None:
            return False
        if failed.last_seq == last_seq and self._clock.boottime_s() < failed.until_s:
            return True
        del self._failed[goal_id]
        return False

    def paused(self) -> Sequence[tuple[str, int]]:
        """Return the paused goals, each with its seq; the newest failure is last."""
        now_s = self._clock.boottime_s()
        return [(name, failed.last_seq) for name, failed in self._failed.items() if now_s < failed.until_s]

    def patience_s(self, goal_id: str) -> float | None:
        """Return the remaining seconds of the pause of a goal; None without a pause."""
        failed = self._failed.get(goal_id)
        return None if failed is None else failed.until_s - self._clock.boottime_s()

    def pause(self, goal_id: str, last_seq: int, patience_s: float) -> None:
        """Pause a goal for some seconds, or until a new event is recorded for it."""
        self._failed.pop(goal_id, None)  # the newest are last
        self._failed[goal_id] = _Failed(last_seq, self._clock.boottime_s() + patience_s)

    def retry_now(self, goal_id: str) -> None:
        """Retry a goal as soon as it can run."""
        self._failed.pop(goal_id, None)

    def forget_warning(self, goal_id: str) -> None:
        """Log the next failure of a goal even if it is the same as the last one."""
        self._warned.pop(goal_id, None)

    def note(self, goal_id: str, last_seq: int, error: BaseException) -> None:
        """Pause a goal that could not be resumed: briefly after a temporary failure, else longer.

        A goal that another worker owns has not failed: it is retried at the next poll, and then after a short pause, so
        that goals that stay owned do not take the turns of others.
        """
        before = self._failed.get(goal_id)
        if isinstance(error, Owned):
            is_again = before is not None and before.last_seq == last_seq
            self.pause(goal_id, last_seq, OWNED_S if is_again else 0.0)
            return
        if isinstance(error, RunsEnded):
            self._log.debug("%s", error)
        elif self._warned.get(goal_id) != str(error):
            self._warned[goal_id] = str(error)
            self._log.warning("resuming %s failed: %s", goal_id, error)
        self.pause(goal_id, last_seq, MOMENT_S if isinstance(error, Unavailable) else PATIENCE_S)
