"""Goals, their calls, and what waits for a person."""

from typing import Any, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import ApprovalKind, Moment, PersonDecision
from perdure.kernel.events import Effect, Happened, LimitName, MindKind, Reason
from perdure.kernel.ports import WaitingFor
from perdure.statuses import GoalStatus


class NextCommand(TypedDict):
    """A command line that a person can run next, and what it is for."""

    command: str
    why: str


class Failure(TypedDict):
    """Why a goal or a call failed; `type`, `args` and `traceback` are of the exception, if there was one."""

    code: str
    message: str
    type: str | None
    args: Any
    traceback: str | None
    retryable: bool | None


class ParentGoal(TypedDict):
    """The goal that started a child, and the call that did."""

    goal_id: str
    call_id: str


class ForkOrigin(TypedDict):
    """The last event that a fork shares with the goal that it was made from."""

    goal_id: str
    seq: int


class Goal(TypedDict):
    """A goal: in lists, in the frames of `/ws/events`, and as the answer to what steers one.

    `status` is `interrupted` when no worker runs it: it continues when it is resumed. `detail` says why it ended, or
    what it waits for beside its status. `next` has the commands that a person can run next, the best first. `due_at` is
    when a goal that waits can continue by itself; null where it cannot. Lists fold no history: there `next` is generic,
    and `output`, `error`, `tokens` and `next_attempt_at`, which is when a step that failed is tried again, are null.
    """

    id: str
    key: str | None
    text: str
    mind: MindKind
    flow: str | None
    bot: str | None
    queue: str
    workdir: str | None
    status: GoalStatus
    reason: Reason | None
    detail: str | None
    waiting_for: WaitingFor | None
    due_at: Moment | None
    next_attempt_at: Moment | None
    tags: list[str]
    created_at: Moment
    updated_at: Moment
    last_seq: int
    steps: int
    cost_usd: float
    tokens: int | None
    parent: ParentGoal | None
    forked_from: ForkOrigin | None
    output: Any
    error: Failure | None
    next: list[NextCommand]


class Call(TypedDict):
    """A call of a goal: a tool, a question or a wait, with what became of it.

    `state` says in a few words what became of it. `usage` and `meta` are what the tool has recorded about itself.
    """

    call_id: str
    step: str
    tool: str
    effect: Effect | None
    attempt: int
    state: str
    is_open: bool
    seq: int
    ended_seq: int | None
    began_at: Moment
    ended_at: Moment | None
    duration_ms: int | None
    cost_usd: float
    usage: dict[str, Any] | None
    meta: dict[str, Any] | None
    error: Failure | None
    happened: Happened | None
    question: str | None
    options: list[str] | None
    answer: Any
    until: Moment | None
    next_attempt_at: Moment | None


class Question(TypedDict):
    """A question that waits for an answer; `until` is when it times out."""

    call_id: str
    step: str
    question: str
    options: list[str] | None
    until: Moment | None


class UnknownOutcome(TypedDict):
    """A call that was started and whose outcome is not known: it waits for a decision."""

    call_id: str
    step: str
    why: str


class StepToCome(TypedDict):
    """A step of a plan that has no call: it is skipped, or still to come."""

    step: str
    state: str


class Pending(TypedDict):
    """Something that was posted to a goal and that no worker has taken yet: a decision, a signal, a cancel, a limit."""

    kind: str
    payload: dict[str, Any]
    created_at: Moment


class Child(TypedDict):
    """A goal that a call of this goal started."""

    id: str
    call_id: str | None
    text: str
    status: GoalStatus
    reason: Reason | None


class Amount(TypedDict):
    """How much of something a goal has used, and its limit; null where there is none."""

    limit: float | None
    used: float


class GoalLimits(TypedDict):
    """The limits of a goal; `reached` is the one at which it waits."""

    iterations: Amount
    tokens: Amount
    usd: Amount
    seconds: Amount
    reached: LimitName | None


class PolicyRule(TypedDict):
    """A verdict on the calls of a tool, by patterns at dotted paths of their arguments."""

    tool: str
    verdict: Literal["allow", "ask", "deny"]
    arguments: dict[str, str]


class Policy(TypedDict):
    """What judges the calls that a model decides: deny before ask before allow; a person is asked about the rest.

    `rules` stand beside those of the preset. With `yes`, what is only asked about counts as approved.
    """

    preset: str
    rules: list[PolicyRule]
    yes: bool


class GoalDetail(Goal):
    """A goal with all that its history says: its calls, and what it waits for.

    `questions` and `unknown` wait for a person. `pending` was posted and is not taken yet. `not_begun` has the steps of
    a plan without a call, `children` the goals that it started, the oldest first. `damage` says what is wrong with a
    history that cannot be read whole: then the calls are those that can be read, and `limits` and `policy` may be null.
    """

    timeline: list[Call]
    not_begun: list[StepToCome]
    questions: list[Question]
    unknown: list[UnknownOutcome]
    pending: list[Pending]
    limits: GoalLimits | None
    policy: Policy | None
    children: list[Child]
    damage: str | None


class Approval(TypedDict):
    """A call that waits for a person, and the decisions that it takes.

    `until` is when a question times out; null where it does not. `damaged` is a goal whose history cannot be read: it
    has no call, and `why` says what is wrong.
    """

    goal_id: str
    call_id: str | None
    kind: ApprovalKind
    step: str | None
    since: Moment
    decisions: list[PersonDecision]
    question: str | None
    options: list[str] | None
    until: Moment | None
    tool: str | None
    arguments: dict[str, Any] | None
    why: str | None
