"""Request bodies for goals."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from perdure.app.goals.arguments.limits import Limits
from perdure.app.goals.arguments.policies import Verdict
from perdure.app.goals.arguments.validate import LONGEST_MESSAGE, LONGEST_REASON, MOST_TAGS, TAG
from perdure.app.wire.resources.vocabulary import PersonDecision

LARGEST = 2**63 - 1
Whole = Annotated[int, Field(ge=1, le=LARGEST)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
CommandLine = Annotated[str, Field(min_length=1, max_length=100_000)]
MOST_WORDS = 10_000
ModelText = Annotated[str, Field(min_length=1, max_length=500)]
PolicyText = Annotated[str, Field(min_length=1, max_length=1000)]
StepName = Annotated[str, Field(min_length=1, max_length=1000)]


class LimitsBody(BaseModel):
    """Limits of a goal; a limit that is omitted or null does not apply."""

    model_config = ConfigDict(extra="forbid", strict=True)
    iterations: Whole | None = None
    tokens: Whole | None = None
    usd: Amount | None = None
    seconds: Amount | None = None

    def as_limits(self) -> Limits:
        """Return the limits for the kernel."""
        return Limits(self.iterations, self.tokens, self.usd, self.seconds)


class RuleBody(BaseModel):
    """A verdict on calls of a tool, by patterns at dotted paths of its arguments; without any, on all of them."""

    model_config = ConfigDict(extra="forbid", strict=True)
    tool: PolicyText = Field(description="The name of a tool, or a pattern.")
    verdict: Verdict
    arguments: dict[PolicyText, PolicyText] = Field(
        default={}, max_length=100, description="Patterns by path, such as `argv.0`."
    )


class PolicyBody(BaseModel):
    """The policy for calls of a model. Deny takes precedence over ask, and ask over allow; the default is ask."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"preset": "read-only"},
                {"rules": [{"tool": "read_file", "verdict": "allow", "arguments": {"path": "notes/*"}}]},
            ]
        },
    )
    preset: PolicyText = Field(default="ask", description="`ask` or `read-only`.")
    rules: list[RuleBody] = Field(default=[], max_length=100, description="Rules in addition to those of the preset.")
    yes: bool = Field(
        default=False, description="Approve calls that would be asked about, except programs and changes of files."
    )


class GoalBody(BaseModel):
    """A goal to start: exactly one of `text`, `command`, `plan` and `flow`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "Summarise README.md in three sentences.", "model": "openai:gpt-5.4-mini"},
                {"command": ["echo", "hello"]},
                {"command": "echo hello | wc -c", "shell": True},
                {"plan": "goal: two steps\nsteps:\n  - id: a\n    exec: echo one\n  - id: b\n    exec: echo two\n"},
            ]
        },
    )
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_MESSAGE, description="What a model does.")] | None = (
        None
    )
    command: Annotated[list[str], Field(min_length=1, max_length=MOST_WORDS)] | CommandLine | None = Field(
        default=None,
        description="A program with its arguments, passed on as given, or a command line, which a shell runs if `shell`"
        " is true, else it is split into words.",
    )
    plan: Annotated[str, Field(min_length=1, max_length=500_000, description="The text of a plan.")] | None = None
    flow: (
        Annotated[
            str,
            Field(
                min_length=1, max_length=500, description="A flow, `module:function`, that the setting `flows` allows."
            ),
        ]
        | None
    ) = None
    args: list[Any] | dict[str, Any] | None = Field(
        default=None, description="Arguments of the flow, by position or by name."
    )
    bot: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    model: ModelText | None = Field(
        default=None,
        description="The model for a text, as `provider:name`; default: that of the bot, or of the settings.",
    )
    limits: LimitsBody = LimitsBody()
    tags: list[Annotated[str, Field(pattern=f"^{TAG}$")]] = Field(
        default=[],
        max_length=MOST_TAGS,
        description="Unique tags for filters: letters, digits and `_.:/=@+-`, at most 64 characters each.",
        json_schema_extra={"uniqueItems": True},
    )
    shell: bool = False
    policy: PolicyBody | None = Field(
        default=None,
        description="The policy for calls of a model, in every run of the goal (default: setting `policy`).",
    )

    @model_validator(mode="after")
    def _is_one(self) -> "GoalBody":
        if sum(each is not None for each in (self.text, self.command, self.plan, self.flow)) != 1:
            raise ValueError("expected exactly one of `text`, `command`, `plan` and `flow`")
        if self.model is not None and self.text is None:
            raise ValueError("`model` requires `text`")
        if self.args is not None and self.flow is None:
            raise ValueError("`args` requires `flow`")
        if self.shell and not isinstance(self.command, str):
            raise ValueError("`shell` requires `command` as one string")
        return self


class ResumeBody(BaseModel):
    """Limits to raise, and another model; `compact` summarises the beginning of a conversation first."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{}, {"limits": {"seconds": 600}}, {"model": "openai:gpt-5.4-mini"}]},
    )
    limits: LimitsBody = LimitsBody()
    model: ModelText | None = Field(
        default=None, description="The model of a goal for a model from now on; default: the model that it has."
    )
    compact: bool = Field(
        default=False,
        description="Summarise a conversation, except its first message and its last four answers, before it continues."
        " For another goal, the response is 409.",
    )


class RetryBody(BaseModel):
    """The reason of a retry, and limits to raise."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"reason": "the printer has paper again"}]}
    )
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)] | None = None
    limits: LimitsBody = LimitsBody()
    policy: PolicyBody | None = Field(
        default=None, description="The policy for calls of a model from now on (default: the policy of the goal)."
    )


class ForkBody(BaseModel):
    """The point of a fork: exactly one of `at`, `before`, `after` and `before_message`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"at": 1},
                {"before": "charge"},
                {"after": "charge", "repeat": ["ship"], "take_key": True},
                {"before_message": 4, "text": "Or in Python?"},
            ]
        },
    )
    at: Whole | None = Field(default=None, description="The seq of the last event that the fork shares with the goal.")
    before: StepName | None = Field(
        default=None, description="A step or a call id: the fork shares the events before it, and calls it again."
    )
    after: StepName | None = Field(
        default=None, description="A step or a call id: the fork shares the events up to its outcome."
    )
    before_message: Whole | None = Field(
        default=None, description="The seq of a person's message: the fork shares the events before it."
    )
    repeat: Annotated[list[StepName], Field(max_length=1000)] = Field(
        default=[],
        description="Steps with effect `once` that the fork may repeat although they may have happened, and steps of a"
        " cleanup that it need not undo. A fork that needs this is 409 without it.",
    )
    take_key: bool = Field(
        default=False, description="Move the start key of the goal to the fork; a goal without one is 422."
    )
    policy: PolicyBody | None = Field(
        default=None, description="The policy for calls of a model in the fork (default: the policy of the goal)."
    )
    text: Annotated[str, Field(min_length=1, max_length=100_000)] | None = Field(
        default=None, description="The first message to the fork of a conversation."
    )
    model: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        default=None, description="The model that answers in the fork of a conversation; default: that of the goal."
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> "ForkBody":
        if sum(each is not None for each in (self.at, self.before, self.after, self.before_message)) != 1:
            raise ValueError("expected exactly one of `at`, `before`, `after` and `before_message`")
        is_of_steps = self.before is not None or self.after is not None or bool(self.repeat) or self.take_key
        if is_of_steps and (self.text is not None or self.model is not None):
            raise ValueError("`text` and `model` require `at` or `before_message`, without `repeat` and `take_key`")
        return self


class CancelBody(BaseModel):
    """Options of a cancel."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"reason": "The order was withdrawn."}]}
    )
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)] | None = Field(
        default=None, description="The reason, recorded in the history."
    )
    now: bool = Field(default=False, description="End the goal without running the cleanup of its flow.")


ShownSha256 = Annotated[
    str | None, Field(pattern="^[0-9a-f]{64}$", description="`shown_sha256` of the call in `/approvals`.")
]


class DecisionBody(BaseModel):
    """A decision on an open call. Without `call_id`, it applies to the only call that it fits.

    `approve` needs `shown_sha256` of the call in `/approvals`: without it the response is 422, with another one 409.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"decision": "answer", "value": "yes"}]}
    )
    decision: PersonDecision
    call_id: Annotated[str, Field(max_length=500)] | None = None
    value: Any = None
    shown_sha256: ShownSha256 = None
    scope: Annotated[Literal["once"], Field(description="The decision applies to this call only.")] = "once"


class SignalBody(BaseModel):
    """A signal for a goal."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "paid", "payload": {"order": 7}}]}
    )
    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
