"""A small world for goals: a clock that only moves when told, ids that count, and a tool whose effects are counted."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from perdure import Invalid
from perdure.kernel.calls.children import NO_CHILDREN, Children
from perdure.kernel.calls.toolbox import StaticTools, Toolbox
from perdure.kernel.events import Body, GoalBegun, Limits, MindSpec, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import plan_retry
from perdure.kernel.inbox import drain
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.mind import Mind, Proposal
from perdure.kernel.ports import GoalStore, Leases, Worker
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import CallContext, Check, Judgement, Policy, ToolSource, ToolSpec, Verdict
from perdure.minds.factory import MindRequest, make_mind
from perdure.tools.exec.command import SPEC as EXEC


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

    spec: ToolSpec = EXEC
    effects: Counter[str] = field(default_factory=Counter)
    fails: Counter[str] = field(default_factory=Counter)
    checks: dict[str, Check] = field(default_factory=dict)
    reaped: list[str] = field(default_factory=list)
    during: Callable[[CallContext], None] = lambda _context: None
    then: Callable[[CallContext], Awaitable[None]] = lambda _context: asyncio.sleep(0)

    def validate(self, arguments: Mapping[str, Any]) -> None:
        if "argv" not in arguments:
            raise Invalid("argv was expected.")

    async def run(self, context: CallContext) -> ToolOutput:
        call = context.call
        self.effects[call.step] += 1
        self.during(context)
        await self.then(context)
        if self.fails[call.step] > 0:
            self.fails[call.step] -= 1
            return ToolOutput(call.call_id, ok=False, error=ToolError("exit", "exit code 1"))
        return ToolOutput(call.call_id, ok=True, output={"exit_code": 0, "stdout": f"{call.step}\n"})

    async def check(self, context: CallContext) -> Check:
        return self.checks.get(context.call.step, "unknown")

    async def reap(self, goal_id: str, call_id: str) -> None:  # noqa: ARG002 (as the port says)
        self.reaped.append(call_id)


@dataclass
class FixedPolicy:
    """Says the same of everything."""

    verdict: Verdict

    def judge(self, call: ToolCall) -> Judgement:  # noqa: ARG002 (as the port says)
        return Judgement(self.verdict)


@dataclass
class ScriptedMind:
    """A model whose decisions are written down; after the last it has nothing more to say."""

    decisions: list[Proposal]
    is_slow: bool = False

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (as the port says)
        return ()

    async def close(self) -> None:
        pass

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (as the port says)
        return self.decisions.pop(0) if self.decisions and not state.open_calls else Proposal()

    def has_news(self) -> bool:
        return False

    def take_abandoned(self) -> Sequence[str]:
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (as the port says)
        return {}


@dataclass
class World:
    """Everything that a goal needs, and a way to run it again after a death."""

    store: GoalStore
    leases: Leases
    clock: HandClock = field(default_factory=HandClock)
    ids: CountedIds = field(default_factory=CountedIds)
    tool: CountingTool = field(default_factory=CountingTool)
    policy: Policy = field(default_factory=lambda: FixedPolicy("allow"))
    minds: list[Mind] = field(default_factory=list)
    may_start_calls: Callable[[], bool] = lambda: True
    park_after_s: float = 60.0
    end_within_s: float = 10.0
    watch: Callable[[Loop], None] = lambda _loop: None
    dead: set[str] = field(default_factory=set)
    workers: int = 0
    children: Children = NO_CHILDREN
    sources: Sequence[ToolSource] = ()
    records_cut_short: bool = True

    def new_worker(self) -> Worker:
        """Make a worker; the one before it is dead."""
        self.dead.add(f"worker-{self.workers}")
        self.workers += 1
        return Worker(f"worker-{self.workers}", "here", "home", "boot")

    async def start(
        self,
        plan: str | MindSpec,
        goal_id: str = "goal-a",
        limits: Limits | None = None,
        key: str | None = None,
        said: Sequence[Body] = (),
    ) -> RunResult:
        """Run a new goal, which begins with what was said."""
        worker = self.new_worker()
        await self.leases.renew(worker, 30)
        spec = MindSpec("plan", plan=plan) if isinstance(plan, str) else plan
        begun = GoalBegun("a", spec, limits=limits or Limits(), workdir="/")
        journal = Journal.begin(self._journal_deps(worker), begun, goal_id, start_key=key)
        journal.record(*said)
        return await self._run(journal, worker, is_resumed=False)

    async def script(self, *decisions: Proposal, goal_id: str = "goal-a", limits: Limits | None = None) -> RunResult:
        """Run a new goal of a model that decides what is written here, one decision after the other."""
        self.minds.append(ScriptedMind(list(decisions)))
        return await self.start(MindSpec("model"), goal_id, limits)

    async def resume(self, goal_id: str = "goal-a") -> RunResult:
        """Run a goal again, after whoever ran it has died."""
        worker = self.new_worker()
        return await self._run(await self._claimed(goal_id, worker), worker, is_resumed=True)

    async def retry(self, goal_id: str = "goal-a", *, key: str | None = None) -> RunResult:
        """Reopen a failed goal, and run it, after whoever ran it has died."""
        worker = self.new_worker()
        journal = await self._claimed(goal_id, worker, reopen=True)
        journal.reopen(plan_retry(journal.state, by="person"), key=key)
        return await self._run(journal, worker, is_resumed=True)

    async def settle(self, goal_id: str = "goal-a") -> GoalState:
        """Record what was posted to a goal that nobody runs, without running it."""
        journal = await self._claimed(goal_id, self.new_worker())
        await drain(journal, self.store, {"exec": self.tool}, NO_CHILDREN)
        return journal.state

    async def fork(
        self, at: int, goal_id: str = "goal-a", fork_id: str = "goal-f", take_key: str | None = None
    ) -> GoalState:
        """Make a goal that continues from an event of another, and do not run it; with a key, it takes that one's."""
        worker = self.new_worker()
        await self.leases.renew(worker, 30)
        events, key_of = (await self.store.load(goal_id))[:at], goal_id if take_key is not None else None
        journal = Journal.fork(self._journal_deps(worker), events, fork_id, take_key, takes_key_of=key_of)
        await journal.commit(release=True)
        return journal.state

    async def _run(self, journal: Journal, worker: Worker, *, is_resumed: bool) -> RunResult:
        """Run a goal, and give it back when that is cut short; only the dead cannot."""
        try:
            return await self._loop(journal).run(is_resumed=is_resumed)
        except asyncio.CancelledError:
            await self.leases.release(journal.goal_id, worker, journal.epoch)
            raise

    async def _claimed(self, goal_id: str, worker: Worker, *, reopen: bool = False) -> Journal:
        await self.leases.renew(worker, 30)
        epoch = await self.leases.claim(goal_id, worker, reopen=reopen)
        state = fold(await self.store.load(goal_id))
        return Journal(self._journal_deps(worker), state, epoch)

    def _loop(self, journal: Journal) -> Loop:
        loop = Loop(journal, self.store, self._run_context(journal), self.clock)
        self.watch(loop)
        return loop

    def _run_context(self, journal: Journal) -> RunContext:
        begun = journal.state.begun
        others = ("/", self.may_start_calls, self.park_after_s, self.end_within_s)
        given = StaticTools("given", [self.tool])
        if self.minds:
            tools = Toolbox([given, *self.sources])
            recorded = self.records_cut_short
            return RunContext(self.minds.pop(0), tools, self.policy, *others, records_cut_short=recorded)
        made = make_mind(MindRequest(begun))
        tools = Toolbox([given, *made.sources])
        return RunContext(made.mind, tools, self.policy, *others, children=self.children)

    def _journal_deps(self, worker: Worker) -> JournalDeps:
        return JournalDeps(self.store, self.clock, self.ids, worker)
