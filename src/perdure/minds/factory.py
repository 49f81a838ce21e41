"""From what a goal's first event says to the mind that decides for it."""

from perdure.errors import Invalid
from perdure.kernel.events import MindSpec
from perdure.kernel.ports import Mind
from perdure.minds.command import CommandMind
from perdure.minds.flow import find_flow
from perdure.minds.flow_mind import FlowMind
from perdure.minds.plan import PlanMind
from perdure.minds.plan_file import parse_plan


def make_mind(spec: MindSpec, text: str, jobs: int) -> Mind:
    """Make the mind that a goal was started with.

    Raises: Invalid when it makes no sense, or is of a kind that is not made here.
    """
    match spec.kind:
        case "command":
            return CommandMind(text, shell=bool(spec.shell))
        case "plan" if spec.plan is not None:
            return PlanMind(parse_plan(spec.plan, "plan"), jobs)
        case "plan":
            raise Invalid("A goal of kind plan needs the text of its plan, found none.")
        case "flow" if spec.flow is not None:
            return FlowMind(find_flow(spec.flow), spec.args)
        case _:
            raise Invalid(f"Expected a goal of kind command or plan, found {spec.kind}.")
