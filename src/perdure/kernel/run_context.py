"""The dependencies and settings of a run of a goal."""

from collections.abc import Callable
from dataclasses import dataclass, field

from perdure.kernel.calls.children import NO_CHILDREN, Children
from perdure.kernel.calls.cleanup import GRACE_S
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.mind import Mind
from perdure.kernel.tool import Policy


@dataclass(frozen=True)
class RunContext:
    """The mind, tools, policy, working folder and time limits of a run of a goal."""

    mind: Mind
    tools: Toolbox
    policy: Policy
    workdir: str
    may_start_calls: Callable[[], bool] = lambda: True
    """Returns whether this run still owns the goal: its lease was renewed recently enough that no other worker can, and
    the thread of its flow was not abandoned."""
    park_after_s: float = 60.0
    """A goal that waits for longer than this is parked."""
    end_within_s: float = 10.0
    """How long a cancelled call may take to end before it is abandoned; a tool must kill its processes earlier."""
    cancel_grace_s: float = GRACE_S
    """How long the flow of a cancelled goal may clean up."""
    keep: Callable[[object], None] = lambda _task: None
    """Called with abandoned tasks, to keep them referenced. A coroutine that is freed is entered once more, outside of
    any event loop, and code that catches every exception would then never return."""
    children: Children = NO_CHILDREN
    answers: AnswerFeed = field(default_factory=AnswerFeed)
    """The answers of a model while they arrive."""
    records_cut_short: bool = True
    """Whether a stop of the run records the partial answer of a model. It is not recorded if the goal is resumed
    automatically, because the model is asked again."""
    parks_for_person: bool = False
    """Whether a goal that waits for a person is parked even if the deadline of its question is near."""
