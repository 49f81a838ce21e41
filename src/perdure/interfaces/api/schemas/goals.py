"""Goals: what a caller sends to start and steer one."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from perdure.app.goals.arguments.validate import LONGEST_REASON, MOST_TAGS, TAG
from perdure.app.wire.resources.vocabulary import PersonDecision
from perdure.kernel.events import Limits
from perdure.kernel.tool import Verdict

LARGEST = 2**63 - 1
Whole = Annotated[int, Field(ge=1, le=LARGEST)]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PolicyText = Annotated[str, Field(min_length=1, max_length=1000)]
StepName = Annotated[str, Field(min_length=1, max_length=1000)]


class LimitsBody(BaseModel):
    """How much a goal may use; a limit that is left out or null does not apply."""

    model_config = ConfigDict(extra="forbid", strict=True)
    iterations: Whole | None = None
    tokens: Whole | None = None
    usd: Amount | None = None
    seconds: Amount | None = None

    def as_limits(self) -> Limits:
        """Return what the kernel counts by."""
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
    """What judges the calls that a model decides: deny before ask before allow; a person is asked about the rest."""

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
    rules: list[RuleBody] = Field(default=[], max_length=100, description="Rules beside those of the preset.")
    yes: bool = Field(default=False, description="Approve what is only asked about; programs and changed files never.")


class GoalBody(BaseModel):
    """A goal to start: exactly one of `text`, `plan` and `flow`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"text": "echo hello"},
                {"plan": "goal: two steps\nsteps:\n  - id: a\n    exec: echo one\n  - id: b\n    exec: echo two\n"},
            ]
        },
    )
    text: (
        Annotated[
            str,
            Field(min_length=1, max_length=100_000, description="A command line. A shell runs it if `shell` is true."),
        ]
        | None
    ) = None
    plan: Annotated[str, Field(min_length=1, max_length=500_000, description="The text of a plan.")] | None = None
    flow: (
        Annotated[
            str,
            Field(
                min_length=1, max_length=500, description="A flow, `module:function`, that the setting `flows` names."
            ),
        ]
        | None
    ) = None
    args: list[Any] | dict[str, Any] | None = Field(
        default=None, description="Arguments of the flow, by position or by name."
    )
    bot: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    limits: LimitsBody = LimitsBody()
    tags: list[Annotated[str, Field(pattern=f"^{TAG}$")]] = Field(
        default=[],
        max_length=MOST_TAGS,
        description="Labels to find the goal by, each once: letters, digits and `_.:/=@+-`, at most 64 characters.",
        json_schema_extra={"uniqueItems": True},
    )
    shell: bool = False
    policy: PolicyBody | None = Field(
        default=None,
        description="Judges the calls that a model decides, in every run of the goal; default: the setting `policy`.",
    )

    @model_validator(mode="after")
    def _is_one(self) -> "GoalBody":
        if sum(each is not None for each in (self.text, self.plan, self.flow)) != 1:
            raise ValueError("expected exactly one of text, plan and flow")
        if self.args is not None and self.flow is None:
            raise ValueError("only a flow takes args")
        if self.shell and self.text is None:
            raise ValueError("only a text is run by a shell")
        return self


class ResumeBody(BaseModel):
    """Limits to raise."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"limits": {"seconds": 600}}]}
    )
    limits: LimitsBody = LimitsBody()


class RetryBody(BaseModel):
    """Why a failed goal is retried, and limits to raise."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{}, {"reason": "the printer has paper again"}]}
    )
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)] | None = None
    limits: LimitsBody = LimitsBody()
    policy: PolicyBody | None = Field(
        default=None, description="Judges the calls that a model decides from then on; default: the policy of the goal."
    )


class ForkBody(BaseModel):
    """Where to fork: exactly one of `at`, `before`, `after` and `before_message`."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"at": 1},
                {"before": "charge"},
                {"after": "charge", "repeat": ["ship"], "take_key": True},
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
        description="Steps of effect `once` that may have happened and that the fork repeats, and steps of a cleanup"
        " that it does not undo. Without this such a fork is 409.",
    )
    take_key: bool = Field(
        default=False, description="Move the start key of the goal to the fork; a goal without one is 422."
    )
    policy: PolicyBody | None = Field(
        default=None, description="Judges the calls that a model decides in the fork; default: the policy of the goal."
    )

    @model_validator(mode="after")
    def _is_one_place(self) -> "ForkBody":
        if sum(each is not None for each in (self.at, self.before, self.after, self.before_message)) != 1:
            raise ValueError("expected exactly one of at, before, after and before_message")
        return self


class CancelBody(BaseModel):
    """How a goal is cancelled."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"reason": "The order was withdrawn."}]}
    )
    reason: Annotated[str, Field(min_length=1, max_length=LONGEST_REASON)] | None = Field(
        default=None, description="Why, for the history."
    )
    now: bool = Field(default=False, description="End the goal without running the cleanup of its flow.")


class DecisionBody(BaseModel):
    """A decision about an open call. Without `call_id`, it is about the only call that it fits."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"decision": "answer", "value": "yes"}]}
    )
    decision: PersonDecision
    call_id: Annotated[str, Field(max_length=500)] | None = None
    value: Any = None


class SignalBody(BaseModel):
    """A signal for a goal."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "paid", "payload": {"order": 7}}]}
    )
    name: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
