"""Deletes old finished goals according to the setting `goals.keep_days`."""

import asyncio
import logging

from perdure.app.goals.goals import Goals
from perdure.errors import Conflict, NotFound, PerdureError
from perdure.kernel.ports import Clock

PAUSE_S = 3600.0
BATCH = 100
_DAY_US = 86_400_000_000

log = logging.getLogger(__name__)


class Retention:
    """Deletes finished goals that were last updated more than `keep_days` days ago; 0 keeps all."""

    def __init__(self, goals: Goals, clock: Clock, keep_days: int) -> None:
        self._goals = goals
        self._clock = clock
        self._keep_days = keep_days

    async def run(self) -> None:
        """Delete old goals now, and once an hour from then on."""
        while self._keep_days:
            try:
                count = await self.delete_old()
            except PerdureError as error:
                log.warning("deleting goals older than %d days failed: %s", self._keep_days, error.detail)
            else:
                if count:
                    log.info("deleted %d goals older than %d days", count, self._keep_days)
            await self._clock.sleep(PAUSE_S)

    async def delete_old(self) -> int:
        """Delete old finished goals, newest first, and return their number; goals with forks are kept.

        A fork is newer than its origin, so both are deleted when both are too old. Other work of the server runs
        between two goals.
        """
        cutoff_us = self._clock.now_us() - self._keep_days * _DAY_US
        count, before = 0, None
        while page := await self._goals.finished_before(cutoff_us, limit=BATCH, before=before):
            for goal in page:
                try:
                    await self._goals.delete(goal.id)
                    count += 1
                except (Conflict, NotFound):
                    pass  # it has a fork, was reopened, or another server was quicker
                await asyncio.sleep(0)
            before = page[-1].id
        return count
