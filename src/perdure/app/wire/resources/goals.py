"""Goals, their calls, and the calls that wait for a person."""

from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import ApprovalKind, Moment, PersonDecision, Schema
from perdure.kernel.events import Effect, Happened, LimitName, MindKind, Reason
from perdure.kernel.ports import WaitingFor
from perdure.statuses import GoalStatus


class NextCommand(TypedDict):
    """A command line that a person can run next, and its purpose."""

    command: str
    why: str


class Failure(TypedDict):
    """The failure of a goal or a call; `type`, `args`, `attributes` and `traceback` describe the exception, if any."""

    code: str
    message: str
    type: str | None
    args: Any
    attributes: dict[str, Any] | None
    traceback: str | None
    retryable: bool | None


class ParentGoal(TypedDict):
    """The goal and the call that started a child."""

    goal_id: str
    call_id: str


class ForkOrigin(TypedDict):
    """The last event that a fork shares with its origin."""

    goal_id: str
    seq: int


class Goal(TypedDict):
    """A goal: in lists, in frames of `/ws/events`, and as the response to a change of a goal.

    `status` is `interrupted` if no worker runs it; it continues when it is resumed. `detail` explains its end or its
    status. `next` has the commands that a person can run next, the most useful first. `due_at` is the time at which a
    waiting goal can continue by itself, or null. `next_attempt_at` is the time of the next attempt of a failed step.
    In lists, `next` is generic, and `output`, `error`, `tokens` and `next_attempt_at` are null.
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
    """A call of a goal: of a tool, a question or a wait.

    `state` describes its outcome in a few words. `usage` and `meta` were recorded by the tool.
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


class ModelStep(TypedDict):
    """What a model was shown or answered in a goal; `text` is its beginning, and the transcript has the whole.

    `state` says in a few words what it is: how a turn ended, which events a summary replaces in later requests.
    `cost_usd` is null where the price is unknown. Of failures, only the last is listed.
    """

    seq: int
    kind: Literal["prompt", "message", "turn", "summary", "failure"]
    model: str | None
    state: str
    text: str
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    duration_ms: int | None


class Question(TypedDict):
    """A question that waits for an answer; `until` is its deadline."""

    call_id: str
    step: str
    question: str
    options: list[str] | None
    until: Moment | None


class UnknownOutcome(TypedDict):
    """A call that was started, but whose outcome is unknown; it waits for a decision."""

    call_id: str
    step: str
    why: str


class StepToCome(TypedDict):
    """A step of a plan without a call: it was skipped, or has not started yet."""

    step: str
    state: str


class Pending(TypedDict):
    """A post to a goal that no worker has applied yet: a decision, a signal, a cancel, a limit or a message."""

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
    """The used amount of a limited resource, and its limit; null without one."""

    limit: float | None
    used: float


class GoalLimits(TypedDict):
    """The limits of a goal; `reached` is the limit for which it waits."""

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
    """The policy for calls of a model. Deny takes precedence over ask, and ask over allow; the default is ask.

    `rules` are added to those of the preset. With `yes`, calls that would be asked about are approved.
    """

    preset: str
    rules: list[PolicyRule]
    yes: bool


class GoalDetail(Goal):
    """A goal in detail, with its calls.

    `questions` and `unknown` wait for a person. `pending` has posts that are not applied yet, `not_begun` the steps of
    a plan without a call, and `children` the goals that it started, oldest first. `damage` describes a history that
    cannot be read completely: then only the readable calls are listed, and `limits` and `policy` may be null.
    """

    timeline: list[Call]
    model_steps: list[ModelStep]
    not_begun: list[StepToCome]
    questions: list[Question]
    unknown: list[UnknownOutcome]
    pending: list[Pending]
    limits: GoalLimits | None
    policy: Policy | None
    children: list[Child]
    damage: str | None


class ShownCall(TypedDict):
    """What a person sees of a call before approving it. There is no sandbox yet: the last three are null or empty."""

    tool: str
    arguments: dict[str, Any]
    effect: Effect
    workdir: str | None
    network: str | None
    sandbox: str | None
    secrets: list[str]


class Approval(TypedDict):
    """A call that waits for a person, and the possible decisions.

    `until` is the deadline of a question, or null. The kind `damaged` is a goal whose history cannot be read: it has no
    call, and `why` describes the damage.
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
    shown: Annotated[ShownCall | None, Schema(description="For `approve`: what is approved; otherwise null.")]
    shown_sha256: Annotated[
        str | None,
        Schema(description="SHA-256 of the canonical JSON of `shown` (sorted keys, no spaces); `approve` repeats it."),
    ]
    why: str | None
