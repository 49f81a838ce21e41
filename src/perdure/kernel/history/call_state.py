"""A call, and what became of it."""

from dataclasses import dataclass

from perdure.kernel.events import Ask, Decision, OutcomeUnknown, Signal, ToolCall, ToolOutput, Wait

Call = ToolCall | Ask | Wait


@dataclass(frozen=True, slots=True)
class CallState:
    """A call and what became of it: open, unknown, or settled by an outcome or a decision."""

    call: Call
    seq: int
    began_us: int
    needs_approval: bool = False
    """What a model decided begins only when the policy or a person has approved it."""
    is_queued: bool = False
    """Whether the call that comes before it is still open."""
    outcome: ToolOutput | None = None
    unknown: OutcomeUnknown | None = None
    decision: Decision | None = None
    ended_us: int | None = None
    signal: Signal | None = None
    """What ended a wait for a signal."""
    times_again: int = 0
    """How often it was begun again after a crash, under the same key."""
    ended_seq: int | None = None
    """The event that settled it."""
    payload: str = ""
    """The payload of its event as it is stored, of a call that needs approval: that is what a person approves."""

    @property
    def is_open(self) -> bool:
        return self.outcome is None and self.signal is None and not self._is_decided

    @property
    def awaits_approval(self) -> bool:
        is_undecided = self.needs_approval and self.decision is None and self.unknown is None
        return self.is_open and is_undecided and not self.is_queued

    @property
    def runs(self) -> bool:
        """Whether it is a tool call that runs, or is to be run, by itself."""
        is_held = self.unknown is not None or self.is_queued or self.awaits_approval
        return isinstance(self.call, ToolCall) and self.is_open and not is_held and self.call.child is None

    @property
    def is_child(self) -> bool:
        """Whether it has started a child goal, and waits for its end."""
        return isinstance(self.call, ToolCall) and self.call.child is not None

    @property
    def _is_decided(self) -> bool:
        """An approval opens the way for a call, a denial is followed by its outcome; other decisions end it."""
        return self.decision is not None and self.decision.decision not in ("approve", "deny")
