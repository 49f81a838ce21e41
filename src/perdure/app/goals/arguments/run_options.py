"""How a goal is to be run, how a failed one is to be retried, and which limits that raises."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from perdure.app.goals.arguments import validate
from perdure.errors import Invalid
from perdure.kernel.events import LimitRaised, Limits, PolicySpec
from perdure.kernel.fold import GoalState
from perdure.kernel.limits import raised_limits
from perdure.kernel.loop import Loop
from perdure.kernel.ports import ClaimedGoal

if TYPE_CHECKING:
    from perdure.minds.flow.flow import Flow

Watch = Callable[[Loop], None]
Tell = Callable[[str], None]

log = logging.getLogger("perdure.app.workers.runner")


def watch_nothing(_loop: Loop) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class RunOptions:
    """How a goal is to be run this time; `watch` is given the loop before it begins, to listen to it or to stop it."""

    jobs: int = 4
    approves_asked: bool = False
    """A person has approved, for this run, the calls of models that the policy of the goal only asks about."""
    watch: Watch = watch_nothing
    is_woken: bool = False
    """The goal is resumed because it was due: if this process dies, the next poll for due goals resumes it again."""
    is_automatic: bool = False
    """No person asked for this run. A goal that killed its last workers is put on hold then, and not run."""
    claim: ClaimedGoal | None = None
    """The claim of the goal, if it was made already."""
    queue: str = "cli"
    """The queue of the goal from now on: a server resumes its own. A goal that was only woken stays in its queue, and
    so does one of an application that the command line or a server runs.

    A flow that a server runs gets a thread and an event loop of its own, because its code may block.
    """
    parks_for_children: bool = False
    """Release a goal that only waits for its children, also while they run here: its slot may be what they wait for."""
    parks_for_person: bool = False
    """Release a goal that waits for a person also when the deadline of its question is near: the caller asks that
    person, or says how to answer. Otherwise the goal stays, and can be answered from elsewhere meanwhile."""
    commits_start: bool = False
    """Commit the start of a new goal before its code runs, for a caller that returns then."""
    flow: "Flow[..., Any] | None" = None
    """The flow that the caller has given, which is run; None: the flow is found by what the goal says."""
    model: str | None = None
    """The model from now on, of a goal that a model decides; None: as before."""
    tell: Tell | None = log.info
    """Called when the run waits for proof that the goal's last worker is dead; None: raise OwnerSilent instead."""


class RetryOptions(TypedDict, total=False):
    """The fields of `Reopening` as arguments; without `limits`, none is raised."""

    reason: str | None
    limits: Limits
    key: str | None
    by: str
    policy: PolicySpec | None


@dataclass(frozen=True)
class Reopening:
    """How a failed goal is retried: why, with which limits raised and which policy, under which key, and by whom."""

    reason: str | None = None
    limits: Limits = field(default_factory=Limits)
    key: str | None = None
    by: str = "person"
    policy: PolicySpec | None = None
    """Judges the calls of models from then on; None: the policy that the goal has."""

    def __post_init__(self) -> None:
        """Validate what a caller of any interface gave.

        Raises: Invalid
        """
        validate.reason(self.reason)
        validate.limits(self.limits)
        validate.key(self.key)


def raised(state: GoalState, limits: Limits) -> Sequence[LimitRaised]:
    """Return the limits that were raised on purpose.

    Raises: Invalid when one is not above what was used already.
    """
    found = raised_limits(limits)
    for each in found:
        used = getattr(state.used, each.name)
        if each.value is not None and each.value <= used:
            raise Invalid(
                f"{state.goal_id} has used {used:g} {each.name} already; a limit of {each.value:g} lets it do nothing."
            )
    return found
