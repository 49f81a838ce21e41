"""What can be done with goals: start, resume, look, decide, cancel, replay."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perdure.app.system import SystemClock, SystemIds, WorkerIdentity, observer
from perdure.app.views import GoalView
from perdure.app.worker import LEASE_S, LocalWorker
from perdure.errors import Conflict, Invalid, NotFound, PerdureError
from perdure.kernel.decisions import choose
from perdure.kernel.events import Event, GoalBegun, LimitName, LimitRaised, Limits, MindSpec, content_of
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.inbox import drain
from perdure.kernel.journal import Journal
from perdure.kernel.loop import Loop, Ran
from perdure.kernel.ports import InboxRow, Leases, Means, Policy, StateStore, Status, Summary, Tool, Worker
from perdure.kernel.replay import Replayed, replay
from perdure.tools.exec import ExecTool
from perdure.tools.files import ReadFileTool, WriteFileTool
from perdure.tools.policy import AllowAll

Watch = Callable[[Loop], None]
_PAGE = 200
_PATIENCE_S = 2.0


def nobody(_loop: Loop) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class NewGoal:
    """What somebody wants to be achieved, in which folder, and with how much."""

    text: str
    mind: MindSpec
    workdir: Path
    limits: Limits = field(default_factory=Limits)
    bot: str | None = None


@dataclass(frozen=True)
class Manner:
    """How a goal is to be run this time; `watch` is given the loop before it begins, to listen to it or to stop it."""

    jobs: int = 4
    policy: Policy = field(default_factory=AllowAll)
    watch: Watch = nobody


class Goals:
    """The goals of a home."""

    def __init__(self, home: Path, store: StateStore, leases: Leases, *, lease_s: float = LEASE_S) -> None:
        self._home = home
        self._store = store
        self._leases = leases
        self._clock = SystemClock()
        self._ids = SystemIds()
        self._worker = LocalWorker(lambda: WorkerIdentity(home), store, leases, self._clock, lease_s=lease_s)

    async def run(self, new: NewGoal, manner: Manner | None = None) -> Ran:
        """Start a goal and run it until it ends, waits for somebody, or is stopped.

        Raises: Invalid when it makes no sense; nothing is stored then.
        """
        manner = manner or Manner()
        means = self._means(new.mind, new.text, str(new.workdir), manner)
        goal_id = self._ids.goal_id(new.text)
        async with self._worker.holding(goal_id) as worker:
            begun = GoalBegun(new.text, new.mind, new.bot, new.limits, str(new.workdir))
            journal = Journal.begin(self._store, self._clock, self._ids, worker, begun, goal_id)
            loop = Loop(journal, self._store, means, self._clock)
            manner.watch(loop)
            async with self._given_back(journal, worker):
                return await self._worker.run(worker, loop, is_resumed=False)

    async def resume(self, prefix: str, manner: Manner | None = None, limits: Limits | None = None) -> Ran:
        """Go on with a goal, with limits raised where they are given; one that has ended is left as it is.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used.
        """
        manner = manner or Manner()
        summary = await self._store.find(prefix)
        if summary.status in ("done", "stopped"):
            return Ran("ended", await self.state(summary.goal_id))
        async with self._worker.holding(summary.goal_id) as worker:
            journal = await self._claimed(summary.goal_id, worker)
            async with self._given_back(journal, worker):
                journal.record(*_raised(journal.state, limits or Limits()))
                means = self._means_of(journal.state, manner)
                loop = Loop(journal, self._store, means, self._clock)
                manner.watch(loop)
                return await self._worker.run(worker, loop, is_resumed=True)

    async def list(
        self, *, limit: int = 50, status: Status | None = None, before: str | None = None
    ) -> Sequence[GoalView]:
        """Return the newest goals."""
        return await self._seen(await self._store.list_goals(status=status, limit=limit, before=before))

    async def newest_open(self, workdir: Path) -> GoalView:
        """Return the newest goal of a folder that is interrupted or waits.

        Raises: NotFound
        """
        found = [await self._newest(status, workdir) for status in ("open", "waiting")]
        views = [view for view in found if view is not None]
        if not views:
            raise NotFound(f"No goal of {workdir} is interrupted or waits.")
        return max(views, key=lambda view: (view.summary.created_us, view.summary.goal_id))

    async def find(self, prefix: str) -> GoalView:
        """Return the goal whose id begins with a prefix.

        Raises: NotFound; Conflict when there are several.
        """
        return (await self._seen([await self._store.find(prefix)]))[0]

    async def history(self, goal_id: str) -> Sequence[Event]:
        """Return all events of a goal."""
        return await self._store.load(goal_id)

    async def state(self, goal_id: str) -> GoalState:
        """Return what the events of a goal say."""
        return fold(await self._store.load(goal_id))

    async def pending(self, goal_id: str) -> Sequence[InboxRow]:
        """Return what was posted to a goal and not yet taken."""
        return await self._store.inbox(goal_id)

    async def replay(self, prefix: str) -> Replayed:
        """Fold the history of a goal again, checking every event.

        Raises: Damaged, naming the seq.
        """
        summary = await self._store.find(prefix)
        return replay(await self._store.load(summary.goal_id), summary)

    async def decide(self, prefix: str, decision: str, *, call_id: str | None = None, value: Any = None) -> GoalView:
        """Settle an open call, durably; the goal does not run because of it, unless somebody runs it anyway.

        Without a call's id, the only one that the decision fits is meant.

        Raises: NotFound; Invalid; Conflict when it fits nothing that is open.
        """
        goal_id = (await self._store.find(prefix)).goal_id
        chosen = choose(await self.state(goal_id), decision, call_id, value)
        return await self._post(goal_id, "decision", content_of(chosen))

    async def cancel(self, prefix: str) -> GoalView:
        """End a goal; whoever runs it does so, else it is done here.

        Raises: NotFound; Conflict when it has ended.
        """
        return await self._post((await self._store.find(prefix)).goal_id, "cancel", {})

    async def close(self) -> None:
        """Stop being a worker."""
        await self._worker.close()

    async def _post(self, goal_id: str, kind: str, payload: dict[str, Any]) -> GoalView:
        """Put something into a goal's inbox, and record it there and then when nobody runs the goal."""
        await self._store.post(goal_id, kind, payload, key=self._ids.event_id())
        try:
            async with self._worker.holding(goal_id) as worker:
                journal = await self._claimed(goal_id, worker)
                async with self._given_back(journal, worker):
                    await drain(journal, self._store, self._tools(), self._workdir(journal.state))
                return GoalView.of_state(journal.state)
        except Conflict:
            return await self.find(goal_id)  # somebody runs it, and will take what was posted

    async def _claimed(self, goal_id: str, worker: Worker) -> Journal:
        epoch = await self._leases.claim(goal_id, worker)
        return Journal(self._store, self._clock, self._ids, worker, await self.state(goal_id), epoch)

    @asynccontextmanager
    async def _given_back(self, journal: Journal, worker: Worker) -> AsyncIterator[None]:
        """Let others have the goal at once when the block ends early; if that fails, the end of the lease does it."""
        try:
            yield
        finally:
            if not journal.has_let_go():
                with suppress(PerdureError, TimeoutError):
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._leases.release(journal.goal_id, worker, journal.epoch)

    async def _newest(self, status: Status, workdir: Path) -> GoalView | None:
        before = None
        while page := await self.list(status=status, limit=_PAGE, before=before):
            for view in page:
                if view.summary.workdir == str(workdir) and view.status != "running":
                    return view
            before = page[-1].summary.goal_id
        return None

    async def _seen(self, summaries: Sequence[Summary]) -> Sequence[GoalView]:
        """Tell the running from the interrupted, by one query for all."""
        owners = {goal.worker for goal in summaries if goal.worker is not None and goal.status in ("open", "waiting")}
        living = await self._leases.living(owners, observer(self._home)) if owners else frozenset()
        return [GoalView(goal, is_running=goal.worker in living) for goal in summaries]

    def _means_of(self, state: GoalState, manner: Manner) -> Means:
        return self._means(state.begun.mind, state.begun.text, self._workdir(state), manner)

    def _workdir(self, state: GoalState) -> str:
        return state.begun.workdir or str(self._home)

    def _means(self, mind: MindSpec, text: str, workdir: str, manner: Manner) -> Means:
        from perdure.minds.factory import make_mind  # who only looks at goals needs no YAML

        return Means(make_mind(mind, text, manner.jobs), self._tools(), manner.policy, workdir)

    def _tools(self) -> Mapping[str, Tool]:
        tools: Sequence[Tool] = (ExecTool(self._home / "run"), ReadFileTool(), WriteFileTool())
        return {tool.name: tool for tool in tools}


def _raised(state: GoalState, limits: Limits) -> list[LimitRaised]:
    """Return the limits that were raised on purpose.

    Raises: Invalid when one is not above what was used already.
    """
    names: tuple[LimitName, ...] = ("iterations", "tokens", "usd", "seconds")
    raised = []
    for name in names:
        value, used = getattr(limits, name), getattr(state.used, name)
        if value is not None and value <= used:
            raise Invalid(f"{state.goal_id} has used {used:g} {name} already; a limit of {value:g} lets it do nothing.")
        if value is not None:
            raised.append(LimitRaised(name, value))
    return raised
