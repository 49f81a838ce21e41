"""What one goal is run with: its mind, its tools, its policy, and how long things may take."""

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
    """What a goal is run with: who decides, what acts, what may be done without asking, and in which folder."""

    mind: Mind
    tools: Toolbox
    policy: Policy
    workdir: str
    is_ours: Callable[[], bool] = lambda: True
    """Returns whether the lease is fresh enough that no other worker can own the goal."""
    park_after_s: float = 60.0
    """A goal that only sleeps for longer than this is given back, so that nothing is held meanwhile."""
    end_within_s: float = 10.0
    """A call that is told to end, and has not after so long, is left alone; a tool must have killed by then."""
    cancel_grace_s: float = GRACE_S
    """How long the flow of a cancelled goal may clean up."""
    keep: Callable[[object], None] = lambda _task: None
    """Is given what is left alone, and sees to it that it is never freed: its code would be entered once more for that,
    outside of any event loop, and code that swallows everything would never return."""
    children: Children = NO_CHILDREN
    answers: AnswerFeed = field(default_factory=AnswerFeed)
    """What arrives of the answers of a model."""
    records_cut_short: bool = True
    """Whether a stop of the run records what a model has answered by then. Where the goal is resumed by itself, it is
    not: the model is asked again."""
    parks_for_person: bool = False
    """Whether a goal that waits for a person is given back also when the deadline of its question is near."""
