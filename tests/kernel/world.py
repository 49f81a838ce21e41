"""A small world for goals: a clock that only moves when told, ids that count, and a tool whose effects are counted."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from perdure.kernel.events import GoalBegun, MindSpec, ToolError, ToolOutput
from perdure.kernel.fold import fold
from perdure.kernel.journal import Journal
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import CallContext, Check, Leases, StateStore, Worker
from perdure.minds.factory import make_mind


@dataclass
class HandClock:
    """Moves by what is slept, and not otherwise."""

    now: int = 1_700_000_000_000_000

    def now_us(self) -> int:
        self.now += 1
        return self.now

    def boottime_s(self) -> float:
        return self.now / 1e6

    async def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)
        await asyncio.sleep(0)


@dataclass
class CountedIds:
    """Numbers instead of chance."""

    count: int = 0

    def event_id(self) -> str:
        self.count += 1
        return str(UUID(int=self.count))

    def goal_id(self, text: str) -> str:
        return f"goal-{text}"


@dataclass
class CountingTool:
    """Counts what it was made to do, by step; what it answers can be chosen."""

    name: str = "exec"
    effects: Counter[str] = field(default_factory=Counter)
    fails: Counter[str] = field(default_factory=Counter)
    checks: dict[str, Check] = field(default_factory=dict)
    reaped: list[str] = field(default_factory=list)
    during: Callable[[CallContext], None] = lambda _context: None

    async def run(self, context: CallContext) -> ToolOutput:
        call = context.call
        self.effects[call.step] += 1
        self.during(context)
        await asyncio.sleep(0)
        if self.fails[call.step] > 0:
            self.fails[call.step] -= 1
            return ToolOutput(call.call_id, ok=False, error=ToolError("exit", "exit code 1"))
        return ToolOutput(call.call_id, ok=True, output={"exit_code": 0, "stdout": f"{call.step}\n"})

    async def check(self, context: CallContext) -> Check:
        return self.checks.get(context.call.step, "unknown")

    async def reap(self, goal_id: str, call_id: str) -> None:  # noqa: ARG002 (as the port says)
        self.reaped.append(call_id)


@dataclass
class World:
    """Everything that a goal needs, and a way to run it again after a death."""

    store: StateStore
    leases: Leases
    clock: HandClock = field(default_factory=HandClock)
    ids: CountedIds = field(default_factory=CountedIds)
    tool: CountingTool = field(default_factory=CountingTool)
    workers: int = 0

    def new_worker(self) -> Worker:
        self.workers += 1
        return Worker(f"worker-{self.workers}", "here", "home", "boot")

    async def start(self, plan: str, goal_id: str = "goal-a") -> Ran:
        """Run a new goal."""
        worker = self.new_worker()
        await self.leases.renew(worker, 30)
        begun = GoalBegun("a", MindSpec("plan", plan=plan), workdir="/")
        journal = Journal.begin(self.store, self.clock, self.ids, worker, begun, goal_id)
        return await self._loop(journal).run(is_resumed=False)

    async def resume(self, goal_id: str = "goal-a") -> Ran:
        """Run a goal again, after whoever ran it has died."""
        worker = self.new_worker()
        await self.leases.renew(worker, 30)
        epoch = await self.leases.claim(goal_id, worker)
        state = fold(await self.store.load(goal_id))
        journal = Journal(self.store, self.clock, self.ids, worker, state, epoch)
        return await self._loop(journal).run(is_resumed=True)

    def _loop(self, journal: Journal) -> Loop:
        begun = journal.state.begun
        mind = make_mind(begun.mind, begun.text, jobs=4)
        return Loop(journal, self.store, mind, {"exec": self.tool}, self.clock, workdir="/")
