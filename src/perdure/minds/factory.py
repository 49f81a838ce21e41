"""From what a goal's first event says to the mind that decides for it."""

from perdure.errors import Invalid
from perdure.kernel.events import MindSpec
from perdure.kernel.ports import Mind
from perdure.minds.command import CommandMind
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
        case _:
            raise Invalid(f"Expected a goal of kind command or plan, found {spec.kind}.")
