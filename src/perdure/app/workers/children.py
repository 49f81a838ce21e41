"""Creates, runs, cancels and retries the children of goals."""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.app.goals.arguments.run_options import Reopening, RunOptions
from perdure.app.models.delegate import DELEGATE
from perdure.app.models.delegations import Delegations
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, Damaged, Invalid, KeyTaken, NotFound, PerdureError
from perdure.kernel.calls.children import (
    CHILD_FAILED,
    MAX_DEPTH,
    TOO_DEEP,
    child_name,
    is_cancelled_for_other,
    open_children,
    outcome_of,
    start_key,
)
from perdure.kernel.calls.cleanup import PARENT
from perdure.kernel.events import (
    Event,
    GoalBegun,
    Limits,
    MindSpec,
    ParentCall,
    PolicySpec,
    ToolCall,
    ToolError,
    ToolOutput,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.history.reopening import NotRetried
from perdure.kernel.journal import Journal
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import GoalDirectory, Owned, StateStore
from perdure.minds.model.providers.choice import NoModel

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.goals.new_goal import NewGoal
    from perdure.app.workers.background import BackgroundRuns
    from perdure.app.workers.runner import Runner
    from perdure.minds.flow.flow import Flow

T = TypeVar("T")
_AT_ONCE = 16
"""The number of children that are created in parallel, so that they share commits."""
_UNWINDING_TRIES = 40
"""The number of attempts to reopen a child whose last run still unwinds; four a second."""


class RunChildren:
    """The children of a goal for one run of it. See Children.

    A flow of a server runs on its own thread. The calls here are executed on the event loop of the home.
    """

    def __init__(self, home: "HomeChildren", options: RunOptions) -> None:
        self._home = home
        self._run_options = options

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:
        """See Children.start."""
        is_woken_by_server = queue == "cli" and self._run_options.queue == "server"  # no worker polls the queue cli
        child_queue = "server" if is_woken_by_server else queue
        return await self._home.on_loop(self._home.start(parent, calls, child_queue, self._run_options))

    async def cancel(self, goal_ids: Collection[str]) -> None:
        """See Children.cancel."""
        if goal_ids:
            await self._home.on_loop(self._home.cancel(goal_ids))

    async def are_active(self, goal_ids: Collection[str]) -> bool:
        """See Children.are_active."""
        if self._run_options.parks_for_children:
            return False
        return await self._home.on_loop(self._home.are_active(goal_ids, self._run_options))


class HomeChildren:
    """The children of all goals of a home."""

    def __init__(self, goals: "Goals", store: StateStore, directory: GoalDirectory, runner: "Runner") -> None:
        self._goals = goals
        self._store = store
        self._directory = directory
        self._runner = runner
        self._loop: asyncio.AbstractEventLoop | None = None
        self.poller: BackgroundRuns | None = None
        """The poller of a queue in this process, which runs the children in that queue."""

    def of_run(self, options: RunOptions) -> RunChildren:
        """Return the children for one run of a goal; it may be called on the thread of a flow."""
        return RunChildren(self, options)

    def note_loop(self) -> None:
        """Store the running event loop as that of the home."""
        self._loop = asyncio.get_running_loop()

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the home."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def start(
        self, parent: GoalState, calls: Sequence[ToolCall], queue: str, options: RunOptions
    ) -> Sequence[ToolOutput]:
        """See Children.start; `options` are those of the run of the parent."""
        known = {goal.id: goal for goal in await self._goals.children_of(parent.goal_id)}
        new = [call for call in calls if call.child not in known]
        outcomes: list[ToolOutput] = []
        depth = await self._depth(parent) if new else 0
        if depth >= MAX_DEPTH:
            outcomes, new = [_too_deep(parent, call) for call in new], []
        delegations = Delegations(self._goals, parent, [*known.values()], depth)
        new, refused = await delegations.admit(new)
        outcomes += refused
        for first in range(0, len(new), _AT_ONCE):
            batch = new[first : first + _AT_ONCE]
            created = [self._create(parent, call, delegations, queue, options) for call in batch]
            outcomes += [outcome for outcome in await asyncio.gather(*created) if outcome is not None]
        for call in calls:
            found = known.get(call.child or "")
            if found is not None and found.is_final:
                outcomes += await self._known_outcome(parent, call, found, options)
            elif found is not None:
                await self._resume(found, options)
        return outcomes

    async def _known_outcome(
        self, parent: GoalState, call: ToolCall, child: GoalView, options: RunOptions
    ) -> Sequence[ToolOutput]:
        """Return the outcome of a call whose child has ended; None if the child is reopened for this call."""
        if not is_cancelled_for_other(await self._goals.state(child.id), call.call_id):
            ended = await outcome_of(self._store, parent, child.id)
            return [] if ended is None else [ended]
        try:
            self._run(await self._reopen(child, call.call_id), options)
        except (NotRetried, NotFound, Invalid) as error:
            why = f"The child {child.id} cannot be continued: {error.detail}"
            failure = ToolError(CHILD_FAILED, why, args=[child.id, "cancelled"], retryable=False)
            return [ToolOutput(call.call_id, ok=False, error=failure)]
        return []

    async def _reopen(self, child: GoalView, call_id: str) -> GoalView:
        """Reopen a child that was cancelled for an earlier call, and return it.

        Raises: NotRetried; NotFound or Invalid when its code is unavailable; Owned when a worker does not release it.
        """
        again, tries = Reopening(reason=call_id, by=PARENT), _UNWINDING_TRIES
        while child.is_final:
            try:
                await self._runner.enqueue_reopened(child.id, RunOptions(queue=child.summary.queue), again)
            except NotRetried:
                raise
            except Conflict:  # the cancelled run still unwinds, or another worker was first
                tries -= 1
                if not tries:
                    raise
                await self._goals.pause()
            child = await self._goals.get(child.id)
        return child

    async def _create(
        self, parent: GoalState, call: ToolCall, delegations: Delegations, queue: str, options: RunOptions
    ) -> ToolOutput | None:
        """Create and run a child; return the outcome of its call if it cannot be created."""
        goal_id = call.child or ""
        try:
            is_delegated = call.tool == DELEGATE
            new = await delegations.new_goal(call) if is_delegated else _new_goal(parent, call, self._flow(call))
            await self._runner.enqueue(new, RunOptions(queue=queue))
        except (Owned, NotRetried):
            raise
        except (Invalid, NotFound, Conflict, NoModel) as error:
            if not await self._has_child(parent, goal_id):
                return await self._why_not_started(parent, call, error)
        self._run(await self._goals.get(goal_id), options)
        return None

    async def _has_child(self, parent: GoalState, goal_id: str) -> bool:
        """Return whether a child exists by now: it may be stored after the death of the worker that started it."""
        return goal_id in [child.id for child in await self._goals.children_of(parent.goal_id)]

    async def _why_not_started(self, parent: GoalState, call: ToolCall, error: PerdureError) -> ToolOutput:
        """Return the outcome of a call whose child cannot be created; for a used key, it names the goal of the key."""
        key = call.arguments.get("key")
        owner = None if key is None else await self._directory.started(key)
        if owner is None or isinstance(error, KeyTaken):
            return _not_started(call, error.code, error.detail)
        return _not_started(call, "conflict", _key_conflict(str(key), owner.goal_id, parent.goal_id))

    async def _depth(self, goal: GoalState) -> int:
        """Return the number of ancestors of a goal, up to the maximum depth."""
        above, depth = goal.begun.parent, 0
        with suppress(NotFound):  # an ancestor that has finished can be deleted
            while above is not None and depth < MAX_DEPTH:
                depth += 1
                above = (await self._store.find(above.goal_id)).parent
        return depth

    def _flow(self, call: ToolCall) -> "Flow[..., Any]":
        """Return the flow that a call starts, imported as for any goal.

        Raises: NotFound; Invalid when its module fails.
        """
        from perdure.app.workers.flows import flow_of

        spec = MindSpec("flow", flow=call.arguments["flow"], at=call.arguments["at"])
        return flow_of(GoalBegun("a child", spec), self._runner.contexts.imports)

    async def _resume(self, child: GoalView, options: RunOptions) -> bool:
        """Run a child if it can continue; return whether it runs or will."""
        if child.is_running:
            return True
        return await self._goals.can_continue(child) and self._run(child, options)

    def _run(self, child: GoalView, options: RunOptions) -> bool:
        """Run an open child here; return whether it will run."""
        if self.poller is not None and self.poller.queue_name == child.summary.queue:
            self.poller.poll_soon()
            return self.poller.would_run(child)
        resume = partial(self._resume_run, of_parent=options)
        return self._goals.worker.run_child(child, resume, self._has_left)

    async def _resume_run(self, goal_id: str, options: RunOptions, *, of_parent: RunOptions) -> RunResult:
        parks, approves = of_parent.parks_for_person, of_parent.approves_asked
        options = replace(options, is_automatic=True, parks_for_person=parks, approves_asked=approves)
        return await self._goals.resume_run(goal_id, options)

    def _has_left(self, child: GoalView) -> None:
        """Let the parent of a child check whether the child still runs."""
        if child.summary.parent is not None:
            self._runner.process.check_inbox(child.summary.parent.goal_id)

    async def cancel(self, goal_ids: Collection[str]) -> None:
        """See Children.cancel."""
        await asyncio.gather(*(self._cancel(goal_id) for goal_id in goal_ids))

    async def _cancel(self, goal_id: str) -> None:
        with suppress(NotFound, Conflict, Damaged):  # it was never created, has ended, or can never continue
            await self._goals.cancel(goal_id, by=PARENT)

    async def are_active(self, goal_ids: Collection[str], options: RunOptions) -> bool:
        """See Children.are_active; a child that waits for its own children is active as long as one of them is."""
        for goal_id in goal_ids:
            with suppress(NotFound):
                child = await self._goals.get(goal_id)
                if child.is_final or await self._resume(child, options):
                    return True
                if child.summary.waiting_for == "child":
                    state = await self._goals.state(goal_id)
                    if await self.are_active(open_children(state), options):
                        return True
        return False

    def listen_to(self, journal: Journal) -> None:
        """Notify the parent of a goal of its end as soon as that is durable."""
        parent = journal.state.begun.parent

        def ended(_events: Sequence[Event], state: GoalState) -> None:
            if parent is not None and state.termination is not None:
                self._has_ended(parent.goal_id)

        if parent is not None:
            journal.listen(ended)

    def _has_ended(self, parent_id: str) -> None:
        """Notify the parent of an ended goal; callable on the thread of a flow."""
        self._runner.process.check_inbox(parent_id)
        if self.poller is not None and self._loop is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self.poller.poll_soon)

    async def settle_parent(self, child: GoalState) -> GoalView | None:
        """Record the end of a child in its parent, unless a worker does that; return a parent that can be resumed."""
        parent = child.begun.parent
        if parent is None or child.termination is None or self._runner.process.is_held(parent.goal_id):
            return None
        with suppress(PerdureError):  # a worker has the parent, or it has ended
            found = await self._goals.get(parent.goal_id)
            is_polled = self.poller is not None and self.poller.queue_name == found.summary.queue
            if not (is_polled or found.is_final or found.is_running):
                return await self._runner.settle(parent.goal_id)
        return None

    async def after_run(self, result: RunResult) -> RunResult:
        """Record the end of a child in its parent, and add the goals to act on next to the result."""
        parent = await self.settle_parent(result.state)
        result = await self.with_waits(result)
        return result if parent is None else replace(result, next_goals=(parent,))

    async def with_waits(self, result: RunResult) -> RunResult:
        """Add the awaited children, or the effects of children that a fork would repeat, to the result."""
        effects = await self._goals.effects_below(result.state)
        if result.state.waiting_for == "child":
            return replace(result, next_goals=await self.waiting(result.state))
        return result if effects is None else replace(result, child_effects=effects)

    async def waiting(self, state: GoalState) -> list[GoalView]:
        """Return the descendants without children of their own that a goal waits for, each with its state."""
        found: list[GoalView] = []
        for goal_id in open_children(state):
            with suppress(NotFound):
                child = await self._goals.look_into(await self._goals.get(goal_id))
                below = [] if child.state is None else await self.waiting(child.state)
                found += below or [child]
        return found


def _not_started(call: ToolCall, code: str, why: str) -> ToolOutput:
    return ToolOutput(call.call_id, ok=False, error=ToolError(code, f"The child was not started. {why}"))


def _too_deep(parent: GoalState, call: ToolCall) -> ToolOutput:
    name = child_name(call.arguments)
    why = (
        f"Children can be nested at most {MAX_DEPTH} deep, and {parent.goal_id} is at depth {MAX_DEPTH}. Check whether"
        f" the flow {name} starts itself without end."
    )
    return _not_started(call, TOO_DEEP, why)


def _key_conflict(key: str, owner_id: str, parent_id: str) -> str:
    return (
        f"The key {key!r} has started {owner_id}, which is not a child of this goal. Use another key for the child; or"
        f" delete that goal once it has finished (`perdure goal delete {owner_id}`), and retry this one"
        f" (`perdure goal retry {parent_id}`)."
    )


def _new_goal(parent: GoalState, call: ToolCall, flow: "Flow[..., Any]") -> "NewGoal":
    """Return the new goal for a call that starts a child.

    Raises: Invalid
    """
    from perdure.app.goals.new_goal import of_flow
    from perdure.minds.flow.values.values import read_arguments

    asked = call.arguments
    args, kwargs = read_arguments(flow.fn, asked["args"]["args"], asked["args"]["kwargs"])
    return replace(
        of_flow(flow, args, kwargs),
        goal_id=asked["goal_id"],
        parent=ParentCall(parent.goal_id, call.call_id),
        workdir=None if parent.begun.workdir is None else Path(parent.begun.workdir),
        limits=Limits(**asked.get("limits", {})),
        key=asked.get("key") or start_key(parent.goal_id, call.call_id),
        policy=parent.policy or PolicySpec(),
    )
