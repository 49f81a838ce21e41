"""Runs goals in this process: owns a goal, and wires its mind, tools and policy to the loop of the kernel."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.goals.arguments.limits import raised
from perdure.app.goals.arguments.run_options import Reopening, RunOptions, Tell, Watch
from perdure.app.home.script_interrupts import Interrupted, steps_cut_off
from perdure.app.home.system import SystemIds, WorkerIdentity
from perdure.app.home.workdirs import existing_workdir, own_workdir
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.flow_threads import FlowThread
from perdure.app.workers.ownership import Ownership
from perdure.app.workers.run_context import RunContexts, RunSetup, call_on
from perdure.app.workers.worker import LEASE_S, LocalWorker
from perdure.files.folders import ensure_folder
from perdure.kernel.calls.cleanup import GRACE_S, PARENT
from perdure.kernel.calls.holding import hold_after, is_held, release
from perdure.kernel.events import Body, Event, GoalBegun, Limits, MindSpec, PolicySpec
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import plan_continuation, plan_retry
from perdure.kernel.inbox import drain
from perdure.kernel.journal import UNCHANGED, ForkChanges, Journal
from perdure.kernel.loop import Outcome, RunResult
from perdure.kernel.ports import ClaimedGoal, Clock, Inbox, Leases, StateStore, Worker
from perdure.kernel.run_context import RunContext
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls

if TYPE_CHECKING:
    from perdure.app.goals.new_goal import NewGoal
    from perdure.app.workers.children import HomeChildren

PARK_S = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _New:
    """A goal with an id that is not stored yet."""

    goal_id: str
    begun: GoalBegun
    run_context: RunContext
    folder: Path | None
    """The folder to create for the goal, unless its caller named one."""
    messages: Sequence[Body] = ()


class Runner:
    """The runs of goals in this process."""

    def __init__(  # noqa: PLR0913 (the services of a run)
        self,
        home: Path,
        store: StateStore,
        inbox: Inbox,
        leases: Leases,
        *,
        clock: Clock,
        calls: StepCalls = DIRECT,
        lease_s: float = LEASE_S,
        park_after_s: float = PARK_S,
        cancel_grace_s: float = GRACE_S,
        imports: Sequence[str] = (),
        on_run: Watch,
        default_policy: Callable[[], PolicySpec | None] = lambda: None,
    ) -> None:
        self._default_policy = default_policy
        self._home = home
        self._store = store
        self._inbox = inbox
        self._clock = clock
        self._ids = SystemIds()
        self.interrupted: dict[str, Interrupted] = {}
        """The goals whose last run here was cancelled."""
        self.contexts = RunContexts(home, calls, imports, park_after_s=park_after_s, cancel_grace_s=cancel_grace_s)
        self.process = LocalWorker(lambda: WorkerIdentity(home), inbox, leases, clock, lease_s=lease_s)
        """The worker of this process: its lease, and the goals that it holds."""
        self._setup = RunSetup(self.contexts, self.process, inbox, clock, on_run)
        self._ownership = Ownership(store, leases, clock, self._ids, self.process, self.contexts.end_forks)

    def set_children(self, children: "HomeChildren") -> None:
        """Set the component that runs the children of goals; without it, goals cannot have children."""
        self._setup.child_goals = children

    async def start(self, new: "NewGoal", options: RunOptions) -> RunResult:
        """Start a goal and run it until it ends, waits, or is stopped.

        Raises: Invalid; Conflict when its key was used; nothing is stored then.
        """
        async with self._setup.thread_for(new.mind, options) as thread:
            named = await self._named(new, options, thread)
            async with self.process.holding(named.goal_id) as worker:
                journal = self._journal(named, worker, options, new.key)
                return await self._run(journal, worker, lambda: named.run_context, options, thread, is_resumed=False)

    async def enqueue(self, new: "NewGoal", options: RunOptions) -> GoalState:
        """Store a new goal for the workers of its queue; it does not run yet.

        Raises: as `start`.
        """
        async with self._setup.thread_for(new.mind, options) as thread:
            named = await self._named(new, options, thread)
        async with self.process.holding(named.goal_id) as worker:
            journal = self._journal(named, worker, options, new.key)
            await journal.commit(release=True)
            return journal.state

    async def resume_run(self, goal_id: str, options: RunOptions, limits: Limits) -> RunResult:
        """Resume an open goal, and raise the given limits.

        A goal on hold is released first. An automatic run does not release it, and puts a goal that killed its workers
        on hold.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used.
        """
        owned = self._owning(goal_id, options.queue, options.tell, is_woken=options.is_woken, claim=options.claim)
        async with owned as (worker, journal):
            if options.is_automatic and await self._hold(journal):
                outcome: Outcome = "waiting" if journal.state.termination is None else "ended"
                return RunResult(outcome, journal.state, journal.queue, journal.start_key)
            journal.record(*release(journal.state), *raised(journal.state, limits))
            return await self._resume(journal, worker, options)

    async def reopen(self, goal_id: str, options: RunOptions, again: Reopening) -> RunResult:
        """Reopen and run a failed goal. A goal whose code is in another script is only reopened.

        Nothing is stored before the code of the goal is loaded and has replayed its history.

        Raises: NotFound; Conflict when it cannot be retried, or another live worker owns it; Invalid as `resume_run`.
        """
        begun = await self._begun(goal_id)
        if self.contexts.needs_its_script(begun):
            return await self._reopen_only(goal_id, None, again)
        async with self._reopening(goal_id, options.queue, options.tell, again) as (worker, journal):
            return await self._resume(journal, worker, options)

    async def enqueue_reopened(self, goal_id: str, options: RunOptions, again: Reopening) -> RunResult:
        """Reopen a failed goal for the workers of a queue; it does not run yet.

        Raises: as `reopen`.
        """
        begun = await self._begun(goal_id)
        if self.contexts.needs_its_script(begun):
            return await self._reopen_only(goal_id, None, again)
        async with self._setup.thread_for(begun.mind, options) as thread:
            await call_on(thread, partial(self.contexts.find_flow, begun))
        return await self._reopen_only(goal_id, options.queue, again)

    async def _reopen_only(self, goal_id: str, queue: str | None, again: Reopening) -> RunResult:
        """Reopen a failed goal without running it."""
        async with self._reopening(goal_id, queue, None, again) as (_, journal):
            await journal.commit_opening()
            await self._drain(journal)
            return RunResult("interrupted", journal.state, journal.queue, journal.start_key)

    @asynccontextmanager
    async def _owning(
        self,
        goal_id: str,
        queue: str | None,
        tell: Tell | None,
        *,
        is_woken: bool,
        reopen: bool = False,
        claim: ClaimedGoal | None = None,
    ) -> AsyncIterator[tuple[Worker, Journal]]:
        """Own a goal inside the block; its parent is notified of its end. See Ownership.claimed."""
        async with (
            self.process.holding(goal_id) as worker,
            self._ownership.claimed(
                goal_id, worker, queue, tell, is_woken=is_woken, reopen=reopen, claim=claim
            ) as journal,
        ):
            self._setup.listen_to(journal)
            yield worker, journal

    async def _resume(self, journal: Journal, worker: Worker, options: RunOptions) -> RunResult:
        """Run an owned goal that has run before."""
        begun = replace(journal.state.begun, policy=journal.state.policy)  # a retry may have changed it
        workdir = existing_workdir(self._home, begun)
        async with self._setup.thread_for(begun.mind, options) as thread:
            make_context = self._setup.context_factory(begun, workdir, options, thread)
            return await self._run(journal, worker, make_context, options, thread, is_resumed=True)

    async def _drain(self, journal: Journal) -> None:
        """Record the posts of an owned goal without running it."""
        await drain(journal, self._inbox, self.contexts.tools(), self._setup.children_of(RunOptions()))

    @asynccontextmanager
    async def _reopening(
        self, goal_id: str, queue: str | None, tell: Tell | None, again: Reopening
    ) -> AsyncIterator[tuple[Worker, Journal]]:
        """Own a failed goal inside the block, with its reopening recorded but not stored.

        A cancel that was posted too late to end the goal the first time does not end its retry: it is dropped.
        """
        async with self._owning(goal_id, queue, tell, is_woken=False, reopen=True) as (worker, journal):
            if again.by == PARENT:
                reopened = plan_continuation(journal.state, again.reason)
            else:
                reopened = plan_retry(journal.state, by=again.by, reason=again.reason, policy=again.policy)
            limits = raised(journal.state, again.limits)
            late = [row.id for row in await self._inbox.inbox(goal_id) if row.kind == "cancel"]
            journal.reopen(reopened, *limits, key=again.key, dropped=late)
            yield worker, journal

    async def _begun(self, goal_id: str) -> GoalBegun:
        return fold(await self._store.load(goal_id, upto=1)).begun

    async def settle(self, goal_id: str, *, queue: str | None = None, limits: Limits | None = None) -> GoalView:
        """Record the posts of a goal that no worker runs, without running it.

        With a queue, the goal is put into that queue, and the given limits are raised. It is
        released first if it is on hold: this is how a person's resume is queued.

        Raises: Conflict when a worker runs it, which records the posts; Invalid as `resume_run`.
        """
        async with self._owning(goal_id, queue, None, is_woken=queue is None) as (_, journal):
            if queue is not None:
                journal.record(*release(journal.state))
            journal.record(*raised(journal.state, limits or Limits()))
            await self._drain(journal)
            return GoalView.of_state(journal.state, queue=journal.queue, start_key=journal.start_key)

    async def claim_next(
        self, queues: Collection[str], *, skip: Mapping[str, int], after: str | None
    ) -> ClaimedGoal | None:
        """Claim the next goal of some queues; the caller runs it, or releases it. See Leases.claim_next."""
        return await self.process.claim_next(queues, skip=skip, after=after)

    async def release_claimed(self, claimed: ClaimedGoal) -> None:
        """Release a claimed goal without running it."""
        worker = self.process.worker
        if worker is not None:
            await self._ownership.release(claimed.goal.goal_id, worker, claimed.epoch)

    async def fork(
        self,
        events: Sequence[Event],
        key: str | None = None,
        *,
        takes_key_of: str | None = None,
        call_key: str | None = None,
        changes: ForkChanges = UNCHANGED,
    ) -> GoalState:
        """Create a goal that continues after some events, which the caller has validated; it does not run yet.

        Its start key is `key`, taken from `takes_key_of` in the same commit if that is given. `call_key` names this
        call on the fork's first event.

        Raises: Conflict when they have an end, or the key was used or taken; NotFound when the goal was deleted.
        """
        begun = fold(events).begun
        goal_id = self._ids.goal_id(_title(begun.mind, begun.text))
        async with self.process.holding(goal_id) as worker:
            deps = self._ownership.journal_deps(worker)
            journal = Journal.fork(deps, events, goal_id, key, takes_key_of=takes_key_of, changes=changes)
            await journal.commit(key=call_key, release=True)
            return journal.state

    async def close(self) -> None:
        """Stop the worker of this process."""
        await self.process.close()

    async def _named(self, new: "NewGoal", options: RunOptions, thread: FlowThread | None) -> "_New":
        """Assign an id to a new goal, and check that it can be run.

        Raises: Invalid
        """
        goal_id = new.goal_id or self._ids.goal_id(_title(new.mind, new.text))
        workdir = str(new.workdir or own_workdir(self._home, goal_id))
        begun = _begun_of(new, workdir, self._policy_of(new))
        make_context = self._setup.context_factory(begun, workdir, options, thread, is_new=True)
        run_context = await call_on(thread, make_context)
        if new.workdir is not None:
            return _New(goal_id, begun, run_context, None, new.messages)
        ensure_folder(Path(workdir).parent)  # fails before the goal is stored if the home cannot be written
        return _New(goal_id, begun, run_context, Path(workdir), new.messages)

    def _policy_of(self, new: "NewGoal") -> PolicySpec | None:
        """Return the policy of a new goal: the given one, else that of the settings.

        Raises: Invalid when the settings name an unknown one.
        """
        policy = self._default_policy() if new.policy is None else new.policy
        return None if policy == PolicySpec() else policy

    def _journal(self, new: "_New", worker: Worker, options: RunOptions, key: str | None) -> Journal:
        """Begin a journal; its first commit creates the folder of the goal, so that a lost key race does not leave one.

        After a crash between the two, the folder is created when the goal is resumed.
        """
        journal = Journal.begin(
            self._ownership.journal_deps(worker, options.queue), new.begun, new.goal_id, start_key=key
        )
        journal.record(*new.messages)
        self._setup.listen_to(journal)
        if (folder := new.folder) is not None:
            journal.listen(lambda events, _state: ensure_folder(folder) if events and events[0].seq == 1 else None)
        return journal

    async def _run(
        self,
        journal: Journal,
        worker: Worker,
        make_context: Callable[[], RunContext],
        options: RunOptions,
        thread: FlowThread | None,
        *,
        is_resumed: bool,
    ) -> RunResult:
        with self._noting_interrupts(journal, is_resumed=is_resumed):
            async with self._ownership.releasing(journal, worker), self.process.renewing(worker):
                loop = await self._setup.loop(journal, make_context, options, thread)
                options.watch(loop)
                if (thread is not None or options.commits_start) and not is_resumed:
                    await journal.commit()  # the flow may block before its first call
                return await self.process.run(worker, loop, is_resumed=is_resumed, thread=thread)

    @contextmanager
    def _noting_interrupts(self, journal: Journal, *, is_resumed: bool) -> Iterator[None]:
        """Remember a goal whose run is cancelled before its end, for the message after Ctrl-C."""
        self.interrupted.pop(journal.goal_id, None)
        try:
            yield
        except (asyncio.CancelledError, KeyboardInterrupt):
            if journal.is_stored:
                resumes_by_call = is_resumed or journal.start_key is not None
                begun, steps = journal.state.begun, steps_cut_off(journal.state)
                self.interrupted[journal.goal_id] = Interrupted(journal.goal_id, begun, resumes_by_call, steps)
            raise

    async def _hold(self, journal: Journal) -> bool:
        """Put a goal that killed its workers on hold; return whether it is on hold. Then its posts are recorded."""
        holds = hold_after(journal.state, journal.deaths)
        for hold in holds:
            log.warning("%s is put on hold: its worker died %d times in a row", journal.goal_id, hold.deaths)
        journal.record(*holds)
        if not is_held(journal.state):
            return False
        await self._drain(journal)
        return True


def _begun_of(new: "NewGoal", workdir: str, policy: PolicySpec | None) -> GoalBegun:
    """Return the first event of a new goal."""
    return GoalBegun(
        text=new.text,
        mind=new.mind,
        bot=new.bot,
        limits=new.limits,
        workdir=workdir,
        parent=new.parent,
        tags=new.tags,
        policy=policy,
        bot_version=new.bot_version,
    )


def _title(mind: MindSpec, text: str) -> str:
    """Return the text for the id of a goal: for a flow, its name, because its arguments may be private."""
    return text if mind.flow is None else mind.flow.rpartition(".")[2]
