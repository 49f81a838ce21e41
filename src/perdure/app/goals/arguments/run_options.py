"""Options of a run of a goal, and of a retry."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from perdure.app.goals.arguments import validate
from perdure.kernel.events import Limits, PolicySpec
from perdure.kernel.loop import Loop
from perdure.kernel.ports import ClaimedGoal

if TYPE_CHECKING:
    from perdure.minds.flow.flow import Flow

Watch = Callable[[Loop], None]
Tell = Callable[[str], None]

log = logging.getLogger("perdure.app.workers.runner")


def watch_nothing(_loop: Loop) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class ModelChange:
    """Another model, or a summary first, from the resume of a goal on; impossible while it runs or is queued."""

    model: str | None = None
    compacts: bool = False

    @property
    def what(self) -> str:
        """The change in words, for errors."""
        return "with a summary of its beginning" if self.model is None else "with another model"


NO_MODEL_CHANGE = ModelChange()


@dataclass(frozen=True)
class RunOptions:
    """Options of one run of a goal; `watch` gets the loop before it starts, to listen to it or to stop it."""

    jobs: int = 4
    approves_asked: bool = False
    """Whether calls of a model that the policy would ask about are approved for this run."""
    watch: Watch = watch_nothing
    is_woken: bool = False
    """Whether the goal is resumed because it was due; if this process dies, the next poll for due goals resumes it."""
    is_automatic: bool = False
    """Whether the run was not requested by a person. A goal that killed its last workers is then put on hold."""
    claim: ClaimedGoal | None = None
    """The claim of the goal, if it was already claimed."""
    queue: str = "cli"
    """The queue of the goal from now on; a server resumes goals of its own queue. A goal that was only woken stays in
    its queue, and so does a goal of an application that the command line or a server runs.

    A flow that a server runs gets its own thread and event loop, because its code may block.
    """
    parks_for_children: bool = False
    """Whether to release a goal that only waits for children even if they run here: they may wait for its slot."""
    parks_for_person: bool = False
    """Whether to release a goal that waits for a person even if the deadline of its question is near, because the
    caller asks that person. Otherwise the goal stays claimed, and can be answered by another process meanwhile."""
    commits_start: bool = False
    """Whether to commit the start of a new goal before its code runs, for a caller that returns then."""
    flow: "Flow[..., Any] | None" = None
    """The flow object of the caller; None: the flow is imported by its recorded name."""
    model: str | None = None
    """The new model of a goal of a model; None: unchanged."""
    compacts: bool = False
    """Whether to summarise the beginning of a conversation first, though the window of the model is not full."""
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
    """Options of a retry: its reason, raised limits, policy, key, and initiator."""

    reason: str | None = None
    limits: Limits = field(default_factory=Limits)
    key: str | None = None
    by: str = "person"
    policy: PolicySpec | None = None
    """The policy for calls of a model from then on; None: unchanged."""

    def __post_init__(self) -> None:
        """Validate the values of a caller.

        Raises: Invalid
        """
        validate.reason(self.reason)
        validate.limits(self.limits)
        validate.key(self.key)
