"""Our side of the measurements: goals written through the store alone, and goals run by the kernel's loop."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.floor import GOALS, STEPS
from bench.measure import Steps
from bench.peers.step import payload
from perdure.app.home.system import SystemClock, SystemIds
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import (
    Body,
    Event,
    GoalBegun,
    Head,
    MindSpec,
    Termination,
    ToolCall,
    ToolOutput,
    seal,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.loop import Loop
from perdure.kernel.mind import Mind, Proposal
from perdure.kernel.ports import GoalStore, Summary, Worker
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import CallContext, Check, Tool, ToolSpec
from perdure.statuses import Status
from perdure.tools.goal_policy import policy_of_goal

WORKER = Worker("bench", "host", "home", "boot")
TOOL = "search"


@dataclass
class Written:
    """One goal, written event by event through the store alone."""

    store: GoalStore
    goal_id: str
    head: Head

    @classmethod
    async def begin(cls, store: GoalStore, goal_id: str) -> "Written":
        goal = cls.of(store, goal_id)
        await goal.append(goal.sealed(GoalBegun("bench", MindSpec("command"))))
        return goal

    @classmethod
    def of(cls, store: GoalStore, goal_id: str) -> "Written":
        """Return a goal without events."""
        return cls(store, goal_id, Head(goal_id))

    def sealed(self, *bodies: Body) -> list[Event]:
        """Make the events that come next."""
        ids, clock = SystemIds(), SystemClock()
        head, made = self.head, []
        for body in bodies:
            made.append(seal(body, head, event_id=ids.event_id(), iteration=head.seq, timestamp_us=clock.now_us()))
            head = Head(self.goal_id, made[-1].seq, made[-1].hash)
        return made

    async def append(
        self, events: list[Event], *, mind: str = "command", status: Status = "open", release: bool = False
    ) -> None:
        """Store events that come next."""
        before, last = self.head.seq, events[-1]
        moment = last.timestamp_us
        await self.store.append_event(
            self.goal_id,
            events,
            expected_seq=before,
            expected_hash=self.head.hash,
            epoch=1,
            summary=Summary(self.goal_id, "bench", mind, status, moment, moment, last.seq, steps=before),
            worker=WORKER.id,
            release=release,
        )
        self.head = Head(self.goal_id, last.seq, last.hash)

    async def end(self) -> None:
        """End the goal and give it back."""
        await self.append(self.sealed(Termination("done")), status="done", release=True)

    async def steps(self, n: int) -> list[float]:
        """Append n events, each by itself, and return what each took, making it included."""
        each = []
        for number in range(n):
            start = time.perf_counter()
            await self.append(self.sealed(step_body(number)))
            each.append(time.perf_counter() - start)
        return each


def step_body(number: int) -> Body:
    """What the floor writes, as an event."""
    return ToolOutput(f"{number}", ok=True, output=payload(number))


class CountingMind:
    """Wants so many steps, one after the other, and then the end. See Mind."""

    is_slow = False

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.each_s: list[float] = []
        self._last = time.perf_counter()

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (as the port says)
        """See Mind.prepare."""
        return ()

    async def close(self) -> None:
        """See Mind.close."""

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (as the port says)
        """See Mind.decide; how long it was since the step before is noted."""
        if state.open_calls:
            return Proposal()
        now = time.perf_counter()
        self.each_s.append(now - self._last)
        self._last = now
        if state.steps == self._steps:
            return Proposal(end=Termination("done"))
        name = f"step-{state.steps}"
        return Proposal([ToolCall(f"{name}.1", name, TOOL, {"i": state.steps}, "idempotent")])

    def has_news(self) -> bool:
        return False

    def take_abandoned(self) -> Sequence[str]:
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (as the port says)
        return {}


class SearchTool:
    """Answers at once, with what the floor writes. See Tool."""

    spec = ToolSpec(TOOL, "Searches.", {"type": "object"}, "idempotent", declares_effect=True)

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate."""

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run."""
        return ToolOutput(context.call.call_id, ok=True, output=payload(context.call.arguments["i"]))

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (as the port says)
        return "unknown"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap; nothing was left running."""


async def run_goal(store: GoalStore, goal_id: str, steps: int) -> list[float]:
    """Run a goal of so many steps by the kernel's loop, and return what each took."""
    mind = CountingMind(steps)
    begun = GoalBegun("bench", MindSpec("command"), workdir="/")
    journal = Journal.begin(JournalDeps(store, SystemClock(), SystemIds(), WORKER), begun, goal_id)
    await new_loop(journal, store, mind, SearchTool()).run(is_resumed=False)
    return mind.each_s[1:]


def new_loop(journal: Journal, store: GoalStore, mind: Mind, tool: Tool) -> Loop:
    """Make a loop; the one place that knows how."""
    return Loop(journal, store, RunContext(mind, Toolbox.of(tool), policy_of_goal(None), "/"), SystemClock())


async def written_together(store: GoalStore) -> Steps:
    """Let 64 goals append 50 events each, through the store alone."""
    goals = await asyncio.gather(*(Written.begin(store, f"written-{number}") for number in range(GOALS)))
    start = time.perf_counter()
    each = await asyncio.gather(*(goal.steps(STEPS) for goal in goals))
    return Steps(time.perf_counter() - start, [one for goal in each for one in goal])


async def run_together(store: GoalStore) -> Steps:
    """Let the kernel's loop run 64 goals of 50 steps each; making and ending them is in the time."""
    start = time.perf_counter()
    each = await asyncio.gather(*(run_goal(store, f"run-{number}", STEPS) for number in range(GOALS)))
    return Steps(time.perf_counter() - start, [one for goal in each for one in goal])
