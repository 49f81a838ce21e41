"""Runs a random flow through kills until it ends, and a person beside it who answers and settles."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from perdure import NotFound, failpoints
from perdure.kernel.events import Ask, Event, MindSpec, ToolCall, Wait
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import Worker
from tests.faults.flows import random_flow
from tests.faults.outside import Outside
from tests.faults.programs import NEVER
from tests.kernel.world import World

POINTS = ("kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after")
_MOST_LIVES = 60


class Died(BaseException):
    """What a process feels when it is killed: nothing of ours may catch it."""


@dataclass
class NamedWorld(World):
    """A world whose workers have names that no other world uses, because they share a store."""

    name: str = ""

    def new_worker(self) -> Worker:
        """See World.new_worker."""
        worker = super().new_worker()
        self.dead.add(f"{self.name}-{self.workers - 1}")
        return replace(worker, id=f"{self.name}-{self.workers}")


@dataclass
class Lives:
    """One goal, run by one life after the other."""

    world: World
    seed: int
    outside: Outside
    kills: int = 3
    goal_id: str = ""
    deaths: int = 0
    loop: Loop | None = None
    helping: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    posts: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.goal_id = self.goal_id or f"goal-{self.seed}"
        self.world.watch = self._watch

    async def live(self) -> GoalState:
        """Live until the goal has ended, and return its last state."""
        for _ in range(_MOST_LIVES):
            state = await self._state()
            if state is not None and state.termination is not None:
                await self._end_help()
                return state
            self.life = asyncio.create_task(self._live_once())
            try:
                ran = await self.life
            except (Died, asyncio.CancelledError):
                assert self.life.done()
                self.deaths += 1
                continue
            finally:
                self.loop = None
            if ran.outcome == "waiting":
                await self._wait_for_help(ran.state)
        raise AssertionError(f"seed {self.seed}: the goal does not end")

    async def _live_once(self) -> Ran:
        with ExitStack() as stack:
            if self.kills > 0 and self.chance.random() < 0.8:
                self.kills -= 1
                point = self.chance.choice(POINTS)
                stack.enter_context(failpoints.armed(point, self._blow(self.chance.randint(1, 10))))
            state = await self._state()
            if state is None:
                spec = MindSpec("flow", at=random_flow.path, args={"args": [self.seed], "kwargs": {}})
                return await self.world.start(spec, self.goal_id)
            self._help(state)
            return await self.world.resume(self.goal_id)

    async def _state(self) -> GoalState | None:
        try:
            return fold(await self.world.store.load(self.goal_id))
        except NotFound:
            return None

    def _blow(self, nth: int) -> "_Blow":
        return _Blow(nth, self.chance.random() < 0.15, self)

    def stop(self) -> None:
        """Let what runs finish, and cut it short when that takes long: a step may never end."""
        if self.loop is not None:
            self.loop.stop()
            asyncio.get_running_loop().call_later(5, self.life.cancel)

    def _watch(self, loop: Loop) -> None:
        self.loop = loop
        loop.journal.listen(self._hear)

    def _hear(self, events: Sequence[Event], state: GoalState) -> None:  # noqa: ARG002 (as a listener)
        self._help(state)

    def _help(self, state: GoalState) -> None:
        """Do a moment later what a person would: answer, signal, and settle what is unknown by looking at the world."""
        for name, call in state.open_calls.items():
            is_asked = isinstance(call.call, Ask) and call.call.question != NEVER
            is_signal = isinstance(call.call, Wait) and call.call.signal == "go"
            if (is_asked or is_signal or call.unknown is not None) and name not in self.helping:
                delay_s = self.chance.choice([0.0, 0.01, 0.3, 1.0, 70.0])
                self.helping[name] = asyncio.create_task(self._help_call(name, delay_s))

    async def _help_call(self, name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        state = fold(await self.world.store.load(self.goal_id))
        found = state.open_calls.get(name)
        self.posts += 1
        key = f"{name}/{self.posts}"
        if found is not None and state.termination is None:
            match found.call:
                case Wait():
                    await self.world.store.post(self.goal_id, "signal", {"name": "go", "payload": "went"}, key=key)
                case Ask():
                    await self._decide(name, "answer", "fine", key)
                case ToolCall(arguments=arguments):
                    place, *others = arguments["args"]
                    has_happened = bool(others) and self.outside.by_place()[place] > 0
                    await self._decide(name, "skip" if has_happened else "retry", place, key)
        self.helping.pop(name, None)
        if self.loop is not None:
            self.loop.look()

    async def _decide(self, name: str, verdict: str, value: str, key: str) -> None:
        payload = {"call_id": name, "decision": verdict, "value": value if verdict != "retry" else None}
        await self.world.store.post(self.goal_id, "decision", payload, key=key)

    async def _wait_for_help(self, state: GoalState) -> None:
        """Wait for what the goal waits for: a person, or a moment."""
        self._help(state)
        timers = state.timers().values()
        pause_s = max(min(timers) - self.world.clock.now_us(), 0) / 1e6 if timers else None
        assert self.helping or timers, f"seed {self.seed}: the goal waits for nothing that comes: {state.open_calls}"
        if self.helping:
            await asyncio.wait(self.helping.values(), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(pause_s or 0.0)

    async def _end_help(self) -> None:
        for task in list(self.helping.values()):
            task.cancel()
        await asyncio.gather(*self.helping.values(), return_exceptions=True)


@dataclass
class _Blow:
    """Ends a life at the nth hit of a point: by death, or by a wish to stop."""

    nth: int
    is_stop: bool
    lives: Lives

    def __call__(self) -> None:
        self.nth -= 1
        if self.nth == 0:
            if not self.is_stop:
                raise Died
            self.lives.stop()
