"""The life of a goal that is cancelled while its flow waits, and that dies at a chosen append."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from perdure import failpoints
from perdure.kernel.events import Limits, MindSpec
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import Loop
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World
from tests.registered_flows import path_of

FlowFunction = Callable[[Goal], Coroutine[Any, Any, Any]]


class Died(BaseException):
    """Stands for a kill."""


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Poll until something is so."""
    async with asyncio.timeout(10):
        while not await is_so():  # noqa: ASYNC110 (what is waited for is in a store)
            await asyncio.sleep(0.002)


@dataclass
class Life:
    """A flow that is cancelled once, when it waits after its first step, and that may die then."""

    fn: FlowFunction
    world: World
    die_before: int | None = None
    die_after: int | None = None
    is_live: bool = True
    """Whether a worker runs the goal when it is cancelled."""
    limits: Limits | None = None
    payload: dict[str, Any] = field(default_factory=lambda: {"reason": "no longer wanted"})

    def __post_init__(self) -> None:
        self.spec = MindSpec("flow", at=path_of(self.fn, cleanup=True), cleanup=True)
        self.world.watch = self._watch
        self._appends = {"before": 0, "after": 0}

    def _watch(self, loop: Loop) -> None:
        self.loop = loop

    async def ended(self) -> GoalState:
        """Run the goal until it waits, cancel it, and run it until its end, whatever dies meanwhile."""
        await self.begin()
        await self.cancel()
        return await self.run_to_end()

    async def begin(self) -> None:
        """Run until the first step is recorded and the flow waits; without a worker, leave it interrupted there."""
        self.task = asyncio.create_task(self.world.start(self.spec, limits=self.limits))
        await until(self._waits)
        if not self.is_live:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task

    async def cancel(self, key: str = "cancel-1", **payload: Any) -> None:
        """Cancel the goal."""
        await self.world.store.post("goal-a", "cancel", payload or self.payload, key=key)
        if self.is_live:
            self.loop.check_inbox()

    async def run_to_end(self) -> GoalState:
        """Run the goal to its end, over deaths."""
        with (
            failpoints.armed("kernel.append.before", lambda: self._die("before", self.die_before)),
            failpoints.armed("kernel.append.after", lambda: self._die("after", self.die_after)),
        ):
            with suppress(Died, asyncio.CancelledError):
                await self.task
            for _ in range(20):
                state = await self.state()
                if state.termination is not None:
                    return state
                with suppress(Died):
                    await self.world.resume()
        raise AssertionError(f"{self.fn.__name__} never ended")

    async def state(self) -> GoalState:
        """Return the goal as it is stored."""
        return fold(await self.world.store.load("goal-a"))

    def _die(self, when: str, number: int | None) -> None:
        self._appends[when] += 1
        if self._appends[when] == number:
            raise Died

    async def _waits(self) -> bool:
        if not await self.world.store.list_goals():
            return False
        state = await self.state()
        return bool(state.settled) and (bool(state.open_calls) or state.reached_limit is not None)


def endings(state: GoalState) -> dict[str, str]:
    """Return how each step of a goal has ended."""
    said: dict[str, str] = {}
    for call in state.calls.values():
        if call.outcome is not None:
            said[call.call.step] = call.outcome.error.code if call.outcome.error else "ok"
        else:
            said[call.call.step] = call.decision.decision if call.decision else "open"
    return said
