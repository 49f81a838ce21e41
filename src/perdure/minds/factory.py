"""From what a goal's first event says to the mind that decides for it, by the kind of the mind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.calls.toolbox import StaticTools
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.events import GoalBegun
from perdure.kernel.mind import Mind
from perdure.kernel.tool import ToolSource
from perdure.minds.command import CommandMind
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.mind import FlowMind
from perdure.minds.flow.registry import find_flow
from perdure.minds.flow.requests import NO_FORKS, StepForks
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls


@dataclass(frozen=True)
class MindRequest:
    """What a mind is made of: the goal, and what the minds of this home share."""

    begun: GoalBegun
    jobs: int = 4
    forks: StepForks = NO_FORKS
    """Knows the processes that steps of a flow fork."""
    flow: Flow[..., Any] | None = None
    """The flow, of a caller that has it already; else it is found by what the goal says."""
    calls: StepCalls = DIRECT
    """How the functions of steps are called."""
    model: str | None = None
    """The model from now on, of a goal that a model decides; None: as before."""
    compacts: bool = False
    """Whether the beginning of a conversation is summarised first."""
    answers: AnswerFeed = field(default_factory=AnswerFeed)
    """Receives the answers of a model while they arrive."""


@dataclass(frozen=True)
class MindWithTools:
    """A mind, and the tools that only it can use."""

    mind: Mind
    sources: Sequence[ToolSource] = ()
    wants: frozenset[str] = frozenset()
    """The tools that it is known to use, before anything has run."""
    folders: tuple[str, ...] = ()
    """The absolute folders that its programs are known to run in; each must lie inside the goal's folder."""


MindFactory = Callable[[MindRequest], MindWithTools]
"""Makes minds of one kind, at once: a mind that needs a connection opens it when it prepares or first decides.

Raises: Invalid when the goal has an invalid argument.
"""


def _make_command(request: MindRequest) -> MindWithTools:
    return MindWithTools(CommandMind(request.begun.text, shell=bool(request.begun.mind.shell)))


def _make_plan(request: MindRequest) -> MindWithTools:
    from perdure.minds.plan.mind import PlanMind  # a flow or a command needs neither this nor YAML
    from perdure.minds.plan.plan_file import parse_plan

    text = request.begun.mind.plan
    if text is None:
        raise Invalid("A goal of kind plan needs the text of its plan, found none.")
    plan = PlanMind(parse_plan(text, "plan", is_stored=True), request.jobs)
    return MindWithTools(plan, wants=plan.tools, folders=plan.folders)


def _make_flow(request: MindRequest) -> MindWithTools:
    spec = request.begun.mind
    if spec.at is None:
        raise Invalid("A goal of kind flow needs the place of its flow, found none.")
    mind = FlowMind(request.flow or find_flow(spec.at, spec.flow), spec.args, request.forks, request.calls)
    return MindWithTools(mind, [StaticTools("flow", [mind.tool])])


KINDS: Mapping[str, MindFactory] = {"command": _make_command, "plan": _make_plan, "flow": _make_flow}
"""The kinds of minds that need nothing but the package."""


def make_mind(request: MindRequest, kinds: Mapping[str, MindFactory] = KINDS) -> MindWithTools:
    """Make the mind that a goal was started with.

    Raises: Invalid when it is invalid, or of a kind that this factory does not make.
    """
    kind = request.begun.mind.kind
    if kind not in kinds:
        *others, last = kinds
        raise Invalid(f"Expected a goal of kind {', '.join(others)} or {last}, found {kind}.")
    return kinds[kind](request)
