"""The state of a goal: a pure fold of its events, the same for every surface and after every crash."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, assert_never

from perdure.errors import Damaged
from perdure.gc_pause import gc_paused
from perdure.kernel.conversation.conversation import Conversation
from perdure.kernel.events import (
    SCHEMA_VERSION,
    Ask,
    Body,
    Cancel,
    Decision,
    Entry,
    Event,
    GoalBegun,
    Head,
    Hold,
    LimitName,
    LimitRaised,
    LimitReached,
    Limits,
    Message,
    ModelFailure,
    ModelTurn,
    OutcomeUnknown,
    PolicySpec,
    Prompt,
    Released,
    Reopened,
    Signal,
    Termination,
    ToolCall,
    ToolOutput,
    TranscriptSummary,
    Wait,
    decode,
    unreadable,
)
from perdure.kernel.history.call_state import Call, CallState
from perdure.kernel.history.frozen import constructor
from perdure.kernel.limits import Used, reached
from perdure.statuses import Status
from perdure.text.moments import moment_us

BY_PARENT = "cancelled_by_parent"
"""The error code of a goal that its parent cancelled."""

WaitingFor = Literal["person", "signal", "timer", "limit", "child", "hold", "message", "model"]

_ORDER: tuple[WaitingFor, ...] = ("person", "limit", "model", "child", "signal", "timer", "message")

MODEL = "model:"
"""The prefix of the decider of a call that a model decided; the name of the bot follows."""
ASSISTANT = "assistant"
"""The bot of a goal without an explicit bot."""
_DECIDERS = {"command": "person", "plan": "plan", "flow": "flow"}
"""The decider of calls that do not name one, by kind of mind."""


class Origin(NamedTuple):
    """A goal that wrote a part of a history: its own, or one that it was forked from."""

    goal_id: str
    seq: int
    """The first event of that part."""
    created_us: int


_head = constructor(Head)
_call_state = constructor(CallState)


@dataclass(slots=True)
class GoalState:
    """The state that the events of a goal add up to; only `apply` changes it."""

    begun: GoalBegun
    head: Head
    created_us: int
    updated_us: int
    limits: Limits
    policy: PolicySpec | None
    """The policy for calls of models: that of the start or fork, or of the last retry that changed it."""
    used: Used = field(default_factory=Used)
    calls: dict[str, CallState] = field(default_factory=dict)
    open_calls: dict[str, CallState] = field(default_factory=dict)
    settled: list[str] = field(default_factory=list)
    """The calls that are no longer open, in the order in which they ended."""
    steps: int = 0
    """The number of settled tool calls."""
    signals: list[Signal] = field(default_factory=list)
    """Signals that no call has waited for yet, in order of arrival."""
    conversation: Conversation = field(default_factory=Conversation)
    """Messages to the model, and its turns."""
    short_of: LimitName | None = None
    """The limit of which too little is left for the next request to a model."""
    governed: list[str] = field(default_factory=list)
    """The calls that a model decided, in the order of their events."""
    queued: dict[str, str] = field(default_factory=dict)
    """The calls that wait for another call, by the id of that call; for a retried call, until its next attempt ends."""
    termination: Termination | None = None
    hold: Hold | None = None
    """Why the goal is not run automatically."""
    cancel: Cancel | None = None
    """Why the flow of a goal cleans up: the goal ends as cancelled."""
    cancel_seq: int = 0
    """The event that cancelled the goal."""
    cancel_us: int = 0
    reopenings: list[Reopened] = field(default_factory=list)
    reopened_seq: int = 0
    """The last `reopened` event. Guards look only at what came after it."""
    attempts_before: dict[str, int] = field(default_factory=dict)
    """The number of calls of a step when it was last reopened: its retry policy counts from there."""
    origins: list[Origin] = field(default_factory=list)
    """The goals that wrote the history, in order: from the first of a chain of forks to this goal."""
    first_v: int = SCHEMA_VERSION
    """The version of the first event."""

    @property
    def goal_id(self) -> str:
        return self.head.goal_id

    def decider_of(self, call: ToolCall) -> str:
        """Return who decided a call: `person`, `plan`, `flow` or `model:<bot>`."""
        return call.by or _DECIDERS.get(self.begun.mind.kind) or f"{MODEL}{self.begun.bot or ASSISTANT}"

    def is_governed(self, call: Call) -> bool:
        """Return whether a model decided a call, so that the policy judges it. Calls of people need no judgement."""
        by = call.by if isinstance(call, ToolCall) else None
        return self.begun.mind.kind not in _DECIDERS if by is None else by.startswith(MODEL)

    @property
    def reached_limit(self) -> LimitName | None:
        return reached(self.limits, self.used) or self.short_of

    @property
    def status(self) -> Status:
        """The status of the goal: it waits when all open calls wait for a person, a signal, a timer or a child."""
        return self.status_when(self.waiting_for)

    def status_when(self, waiting_for: WaitingFor | None) -> Status:
        """Return the status, given the result of `waiting_for`."""
        if self.termination is not None:
            return _final_status(self.termination)
        return "waiting" if waiting_for is not None else "open"

    def timers(self) -> dict[str, int]:
        """Return the calls that a timer ends, each with its moment in microseconds since 1970."""
        return {
            call_id: moment_us(call.call.until)
            for call_id, call in self.open_calls.items()
            if isinstance(call.call, Wait | Ask) and call.call.until
        }

    @property
    def can_be_reopened(self) -> bool:
        """Whether the ended goal can continue: it failed, or its parent cancelled it without a cleanup."""
        end = self.termination
        if end is None:
            return False
        is_by_parent = end.error is not None and end.error.code == BY_PARENT and self.cancel is None
        return _final_status(end) == "failed" or is_by_parent

    @property
    def is_busy(self) -> bool:
        """Whether a tool call runs or can run without a decision."""
        return any(call.runs for call in self.open_calls.values())

    @property
    def waiting_for(self) -> WaitingFor | None:
        """What the goal waits for if no call can run; if there are several, the first in `_ORDER`."""
        if self.termination is None and self.hold is not None:
            return "hold"
        if self.cancel is not None:
            return None  # its flow cleans up: nothing else is waited for
        is_of_model = self.begun.mind.kind == "model"
        if self.termination is not None or self.is_busy:
            return None
        if not (self.open_calls or self.reached_limit or is_of_model):
            return None
        found = {_waits_for(call) for call in self.open_calls.values() if not call.is_queued}
        if self.reached_limit is not None:
            found.add("limit")
        if is_of_model:
            found |= self._awaited_by_model()
        return next((kind for kind in _ORDER if kind in found), None)

    def _awaited_by_model(self) -> set[WaitingFor]:
        """Return the waits that only a goal with a model has: for the model, and for the next message."""
        found: set[WaitingFor] = set()
        if self.conversation.failure_seq == self.head.seq:
            found.add("model")
        if self.begun.mind.chat and not self.open_calls and self.conversation.awaits_message:
            found.add("message")
        return found


def fold(events: Iterable[Event]) -> GoalState:
    """Fold a whole history.

    Raises: Damaged when an event cannot be read, is missing, or does not follow from those before it.
    """
    state: GoalState | None = None
    with gc_paused():
        for event in events:
            if state is None:
                state = _begin(event)
            else:
                apply(state, event)
    if state is None:
        raise Damaged("A goal must have events, found none.")
    return state


def apply(state: GoalState, event: Event, body: Body | None = None) -> None:
    """Apply one more event to the state. A caller that has its decoded body may pass it, to save the decoding.

    Raises: Damaged when it cannot follow the events before it.
    """
    if event.seq != state.head.seq + 1:
        raise Damaged(f"Event {state.head.seq + 1} of {event.goal_id} is missing; {event.seq} follows instead.")
    if state.termination is not None and event.type != "reopened":
        raise Damaged(f"Event {event.seq} of {event.goal_id} comes after the end.")
    try:
        _take(state, decode(event) if body is None else body, event)
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise unreadable(event, error) from error
    state.head = _head(event.goal_id, event.seq, event.hash)
    state.updated_us = event.timestamp_us
    state.used.iterations = max(state.used.iterations, event.iteration)


def _begin(event: Event) -> GoalState:
    body = decode(event)
    if event.seq != 1 or not isinstance(body, GoalBegun):
        raise Damaged(f"The history of {event.goal_id} does not begin with its goal, but with event {event.seq}.")
    head = Head(event.goal_id, event.seq, event.hash)
    origin = Origin(event.goal_id, event.seq, event.timestamp_us)
    created_us, policy = event.timestamp_us, body.policy
    return GoalState(body, head, created_us, created_us, body.limits, policy, origins=[origin], first_v=event.v)


def _take(state: GoalState, body: Body, event: Event) -> None:
    match body:
        case ToolCall() | Ask() | Wait():
            _open(state, body, event)
        case ToolOutput() | OutcomeUnknown() | Decision():
            _answer(state, body, event)
        case GoalBegun():
            _fork(state, body, event)
        case Signal():
            _signal(state, body, event)
        case LimitRaised() | LimitReached():
            _limit(state, body)
        case Cancel() | Termination() | Reopened() | Hold() | Released():
            _apply_lifecycle(state, body, event)
        case Message() | ModelTurn() | TranscriptSummary() | Prompt() | ModelFailure():
            _apply_talk(state, body, event)
        case _:
            assert_never(body)


def _apply_lifecycle(state: GoalState, body: Cancel | Termination | Reopened | Hold | Released, event: Event) -> None:
    """Cancel, end, reopen, hold or release the goal."""
    match body:
        case Cancel():
            state.cancel, state.cancel_seq, state.cancel_us = body, event.seq, event.timestamp_us
        case Termination():
            state.termination = body
        case Reopened():
            _reopen(state, body, event)
        case Hold():
            state.hold = body
        case Released():
            state.hold = None


def _final_status(end: Termination) -> Status:
    match end.reason:
        case "done" | "cancelled":
            return end.reason
        case _:
            return "failed"


def _reopen(state: GoalState, body: Reopened, event: Event) -> None:
    """Reopen a goal: steps of the calls in `again` are called again, calls in `unknown` wait for a decision."""
    if not state.can_be_reopened or body.ended_seq != state.head.seq:
        raise Damaged(f"Event {event.seq} of {event.goal_id} reopens a goal that has not failed at {body.ended_seq}.")
    state.termination = None
    state.policy = state.policy if body.policy is None else body.policy
    state.reopenings.append(body)
    state.reopened_seq = event.seq
    state.conversation.fruitless = 0
    attempts = Counter(call.call.step for call in state.calls.values())
    for call_id in (*body.again, *body.unknown):
        step = state.calls[call_id].call.step
        state.attempts_before[step] = attempts[step]
    for call_id in body.unknown:
        _reopen_as_unknown(state, state.calls[call_id])


def _reopen_as_unknown(state: GoalState, before: CallState) -> None:
    call_id = before.call.call_id
    why = "The goal is retried, and this call may have had its effect although it failed."
    unknown = OutcomeUnknown(call_id, why)
    after = CallState(before.call, before.seq, before.began_us, before.needs_approval, unknown=unknown)
    state.calls[call_id] = state.open_calls[call_id] = after
    state.settled.remove(call_id)
    state.steps -= 1


def _fork(state: GoalState, body: GoalBegun, event: Event) -> None:
    """Continue the events of another goal. Calls that are open at the fork are void.

    An open call may be running in the other goal, and its outcome never reaches the fork. So the fork removes it from
    the state, as if it had never begun, and the mind asks for its step again. A step that was reopened keeps the
    attempts of its retry policy: its count of earlier calls must not be higher than the number of calls that are left.
    """
    if body.mind.model != state.begun.mind.model:
        state.conversation.chosen = body.mind.model
    state.begun = body
    state.created_us = event.timestamp_us
    state.origins.append(Origin(event.goal_id, event.seq, event.timestamp_us))
    state.limits, state.policy = body.limits, body.policy
    state.short_of = None
    state.hold = None
    state.queued.clear()
    for call_id in body.voided:
        voided = state.calls.pop(call_id, None)
        if call_id in state.governed:
            state.governed.remove(call_id)
        state.open_calls.pop(call_id, None)
        if voided is not None and (step := voided.call.step) in state.attempts_before:
            left = sum(call.call.step == step for call in state.calls.values())
            state.attempts_before[step] = min(state.attempts_before[step], left)


def _open(state: GoalState, call: Call, event: Event) -> None:
    if call.call_id in state.calls:
        raise Damaged(f"Event {event.seq} of {event.goal_id} begins call {call.call_id} a second time.")
    if state.is_governed(call):
        state.governed.append(call.call_id)
        is_call = isinstance(call, ToolCall)
        shown = event.payload if is_call else ""
        begun = _call_state(call, event.seq, event.timestamp_us, needs_approval=is_call, payload=shown)
    else:
        begun = _call_state(call, event.seq, event.timestamp_us)
    if isinstance(call, ToolCall):
        _hold_behind_attempt(state, call)
        if call.after is not None and call.after in state.open_calls:
            state.queued[call.after] = call.call_id
            begun = replace(begun, is_queued=True)
    state.calls[call.call_id] = state.open_calls[call.call_id] = begun
    if isinstance(call, Wait) and call.signal is not None:
        for signal in state.signals:
            if signal.name == call.signal:
                state.signals.remove(signal)
                _end_wait(state, begun, signal, event)
                return


def _hold_behind_attempt(state: GoalState, call: ToolCall) -> None:
    """Let the call that is queued behind a retried call wait for the attempt that follows it."""
    if call.attempt == 1 or not state.queued:
        return
    for retried in [each for each in state.queued if state.calls[each].call.step == call.step]:
        state.queued[call.call_id] = state.queued.pop(retried)


def _signal(state: GoalState, signal: Signal, event: Event) -> None:
    """Deliver a signal to the first call that waits for it, or keep it for a later call."""
    for call in state.open_calls.values():
        if isinstance(call.call, Wait) and call.call.signal == signal.name:
            _end_wait(state, call, signal, event)
            return
    state.signals.append(signal)


def _end_wait(state: GoalState, call: CallState, signal: Signal, event: Event) -> None:
    del state.open_calls[call.call.call_id]
    state.settled.append(call.call.call_id)
    state.calls[call.call.call_id] = replace(call, signal=signal, ended_us=event.timestamp_us, ended_seq=event.seq)
    if state.queued:
        _start_queued(state, call.call.call_id)


def _open_pure(state: GoalState, body: ToolOutput, event: Event) -> None:
    """Open the call of a pure step of a flow, which has no event before its outcome."""
    if body.step is not None and body.call_id not in state.calls:
        call = ToolCall(body.call_id, body.step, body.tool, {"digest": body.digest}, body.effect or "pure")
        state.calls[body.call_id] = state.open_calls[body.call_id] = CallState(call, event.seq, event.timestamp_us)


def _answer(state: GoalState, body: ToolOutput | OutcomeUnknown | Decision, event: Event) -> None:
    if isinstance(body, ToolOutput) and body.step is not None:
        _open_pure(state, body, event)
    before = state.open_calls.get(body.call_id)
    if before is None:
        raise Damaged(f"Event {event.seq} of {event.goal_id} settles call {body.call_id}, which is not open.")
    match body:
        case ToolOutput():
            after = _call_state(
                before.call,
                before.seq,
                before.began_us,
                before.needs_approval,
                outcome=body,
                unknown=before.unknown,
                decision=before.decision,
                ended_us=event.timestamp_us,
                times_again=before.times_again,
                ended_seq=event.seq,
            )
            _use(state.used, body)
        case OutcomeUnknown():
            after = replace(before, unknown=body)
        case Decision():
            after = _decide(before, body, event)
    state.calls[body.call_id] = state.open_calls[body.call_id] = after
    if not after.is_open:
        del state.open_calls[body.call_id]
        state.settled.append(body.call_id)
        state.steps += isinstance(after.call, ToolCall)
        if state.queued and not after.is_retried:
            _start_queued(state, body.call_id)


def _decide(before: CallState, body: Decision, event: Event) -> CallState:
    if body.decision == "approve":
        times = before.times_again + (before.unknown is not None)
        # Earlier commits began it even if the call before it was to be run again; it is approved when it begins.
        return replace(before, decision=body, unknown=None, times_again=times, is_queued=False)
    return replace(before, decision=body, ended_us=event.timestamp_us, ended_seq=event.seq)


def _start_queued(state: GoalState, settled: str) -> None:
    """Release the call that was queued behind a call that is settled now."""
    call_id = state.queued.pop(settled, "")
    if call_id in state.open_calls:
        state.calls[call_id] = state.open_calls[call_id] = replace(state.open_calls[call_id], is_queued=False)


def _limit(state: GoalState, body: LimitRaised | LimitReached) -> None:
    if isinstance(body, LimitReached):
        state.short_of = body.name
        return
    raised: dict[str, Any] = {body.name: body.value}
    state.limits = replace(state.limits, **raised)
    if state.short_of == body.name:
        state.short_of = None


def _apply_talk(state: GoalState, body: Entry | Prompt | ModelFailure, event: Event) -> None:
    """Apply an event of the conversation, and count the usage of a turn or summary."""
    state.conversation.take(body, event.seq, event.timestamp_us)
    match body:
        case Message(role="user"):
            state.used.iterations_before = state.used.iterations
        case ModelTurn() | TranscriptSummary():
            state.used.tokens += body.usage.total
            state.used.usd += body.cost_usd or 0.0
            state.used.seconds += body.duration_ms / 1000
        case _:
            pass


def _use(used: Used, outcome: ToolOutput) -> None:
    used.seconds += outcome.duration_ms / 1000
    if outcome.usage:
        used.tokens += int(outcome.usage.get("tokens", 0))
        used.usd += float(outcome.usage.get("cost_usd", 0.0))


def _waits_for(call: CallState) -> WaitingFor:
    match call.call:
        case Wait(signal=signal):
            return "signal" if signal else "timer"
        case ToolCall(child=str()) if call.unknown is None and not call.awaits_approval:
            return "child"
        case Ask() | ToolCall():
            return "person"
