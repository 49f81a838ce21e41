"""Runs of goals: starts and resumes them in this process, or enqueues them for workers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.lists import GoalLists
from perdure.app.home.script_interrupts import Interrupted
from perdure.app.home.system import SystemClock
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.children import HomeChildren
from perdure.app.workers.queues import GoalQueues
from perdure.app.workers.runner import PARK_S, Runner
from perdure.app.workers.worker import LEASE_S
from perdure.errors import Conflict, Invalid, KeyTaken
from perdure.kernel.calls.cleanup import GRACE_S
from perdure.kernel.events import Limits, PolicySpec
from perdure.kernel.loop import Loop, Outcome, RunResult
from perdure.kernel.ports import Clock, Ended, GoalStore, Leases
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls

if TYPE_CHECKING:
    from perdure.app.goals.new_goal import NewGoal
    from perdure.app.models.model_goals import ModelGoals
    from perdure.minds.factory import MindRequest, MindWithTools


class GoalRuns(GoalLists, ABC):
    """The running part of `Goals`: starts and resumes goals here, or enqueues them for workers."""

    def __init__(  # noqa: PLR0913 (the composition root gives each)
        self,
        home: Path,
        store: GoalStore,
        leases: Leases,
        *,
        clock: Clock | None = None,
        calls: StepCalls = DIRECT,
        lease_s: float = LEASE_S,
        park_after_s: float = PARK_S,
        cancel_grace_s: float = GRACE_S,
        queue: str = "cli",
        imports: Sequence[str] = (),
        default_policy: Callable[[], PolicySpec | None] = lambda: None,
    ) -> None:
        clock = clock or SystemClock()
        super().__init__(home, store, leases, clock)
        self._queue = queue
        """The default queue of goals that are started or resumed here."""
        self._runner = Runner(
            home,
            store,
            store,
            leases,
            clock=clock,
            calls=calls,
            lease_s=lease_s,
            park_after_s=park_after_s,
            cancel_grace_s=cancel_grace_s,
            imports=imports,
            on_run=self.feed.watch_run,
            default_policy=default_policy,
        )
        self._make_model_goals: Callable[[], ModelGoals] | None = None
        self.queues = GoalQueues(self, store, leases, self._runner)
        self._runner.set_children(self.children)

    @property
    @abstractmethod
    def children(self) -> HomeChildren:
        """The goals that goals have started."""

    async def begin(self, new: "NewGoal", options: RunOptions | None = None) -> RunResult:
        """Start a goal and run it until it ends, waits, or is stopped.

        Raises: Invalid when an argument is invalid; Conflict when its key was used; nothing is stored then.
        """
        self.require_open()
        return await self.children.after_run(await self._runner.start(new, self.run_options_of(new, options)))

    async def begin_once(self, new: "NewGoal", options: RunOptions | None = None) -> RunResult:
        """Start a goal, or resume the one that its key started; one that has ended or is on hold is returned unchanged.

        A program that repeats its call does not release a goal on hold: only a person does.

        Raises: Invalid; Conflict when the key started something else, or another live worker runs the goal.
        """
        self.require_open()
        options = self.run_options_of(new, options)
        known = await self._started(new)
        if known is None:
            try:
                return await self.begin(new, options)
            except Conflict:
                known = await self._started(new)  # another caller was quicker with the same key
                if known is None:
                    raise
        if (await self.get(known)).summary.waiting_for == "hold":
            return await self.run_result(known, "waiting")
        return await self.resume_run(known, options)

    async def resume_run(
        self, goal_id: str, options: RunOptions | None = None, limits: Limits | None = None
    ) -> RunResult:
        """Resume a goal, with higher limits if specified; a finished goal is returned unchanged.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used, or
        a model is given for a goal that has none.
        """
        if options is not None and options.model is not None:
            model = self.model_goals.require_model(
                await self.begun((await self._whole(goal_id)).goal_id), options.model
            )
            options = replace(options, model=model)
        while True:
            summary = await self._whole(goal_id)
            goal_id = summary.goal_id
            state = await self.state(goal_id) if summary.is_final else None
            if state is not None and state.termination is not None:  # else it was reopened between the two reads
                ended = RunResult("ended", state, summary.queue, summary.start_key, is_recorded=True)
                return await self.children.with_waits(ended)
            with suppress(Ended):  # another worker ended it after the first read
                result = await self._runner.resume_run(
                    goal_id, options or RunOptions(queue=self._queue), limits or Limits()
                )
                return await self.children.after_run(result)

    async def run_result(self, goal_id: str, outcome: Outcome) -> RunResult:
        """Return the result of a goal that is only read.

        Raises: NotFound; Damaged.
        """
        state, row = await self.state(goal_id), await self._whole(goal_id)
        return await self.children.with_waits(RunResult(outcome, state, row.queue, row.start_key))

    async def enqueue(self, new: "NewGoal", *, queue: str = "server") -> GoalView:
        """Store a new goal for the workers of a queue, which run it when they have room.

        Raises: Invalid when an argument is invalid; Conflict when its key was used; nothing is stored then.
        """
        self.require_open()
        state = await self._runner.enqueue(new, self.run_options_of(new, RunOptions(queue=queue)))
        return await self.find(state.goal_id)

    async def enqueue_again(self, goal_id: str, limits: Limits, *, queue: str = "server") -> GoalView:
        """Enqueue a goal that no worker runs for the workers of a queue, with higher limits if specified.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used.
        """
        self.require_open()
        await self._runner.settle(goal_id, queue=queue, limits=limits)
        return await self.find(goal_id)

    async def started(self, new: "NewGoal") -> GoalView | None:
        """Return the goal with the same start key, if there is one.

        Raises: Conflict when that is another one.
        """
        self.require_open()
        known = await self._started(new)
        return None if known is None else await self.find(known)

    def run_options_of(self, new: "NewGoal", options: RunOptions | None = None) -> RunOptions:
        """Return the options of a run with the flow object of the caller."""
        return replace(options or RunOptions(queue=self._queue), flow=new.flow)

    async def require_code(self, goal_id: str) -> None:
        """Check that the code of a goal is available, if it is a flow.

        Raises: NotFound; Invalid when its module fails.
        """
        self._runner.contexts.find_flow(await self.begun(goal_id))

    async def needs_its_script(self, goal_id: str) -> bool:
        """Return whether only the script that defines its flow can run a goal."""
        return self._runner.contexts.needs_its_script(await self.begun(goal_id))

    def set_model_goals(self, make: "Callable[[], ModelGoals]") -> None:
        """Set the function that makes the starter of goals for models; it is called when the first is needed."""
        self._make_model_goals = make
        self._runner.contexts.mind_factories["model"] = self._mind_of_model

    def _mind_of_model(self, request: "MindRequest") -> "MindWithTools":
        return self.model_goals.make(request)

    @cached_property
    def model_goals(self) -> "ModelGoals":
        """The starter of goals for models.

        Raises: Invalid where there is none.
        """
        if self._make_model_goals is None:
            raise Invalid("Goals for models cannot be started here.")
        return self._make_model_goals()

    def is_of_this_process(self, goal: GoalView) -> bool:
        """Return whether the worker that owns a goal is this process."""
        return goal.summary.worker is not None and goal.summary.worker == self._runner.process.id

    def is_held_here(self, goal_id: str) -> bool:
        """Return whether this process works on a goal now, in the background or for a caller."""
        return self._runner.process.is_held(goal_id)

    def runs(self) -> Mapping[str, Loop | None]:
        """Return the goals that this process works on, each with its loop if that runs."""
        return self._runner.process.runs()

    def interrupted(self) -> Sequence[Interrupted]:
        """Return the goals whose last run in this process was cancelled before its end."""
        return list(self._runner.interrupted.values())

    async def end_runs(self) -> None:
        """End all runs, as if the lease could not be renewed."""
        await self._runner.process.end_runs()

    async def read_all_inboxes(self) -> None:
        """Apply the pending posts of all goals that run here now.

        Raises: Unavailable
        """
        await self._runner.process.read_all_inboxes()

    async def _started(self, new: "NewGoal") -> str | None:
        """Return the id of the goal with the same start key.

        Raises: Conflict when that is another one.
        """
        known = None if new.key is None else await self._store.started(new.key)
        if known is None:
            return None
        difference = new.differs_from(await self.begun(known.goal_id))
        if difference is not None:
            goal_id = known.goal_id
            raise KeyTaken(
                f"The key {new.key!r} started {goal_id}, {difference}. Use another key, fork that goal,"
                f" {known.text!r} (`perdure goal fork {goal_id} --before STEP`), or free the key: delete the goal"
                f" when it has ended (`perdure goal delete {goal_id}`). Nothing was run."
            )
        return known.goal_id
