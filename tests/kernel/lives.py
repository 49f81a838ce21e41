"""A goal that may die at a fail-point as often as is asked for, and is resumed until it ends; and what its history says
when everything that recovery wrote is left out."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure import NotFound, failpoints
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    GoalBegun,
    OutcomeUnknown,
    Termination,
    ToolCall,
    ToolOutput,
    Wait,
    decode,
)
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.replay import replay
from perdure.kernel.loop import Loop
from perdure.kernel.ports import Event, Summary
from tests.kernel.world import CountingTool, World


class Died(BaseException):
    """What a process feels when it is killed: nothing of ours may catch it."""


Blow = Literal["death", "stop", "cancel"]
"""What happens to a life: a kill; a wish to end after the step; a wish to end at once."""


@dataclass
class Lives:
    """One goal, run by one life after the other; blows come at the given numbers of a point's hits in all of them."""

    world: World
    plan: str
    goal_id: str
    point: str
    blows: Mapping[int, Blow] = field(default_factory=dict)
    is_settled_by_others: bool = False
    hits: int = 0
    struck: int = 0
    tool: CountingTool = field(default_factory=CountingTool)

    async def live(self) -> "Lives":
        """Live until the goal has ended, however often that takes; a person answers and settles what is unknown."""
        with failpoints.armed(self.point, self._hit):
            for _ in range(40):
                try:
                    if await self._has_ended():
                        return self
                    self._life = asyncio.ensure_future(self._live_once())
                    await self._life
                except (Died, asyncio.CancelledError):
                    assert self._life.done()
        raise AssertionError(f"{self.goal_id} does not end")

    def cut_short(self) -> None:
        """End this life at once, but not as a death does: it can still give back what it has."""
        self._life.cancel()

    async def history(self) -> list[Event]:
        """Return the history, checked: no gap, every hash right, nothing settled twice."""
        events = await self.world.store.load(self.goal_id)
        assert replay(events, await self._summary()).state.status == "done"
        return events

    async def _live_once(self) -> None:
        self.world.tool = self.tool
        self.world.watch = self._watch
        try:
            state = fold(await self.world.store.load(self.goal_id))
        except NotFound:
            await self.world.start(self.plan, self.goal_id)
            return
        decision = _decision_on(state, self.tool)
        if decision is not None:
            payload = {name: getattr(decision, name) for name in decision.__slots__}
            await self.world.store.post(self.goal_id, "decision", payload, key=f"{decision.call_id}-decided")
            if self.is_settled_by_others:
                await self.world.settle(self.goal_id)
                return
        await self.world.resume(self.goal_id)

    async def _has_ended(self) -> bool:
        try:
            return (await self._summary()).is_final
        except NotFound:
            return False

    async def _summary(self) -> Summary:
        return await self.world.store.find(self.goal_id)

    def _watch(self, loop: Loop) -> None:
        self._loop = loop

    def _hit(self) -> None:
        self.hits += 1
        self.struck += self.hits in self.blows
        match self.blows.get(self.hits):
            case "death":
                raise Died
            case "stop":
                self._loop.stop()
            case "cancel":
                self.cut_short()


def _decision_on(state: GoalState, tool: CountingTool) -> Decision | None:
    """Decide as a person would who sees the world outside: what has happened is skipped, the rest is tried again."""
    for call_id, call in state.open_calls.items():
        if isinstance(call.call, Ask):
            return Decision(call_id, "answer", "yes")
        if call.unknown is not None:
            return Decision(call_id, "skip" if tool.effects[call.call.step] else "retry")
    return None


def story(events: Collection[Event]) -> list[tuple[Any, ...]]:
    """Tell a history without what recovery wrote: a call that was tried again is told once, a skipped one is done."""
    state = fold(events)
    steps = {call_id: call.call.step for call_id, call in state.calls.items()}
    again = {call_id for call_id, call in state.calls.items() if call.decision and call.decision.decision == "retry"}
    told = (_told(decode(event), steps) for event in events if _call_of(decode(event)) not in again)
    return [line for line in told if line is not None]


def _call_of(body: Body) -> str | None:
    return getattr(body, "call_id", None)


def _told(body: Body, steps: dict[str, str]) -> tuple[Any, ...] | None:  # noqa: PLR0911 (one line per kind of event)
    match body:
        case GoalBegun(text=text):
            return ("goal", text)
        case ToolCall() | Ask() | Wait():
            return (type(body).__name__, body.step)
        case OutcomeUnknown() | Decision(decision="approve", by="effect" | "check"):
            return None
        case ToolOutput(call_id=call_id, ok=ok):
            return ("outcome", steps[call_id], ok)
        case Decision(call_id=call_id, decision="skip"):
            return ("outcome", steps[call_id], True)
        case Decision(call_id=call_id, decision=decision, value=value):
            return (decision, steps[call_id], value)
        case Termination(reason=reason, value=value):
            return ("end", reason, {step: each["status"] for step, each in value.items()})
        case _:
            return (type(body).__name__,)
