"""The state of one call."""

from dataclasses import dataclass

from perdure.kernel.events import Ask, Decision, OutcomeUnknown, Signal, ToolCall, ToolOutput, Wait

Call = ToolCall | Ask | Wait


@dataclass(frozen=True, slots=True)
class CallState:
    """A call and its state: open, unknown, or settled by an outcome, a decision or a signal."""

    call: Call
    seq: int
    began_us: int
    needs_approval: bool = False
    """Whether a model decided the call, so that the policy or a person must approve it before it begins."""
    is_queued: bool = False
    """Whether the call that it must follow is still open, or is to be run again."""
    outcome: ToolOutput | None = None
    unknown: OutcomeUnknown | None = None
    decision: Decision | None = None
    ended_us: int | None = None
    signal: Signal | None = None
    """The signal that ended a wait."""
    times_again: int = 0
    """How many times it was run again after a crash, under the same key."""
    ended_seq: int | None = None
    """The event that settled it."""
    payload: str = ""
    """The stored payload of the intent of a call that needs approval: what a person sees and approves."""

    @property
    def is_open(self) -> bool:
        return self.outcome is None and self.signal is None and not self._is_decided

    @property
    def is_retried(self) -> bool:
        """Whether a person had it run again as another attempt, which settles what waits for it."""
        return self.decision is not None and self.decision.decision == "retry"

    @property
    def awaits_approval(self) -> bool:
        is_undecided = self.needs_approval and self.decision is None and self.unknown is None
        return self.is_open and is_undecided and not self.is_queued

    @property
    def runs(self) -> bool:
        """Whether it is a tool call that runs or can run without a decision."""
        return isinstance(self.call, ToolCall) and self.call.child is None and self.may_begin

    @property
    def may_begin(self) -> bool:
        """Whether it is open, and waits neither for a decision nor for a call before it."""
        return self.is_open and not (self.unknown is not None or self.is_queued or self.awaits_approval)

    @property
    def has_intent(self) -> bool:
        """Whether it was recorded before it began; a pure step of a flow is recorded when it has ended."""
        return self.outcome is None or self.outcome.step is None

    @property
    def started_us(self) -> int:
        """When it began, as far as that is known: by its intent, or by what it took."""
        took_ms = 0 if self.outcome is None or self.has_intent else self.outcome.duration_ms
        return self.began_us - took_ms * 1000

    @property
    def is_child(self) -> bool:
        """Whether it starts a child goal and waits for its end."""
        return isinstance(self.call, ToolCall) and self.call.child is not None

    @property
    def _is_decided(self) -> bool:
        """Whether a decision ended the call; after an approval or a denial, an outcome ends it."""
        return self.decision is not None and self.decision.decision not in ("approve", "deny")
