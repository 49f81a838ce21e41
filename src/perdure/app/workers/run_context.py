"""Creates the context of a run: the mind of a goal, its tools, its thread and its services."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.app.goals.arguments.run_options import RunOptions, Watch
from perdure.app.home.system import keep_for_ever, observer
from perdure.app.workers.flow_threads import FlowThread
from perdure.app.workers.worker import LocalWorker
from perdure.errors import Invalid, NotFound
from perdure.kernel.calls.children import NO_CHILDREN, Children
from perdure.kernel.calls.toolbox import StaticTools, Toolbox
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.events import GoalBegun, MindSpec
from perdure.kernel.journal import Journal
from perdure.kernel.loop import Loop
from perdure.kernel.ports import Clock, Inbox
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import Tool, ToolSource
from perdure.minds.flow.scripts import is_of_script
from perdure.minds.flow.steps.step_calls import StepCalls
from perdure.tools.confine import require_inside
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.forks import ForkNotes
from perdure.tools.exec.process_tree import KILL_AFTER_S
from perdure.tools.files import ReadFileTool, WriteFileTool
from perdure.tools.goal_policy import policy_of_goal

if TYPE_CHECKING:
    from perdure.app.workers.children import HomeChildren
    from perdure.minds.factory import MindFactory
    from perdure.minds.flow.flow import Flow

__all__ = ["KILL_AFTER_S", "RunContexts", "RunSetup"]

T = TypeVar("T")


class RunContexts:
    """Creates the contexts of the runs of a home; `imports` are the modules in which moved flows are found."""

    def __init__(
        self, home: Path, calls: StepCalls, imports: Sequence[str], *, park_after_s: float, cancel_grace_s: float
    ) -> None:
        self.imports = imports
        self.mind_factories: dict[str, MindFactory] = {}
        """The factories of additional kinds of minds, by kind."""
        self.sources: list[ToolSource] = []
        """Additional tools of every goal."""
        self._home = home
        self._calls = calls
        self._park_after_s = park_after_s
        self._cancel_grace_s = cancel_grace_s

    def make(
        self,
        begun: GoalBegun,
        workdir: str,
        options: RunOptions,
        children: Children,
        may_start_calls: Callable[[], bool],
        *,
        is_new: bool = False,
    ) -> RunContext:
        """Return the context of one run; `may_start_calls` as for RunContext.

        Raises: NotFound when the code of the goal is unavailable; Invalid when its module fails, its policy is unknown,
        or a new goal names an unknown tool, or a folder outside of its own.
        """
        from perdure.minds.factory import KINDS, MindRequest, make_mind

        flow = options.flow or self.find_flow(begun)
        answers = AnswerFeed()
        request = MindRequest(
            begun,
            jobs=options.jobs,
            forks=self._forks,
            flow=flow,
            calls=self._calls,
            model=options.model,
            compacts=options.compacts,
            answers=answers,
        )
        mind_with_tools = make_mind(request, {**KINDS, **self.mind_factories})
        if is_new:
            self._require_known(mind_with_tools.wants)
            for folder in mind_with_tools.folders:
                require_inside(workdir, folder)
        return RunContext(
            mind_with_tools.mind,
            Toolbox([self._builtin, *self.sources, *mind_with_tools.sources]),
            policy_of_goal(begun.policy, approves_asked=options.approves_asked),
            workdir,
            may_start_calls,
            keep=keep_for_ever,
            children=children,
            parks_for_person=options.parks_for_person,
            park_after_s=self._park_after_s,
            cancel_grace_s=self._cancel_grace_s,
            answers=answers,
            # Workers of other queues resume a stopped goal by themselves, and then the model is asked again.
            records_cut_short=options.queue == "cli",
        )

    def tools(self) -> dict[str, Tool]:
        """Return the tools that every goal has, by name."""
        return {tool.spec.name: tool for tool in self._builtin.tools}

    @cached_property
    def _builtin(self) -> StaticTools:
        tools = (ExecTool(self._home / "run", self._home_id), ReadFileTool(), WriteFileTool())
        return StaticTools("perdure", tools)

    def find_flow(self, begun: GoalBegun) -> "Flow[..., Any] | None":
        """Return the flow of a goal, None for a goal of another kind. See `app.workers.flows.flow_of`."""
        from perdure.app.workers.flows import flow_of

        return flow_of(begun, self.imports) if begun.mind.kind == "flow" else None

    def needs_its_script(self, begun: GoalBegun) -> bool:
        """Return whether only the script that defines the flow of a goal can run it."""
        if not is_of_script(begun.mind):
            return False
        try:
            self.find_flow(begun)
        except NotFound:
            return True
        return False

    async def end_forks(self, goal_id: str) -> None:
        """End the processes that steps of a goal have forked.

        Raises: Unavailable
        """
        await self._forks.end_goal(goal_id)

    def _require_known(self, wanted: frozenset[str]) -> None:
        known = set(self.tools())  # `ask` and `done` are for models: a plan asks by `ask:`, and ends with its last step
        if not wanted <= known:
            missing = ", ".join(sorted(wanted - known))
            raise Invalid(f"There is no tool {missing}; known are {', '.join(sorted(known))}.")

    @cached_property
    def _forks(self) -> ForkNotes:
        return ForkNotes(self._home / "run", self._home_id())

    def _home_id(self) -> str:
        return observer(self._home).home_id


class RunSetup:
    """Sets up the runs of a process: each has a context, a loop, and a thread for its code."""

    def __init__(self, contexts: RunContexts, worker: LocalWorker, inbox: Inbox, clock: Clock, on_run: Watch) -> None:
        self._on_run = on_run
        self._contexts = contexts
        self._worker = worker
        self._inbox = inbox
        self._clock = clock
        self.child_goals: HomeChildren | None = None
        """The component that runs the children of goals; None if goals cannot have children."""

    def listen_to(self, journal: Journal) -> None:
        """Notify the parent of a goal when its journal stores its end."""
        if self.child_goals is not None:
            self.child_goals.listen_to(journal)

    async def loop(
        self,
        journal: Journal,
        make_context: Callable[[], RunContext],
        options: RunOptions,
        thread: FlowThread | None,
    ) -> Loop:
        """Create the loop of a goal where it will run; a server parses a plan, which may be long, on a thread."""
        if options.queue == "server" and journal.state.begun.mind.kind == "plan":
            run_context = await asyncio.to_thread(make_context)
            loop = Loop(journal, self._inbox, run_context, self._clock)
        else:
            loop = await call_on(thread, lambda: Loop(journal, self._inbox, make_context(), self._clock))
        self._on_run(loop)
        return loop

    @asynccontextmanager
    async def thread_for(self, mind: MindSpec, options: RunOptions) -> AsyncIterator[FlowThread | None]:
        """Yield a thread for the flow of a server; other goals run on the thread of the caller.

        Raises: Unavailable when there are no threads left.
        """
        if self.child_goals is not None:
            self.child_goals.note_loop()
        if mind.kind != "flow" or options.queue != "server":
            yield None
            return
        thread = FlowThread(mind.at or "")
        with contextlib.closing(thread):
            yield thread

    def context_factory(
        self,
        begun: GoalBegun,
        workdir: str,
        options: RunOptions,
        thread: FlowThread | None,
        *,
        is_new: bool = False,
    ) -> Callable[[], RunContext]:
        """Return a function that creates the context of a run on the calling thread. See RunContexts.make."""
        may_start_calls = partial(_may_start_calls, self._worker, thread)
        children = self.children_of(options)
        return partial(self._contexts.make, begun, workdir, options, children, may_start_calls, is_new=is_new)

    def children_of(self, options: RunOptions) -> Children:
        """Return the children that the goal of a run may start."""
        return NO_CHILDREN if self.child_goals is None else self.child_goals.of_run(options)


def _may_start_calls(worker: LocalWorker, thread: FlowThread | None) -> bool:
    """Return whether a run may start calls: the lease is valid, and the thread of its flow was not abandoned."""
    return worker.is_lease_valid() and not (thread is not None and thread.is_abandoned)


async def call_on(thread: FlowThread | None, fn: Callable[[], T]) -> T:
    """Call a function that may run user code, on the thread of the flow if there is one."""
    return fn() if thread is None else await thread.call(fn)
