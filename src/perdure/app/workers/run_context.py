"""Makes the context of a run: the mind of a goal, its tools, and what the run needs of its surroundings."""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.run_options import Manner
from perdure.app.home.system import keep_for_ever, observer
from perdure.errors import Invalid, NotFound
from perdure.kernel.calls.children import Children
from perdure.kernel.calls.toolbox import StaticTools, Toolbox
from perdure.kernel.deciding.kernel_tools import KERNEL_TOOLS
from perdure.kernel.events import GoalBegun
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
    from perdure.minds.factory import MindFactory
    from perdure.minds.flow.flow import Flow


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
        self._pauses = {"park_after_s": park_after_s, "cancel_grace_s": cancel_grace_s}

    def make(
        self,
        begun: GoalBegun,
        workdir: str,
        manner: Manner,
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

        flow = manner.flow or self.find_flow(begun)
        request = MindRequest(begun, manner.jobs, self._forks, flow, self._calls)
        made = make_mind(request, {**KINDS, **self.minds})
        if is_new:
            self._require_known(made.wants)
            for folder in made.folders:
                confined(workdir, folder)
        return RunContext(
            made.mind,
            Toolbox([self._builtin, *self.sources, *made.sources]),
            policy_of_goal(begun.policy, approves_asked=manner.approves_asked),
            workdir,
            is_ours,
            keep=keep_for_ever,
            children=children,
            parks_for_person=manner.parks_for_person,
            **self._pauses,
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
        known = {*self.tools(), *KERNEL_TOOLS}
        if not wanted <= known:
            missing = ", ".join(sorted(wanted - known))
            raise Invalid(f"There is no tool {missing}; known are {', '.join(sorted(known))}.")

    @cached_property
    def _forks(self) -> ForkNotes:
        return ForkNotes(self._home / "run", self._home_id())

    def _home_id(self) -> str:
        return observer(self._home).home_id
