"""Runs a random flow and its children through kills until it ends, and a person beside it."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from perdure import failpoints
from perdure.kernel.events import Event, MindSpec
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, RunResult
from tests.faults.flows import random_flow
from tests.faults.household import Died, Household, ProcessWorld
from tests.faults.outside import Outside
from tests.faults.person import Person

POINTS = (
    *("kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after") * 2,
    *("kernel.children.before", "kernel.children.after"),
)
Hit = tuple[str, int]
"""The nth hit of a point."""
_MOST_RUNS = 60
_MOST_RETRIES = 5
_CUT_SHORT_S = 5


class Lives:
    """One goal, run by one process after the other."""

    def __init__(
        self, world: ProcessWorld, seed: int, outside: Outside, *, kills: int, killed_at: Hit | None = None
    ) -> None:
        self.world = world
        self.outside = outside
        self.goal_id = f"goal-{seed}"
        self.deaths = 0
        self._seed = seed
        self._kills = kills
        self._killed_at = killed_at
        self._chance = random.Random(seed)
        self.household = Household(world, parks=self._chance.random() < 0.5)
        self.household.wait_for_news, self.household.on_death = self._wait_for_news, self._cut_short
        self._person = Person(world.store, outside, self._chance, self.household.check_inbox)
        self._run: asyncio.Task[RunResult] | None = None
        self._armed = ExitStack()
        world.watch, world.children = self._watch, self.household

    async def live(self) -> GoalState:
        """Live until the goal has ended, and return its last state."""
        try:
            return await self._live()
        finally:
            self._armed.close()
            await self._person.leave()
            await self.household.die()

    async def _live(self) -> GoalState:
        self._begin_process()
        for _ in range(_MOST_RUNS):
            state = await self.world.state(self.goal_id)
            if state is not None and state.termination is not None and state.status != "failed":
                return state
            self._run = asyncio.create_task(self._run_once(state))
            if self.household.is_dead:  # by the death of a child while the state was read
                self._run.cancel()
            try:
                ran = await self._run
            except (Died, asyncio.CancelledError):
                self.household.is_dead = True
            else:
                if ran.outcome == "waiting":
                    await self._wait_for_news(ran.state, [self._death, *self.household.runs()])
            if self.household.is_dead or ran.outcome == "interrupted":
                self.deaths += 1
                await self.household.die()
                self._begin_process()
        raise AssertionError(f"seed {self._seed}: the goal does not end")

    def _begin_process(self) -> None:
        self._death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.world.begin_process()
        self._armed.close()
        if self._killed_at is not None:
            (point, nth), self._killed_at = self._killed_at, None
            self._armed.enter_context(failpoints.armed(point, _Blow(nth, is_stop=False, lives=self)))
        elif self._kills > 0 and self._chance.random() < 0.9:
            self._kills -= 1
            blow = _Blow(self._chance.randint(1, 7), self._chance.random() < 0.15, self)
            self._armed.enter_context(failpoints.armed(self._chance.choice(POINTS), blow))

    async def _run_once(self, state: GoalState | None) -> RunResult:
        """Start the goal, resume it, or mend what made it fail and retry it."""
        if state is None:
            spec = MindSpec("flow", at=random_flow.path, args={"args": [self._seed], "kwargs": {}})
            return await self.world.start(spec, self.goal_id)
        if state.termination is None:
            return await self.world.resume(self.goal_id)
        self.outside.note_retries(len(state.reopenings) + 1)
        assert self.outside.retries <= _MOST_RETRIES, (
            f"seed {self._seed}: it fails again and again: {state.termination}"
        )
        await self.household.reopen_failed(state)
        return await self.world.retry(self.goal_id)

    def stop(self) -> None:
        """Let what runs finish, and cut it short when that takes long: a step may never end."""
        for loop in self.household.loops.values():
            loop.stop()
        asyncio.get_running_loop().call_later(_CUT_SHORT_S, self._kill, self._death)

    def _kill(self, death: "asyncio.Future[None]") -> None:
        """End a process that was told to stop, if it has not ended by itself."""
        if not death.done() and death is self._death:
            self.household.is_dead = True
            self._cut_short()

    def _cut_short(self) -> None:
        """End the run of the parent, because the process has died."""
        if self._run is not None:
            self._run.cancel()
        if not self._death.done():
            self._death.set_result(None)

    def _watch(self, loop: Loop) -> None:
        self.household.loops[loop.journal.goal_id] = loop
        loop.journal.listen(self._hear)
        self._person.help(loop.state)  # of what a process has asked that died before it could tell

    def _hear(self, events: Sequence[Event], state: GoalState) -> None:  # noqa: ARG002 (as a listener)
        self._person.help(state)

    async def _wait_for_news(self, state: GoalState, others: Iterable["asyncio.Future[Any]"]) -> None:
        """Wait for what a goal waits for: a person, a moment, or something else."""
        self._person.help(state)
        awaited = [*self._person.at_work(), *others]  # before the inbox: what ends meanwhile has posted something
        if self.household.has_ended_one(state) or await self.world.store.inbox(state.goal_id):
            return
        timers = state.timers().values()
        pause_s = max(min(timers) - self.world.clock.now_us(), 0) / 1e6 if timers else None
        assert awaited or timers, f"seed {self._seed}: the goal waits for nothing that comes: {state.open_calls}"
        if awaited:
            await asyncio.wait(awaited, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(pause_s or 0.0)


@dataclass
class _Blow:
    """Ends a process at the nth hit of a point: by death, or by a wish to stop."""

    nth: int
    is_stop: bool
    lives: Lives

    def __call__(self) -> None:
        self.nth -= 1
        if self.nth == 0:
            if not self.is_stop:
                raise Died
            self.lives.stop()
