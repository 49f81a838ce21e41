"""A temporary home for one test, with simulated crashes."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from perdure.app import Perdure
from perdure.app.home.opening import app_queue
from perdure.errors import Unavailable
from perdure.kernel.loop import TURN
from perdure.kernel.ports import GoalStore, Leases
from perdure.settings import Settings, load_settings
from perdure.store.client import DatabaseClient
from perdure.testing.clock import ManualClock
from perdure.testing.replacements import Replacement, Replacements

if TYPE_CHECKING:
    from perdure.testing.goals import AttendedGoals

_PAUSE_S = 0.002
_TURNS = 20
"""The number of turns of the event loop in which a new task starts its goal."""
_UNWIND_S = 15.0
_LONGEST_S = 60.0
_CLAIM = "claim"


class TemporaryHome(Perdure):
    """An open home that is removed after its test; `perdure.testing.home()` returns one.

    Its goals are in the queue of an application with `recover`: a parked goal resumes when it is due or answered.
    """

    def __init__(self, settings: Settings, database: DatabaseClient, *, now: datetime, patience_s: float) -> None:
        super().__init__(settings, database, queue=app_queue("test", recover=True))
        self.clock = ManualClock(now, self)
        """The clock of its goals."""
        self._patience_s = patience_s
        self._replacements = Replacements(self.clock)
        self._connection = _Connection()
        self._stuck: set[tuple[str, str]] = set()
        """Work that has run for longer than the patience of the home; the clock does not wait for it again."""

    def replace(self, fn: Callable[..., object], fake: Callable[..., object]) -> Replacement:
        """Call `fake` instead of `fn` in every step and check, until the home is closed or the `with` block ends.

        `fn` is a function, a method of an object, or a method of a class (for all its objects); `fake` is sync or
        async. The step keeps the name of `fn`.

        Raises: Invalid when one of them is not a function.
        """
        return self._replacements.add(fn, fake)

    async def crash(self) -> None:
        """End all runs as if the process had been killed, and open the same home again, which recovers its goals.

        Nothing more is recorded: a running step has no outcome, and the owner of its goal is dead. Earlier handles and
        the earlier `p.goals` belong to the dead process. Unlike after a kill, `finally` blocks run, but not their
        steps; and a sync function of a step, which cannot be stopped, finishes.
        """
        goals = self.goals
        self._connection.is_cut = True
        await goals.end_runs()
        async with asyncio.timeout(_UNWIND_S):
            while goals.runs():  # noqa: ASYNC110 (their own tasks end them, one by one)
                await asyncio.sleep(_PAUSE_S)
        await self.close()
        await self.database.close()
        self.database = await DatabaseClient.create(self.settings.database_url)
        self._forget()
        await self.settle()

    async def settle(self) -> None:
        """Wait until nothing runs: every goal has ended, or waits for the clock, an answer or a signal.

        Interrupted, answered and due goals are resumed, after posts to running goals are applied: answers, signals and
        cancels. A step or other work that takes longer than the patience of the home keeps running.
        """
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await self._wait_until_idle()
        while await self._has_more():
            await self._wait_until_idle()

    async def next_due_us(self, until_us: int) -> int | None:
        """See Timed.next_due_us."""
        now_us = self.clock.now_us()
        running = [loop.due_us for loop in self.goals.runs().values() if loop is not None]
        parked = [goal.summary.due_us async for goal in self.goals.each_due(until_us=until_us)]
        moments = [due_us for due_us in (*running, *parked) if due_us is not None and now_us < due_us <= until_us]
        return min(moments, default=None)

    def wake(self) -> None:
        """See Timed.wake."""
        for loop in self.goals.runs().values():
            if loop is not None:
                loop.check_inbox()

    def _is_at_rest(self) -> bool:
        return not self._active() - self._stuck

    def _make_goals(self) -> "AttendedGoals":
        from perdure.testing.goals import AttendedGoals, Patience

        store = cast("GoalStore", _Cuttable(self.database.state_store(), self._connection))
        leases = cast("Leases", _Cuttable(self._leases(), self._connection))
        goals = AttendedGoals(
            self.settings.home,
            store,
            leases,
            clock=self.clock,
            calls=self._replacements,
            park_after_s=self.settings.park_after_s,
            queue=self._queue,
            imports=self.settings.imports,
        )
        goals.attend(Patience(self.clock.now_us, self._is_at_rest, self._patience_s))
        goals.worker.recover()
        return goals

    def _forget(self) -> None:
        """Drop the services of the crashed process."""
        self._goals = self._memory = self._forge = self._bots = self._skills = None
        self._connection = _Connection()
        self._stuck.clear()

    async def _has_more(self) -> bool:
        """Apply posts, and resume goals that can continue; return whether something runs."""
        await self.goals.read_all_inboxes()
        is_resumed = await self.goals.worker.poll()
        return is_resumed or bool(self._active() - self._stuck)  # the poll of the worker may have started something

    async def _wait_until_idle(self) -> None:
        time = asyncio.get_running_loop().time
        started_s = time()
        while active := self._active():
            self._stuck &= active
            turns = {each for each in active if each[1] in (TURN, _CLAIM)}
            if time() - started_s > self._patience_s:
                self._stuck |= active - turns
            if time() - started_s > _LONGEST_S:
                raise Unavailable(f"The goals of this home did not settle within {_LONGEST_S:g} s: {sorted(active)}.")
            if active == self._stuck:
                return
            await asyncio.sleep(_PAUSE_S)

    def _active(self) -> set[tuple[str, str]]:
        """Return the running work of each goal; a goal that is being claimed or released is active."""
        goals = cast("AttendedGoals", self.goals)
        runs = goals.runs()
        loops = {goal_id: runs.get(goal_id) for goal_id in {*runs, *goals.worker.running, *goals.awaited()}}
        return {(goal_id, what) for goal_id, loop in loops.items() for what in (loop.active if loop else [_CLAIM])}


class _Connection:
    """The connection of a home to its database until a crash."""

    def __init__(self) -> None:
        self.is_cut = False


class _Cuttable:
    """A store or its leases; after the line is cut, calls raise Unavailable."""

    def __init__(self, real: object, connection: _Connection) -> None:
        self._real = real
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        if self._connection.is_cut:
            raise Unavailable("This home has crashed: its test called `crash()`.")
        return getattr(self._real, name)


@asynccontextmanager
async def home(
    *, database_url: str | None = None, now: datetime | None = None, patience_s: float = 5.0
) -> AsyncIterator[TemporaryHome]:
    """Open a home in a temporary folder inside an `async with` block.

    `database_url` is the database (default: a SQLite file in that folder); it is not removed. `now` is the initial time
    of the clock (default: the real time). `patience_s` is the maximum time that `advance` waits for one running step.

    Raises: Invalid when `now` has no time zone; otherwise as `Perdure.open`.
    """
    with tempfile.TemporaryDirectory(prefix="perdure-testing-") as folder:
        folder_path = Path(folder) / "home"
        flags = {"home": str(folder_path), "database_url": database_url or str(folder_path / "perdure.db")}
        settings = load_settings(flags, environment={})
        folder_path.mkdir()
        database = await DatabaseClient.create(settings.database_url)
        p = TemporaryHome(settings, database, now=now or datetime.now(UTC), patience_s=patience_s)
        try:
            p.goals.require_open()  # creates the goals here, where an event loop runs
            yield p
        finally:
            try:
                await p.close()
            finally:
                await p.database.close()
