"""Makes the context of a run: the mind of a goal, its tools, its thread, and what it needs of its surroundings."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.home.system import keep_for_ever, observer
from perdure.app.workers.flow_threads import FlowThread
from perdure.app.workers.worker import LocalWorker
from perdure.errors import Invalid, NotFound
from perdure.kernel.calls.children import NO_CHILDREN, Children
from perdure.kernel.calls.progress import ProgressListener
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
from perdure.tools.confine import confined
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.forks import ForkNotes
from perdure.tools.files import ReadFileTool, WriteFileTool
from perdure.tools.goal_policy import policy_of_goal

if TYPE_CHECKING:
    from perdure.app.workers.children import HomeChildren
    from perdure.minds.factory import MindFactory
    from perdure.minds.flow.flow import Flow

T = TypeVar("T")


class RunContexts:
    """Makes the contexts of the runs of a home; `imports` are the modules in which moved flows are found."""

    def __init__(
        self, home: Path, calls: StepCalls, imports: Sequence[str], *, park_after_s: float, cancel_grace_s: float
    ) -> None:
        self.imports = imports
        self.minds: dict[str, MindFactory] = {}
        """What makes minds of more kinds than the package knows by itself."""
        self.sources: list[ToolSource] = []
        """More tools than those of the package, for every goal."""
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
        is_ours: Callable[[], bool],
        *,
        is_new: bool = False,
    ) -> RunContext:
        """Return the context of one run; `is_ours` says whether the run may still begin something.

        Raises: NotFound when the code of the goal is not here; Invalid when its module fails, its policy is unknown, or
        a new goal names an unknown tool, or a folder outside of its own.
        """
        from perdure.minds.factory import KINDS, MindRequest, make_mind

        flow = options.flow or self.find_flow(begun)
        answers = AnswerFeed()
        request = MindRequest(begun, options.jobs, self._forks, flow, self._calls, options.model, answers)
        made = make_mind(request, {**KINDS, **self.minds})
        if is_new:
            self._require_known(made.wants)
            for folder in made.folders:
                confined(workdir, folder)
        return RunContext(
            made.mind,
            Toolbox([self._builtin, *self.sources, *made.sources]),
            policy_of_goal(begun.policy, approves_asked=options.approves_asked),
            workdir,
            is_ours,
            keep=keep_for_ever,
            children=children,
            parks_for_person=options.parks_for_person,
            park_after_s=self._park_after_s,
            cancel_grace_s=self._cancel_grace_s,
            answers=answers,
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
        """Return the flow of a goal, None for a goal of another kind. See `app.flows.flow_of`."""
        from perdure.app.workers.flows import flow_of

        return flow_of(begun, self.imports) if begun.mind.kind == "flow" else None

    def is_elsewhere(self, begun: GoalBegun) -> bool:
        """Return whether only another process can run a goal: the script that defines its flow."""
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
    """Sets up the runs of a process: each gets its context, its loop, and the thread that its code runs on."""

    def __init__(
        self, contexts: RunContexts, worker: LocalWorker, inbox: Inbox, clock: Clock, on_progress: ProgressListener
    ) -> None:
        self._on_progress = on_progress
        self._contexts = contexts
        self._worker = worker
        self._inbox = inbox
        self._clock = clock
        self.children: HomeChildren | None = None
        """What runs the children of goals; None where goals have none."""

    def listen_to(self, journal: Journal) -> None:
        """Pass the end of a goal on to its parent, when its journal stores it."""
        if self.children is not None:
            self.children.listen_to(journal)

    async def loop(
        self,
        journal: Journal,
        run_context: Callable[[], RunContext],
        options: RunOptions,
        thread: FlowThread | None,
    ) -> Loop:
        """Make the loop of a goal where it will run; a server parses a plan, which may be long, beside its own loop."""
        if options.queue == "server" and journal.state.begun.mind.kind == "plan":
            made = await asyncio.to_thread(run_context)
            loop = Loop(journal, self._inbox, made, self._clock)
        else:
            loop = await call_on(thread, lambda: Loop(journal, self._inbox, run_context(), self._clock))
        loop.progress.listen(self._on_progress)
        return loop

    @asynccontextmanager
    async def thread_for(self, mind: MindSpec, options: RunOptions) -> AsyncIterator[FlowThread | None]:
        """Give a flow of a server a thread for the time of the block; everything else runs where the caller does.

        Raises: Unavailable when there are no threads left.
        """
        if self.children is not None:
            self.children.note_loop()
        if mind.kind != "flow" or options.queue != "server":
            yield None
            return
        thread = FlowThread(mind.at or "")
        with contextlib.closing(thread):
            yield thread

    def context_of(
        self,
        begun: GoalBegun,
        workdir: str,
        options: RunOptions,
        thread: FlowThread | None,
        *,
        is_new: bool = False,
    ) -> Callable[[], RunContext]:
        """Return what makes the context of a run, on the thread on which that is called. See RunContexts.make."""
        is_ours = partial(_is_ours, self._worker, thread)
        return partial(self._contexts.make, begun, workdir, options, self.children_of(options), is_ours, is_new=is_new)

    def children_of(self, options: RunOptions) -> Children:
        """Return the children that the goal of a run may start."""
        return NO_CHILDREN if self.children is None else self.children.of_run(options)


def _is_ours(worker: LocalWorker, thread: FlowThread | None) -> bool:
    """Return whether a run may begin something: the lease is fresh, and its thread was not asked to end."""
    return worker.is_sure() and not (thread is not None and thread.is_left)


async def call_on(thread: FlowThread | None, fn: Callable[[], T]) -> T:
    """Call a function that may run code of a user: on the thread of its flow, if it has one."""
    return fn() if thread is None else await thread.call(fn)
