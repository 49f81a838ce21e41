"""From what a goal's first event says to the mind that decides for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.events import MindSpec
from perdure.kernel.mind import Mind
from perdure.kernel.tool import Tool
from perdure.minds.command import CommandMind
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.mind import FlowMind
from perdure.minds.flow.registry import find_flow
from perdure.minds.flow.requests import NO_FORKS, StepForks
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls


@dataclass(frozen=True)
class Made:
    """A mind, and the tools that only it can use."""

    mind: Mind
    tools: Mapping[str, Tool] = field(default_factory=dict)
    wants: frozenset[str] = frozenset()
    """The tools that it is known to use, before anything has run."""
    folders: tuple[str, ...] = ()
    """The absolute folders that its programs are known to run in; each must lie inside the goal's folder."""


def make_mind(
    spec: MindSpec,
    text: str,
    jobs: int,
    forks: StepForks = NO_FORKS,
    flow: Flow[..., Any] | None = None,
    calls: StepCalls = DIRECT,
) -> Made:
    """Make the mind that a goal was started with.

    `forks` knows the processes that steps of a flow fork, `calls` how their functions are called.

    A caller that has the flow already gives it; else it is found by what the goal says.

    Raises: Invalid when it makes no sense, or is of a kind that is not made here.
    """
    match spec.kind:
        case "command":
            return Made(CommandMind(text, shell=bool(spec.shell)))
        case "plan" if spec.plan is not None:
            return _of_plan(spec.plan, jobs)
        case "plan":
            raise Invalid("A goal of kind plan needs the text of its plan, found none.")
        case "flow" if spec.at is not None:
            mind = FlowMind(flow or find_flow(spec.at, spec.flow), spec.args, forks, calls)
            return Made(mind, {mind.tool.name: mind.tool})
        case _:
            raise Invalid(f"Expected a goal of kind command, plan or flow, found {spec.kind}.")


def _of_plan(text: str, jobs: int) -> Made:
    from perdure.minds.plan.mind import PlanMind  # a flow or a command needs neither this nor YAML
    from perdure.minds.plan.plan_file import parse_plan

    plan = PlanMind(parse_plan(text, "plan", is_stored=True), jobs)
    return Made(plan, wants=plan.tools, folders=plan.folders)
