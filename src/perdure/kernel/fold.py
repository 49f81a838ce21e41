"""The state of a goal, as its events tell it: a pure fold, the same for every surface and after every crash."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never

from perdure.errors import Damaged
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    Event,
    GoalBegun,
    LimitRaised,
    Limits,
    Message,
    OutcomeUnknown,
    Signal,
    Termination,
    Tip,
    ToolCall,
    ToolOutput,
    Wait,
    decode,
)

Status = Literal["open", "waiting", "done", "stopped"]
"""As it is stored; `running` and `interrupted` are told apart by the lease when it is read."""

WaitingFor = Literal["person", "signal", "timer"]

Call = ToolCall | Ask | Wait


@dataclass(frozen=True, slots=True)
class CallState:
    """A call and what became of it: open, unknown, or settled by an outcome or a decision."""

    call: Call
    seq: int
    began_us: int
    outcome: ToolOutput | None = None
    unknown: OutcomeUnknown | None = None
    decision: Decision | None = None
    ended_us: int | None = None

    @property
    def is_open(self) -> bool:
        return self.outcome is None and not self._is_decided

    @property
    def _is_decided(self) -> bool:
        """An approval opens the way for a call; every other decision ends it."""
        return self.decision is not None and self.decision.decision != "approve"


@dataclass(slots=True)
class GoalState:
    """Everything that the events of a goal say; changed by `apply` alone."""

    begun: GoalBegun
    tip: Tip
    created_us: int
    updated_us: int
    limits: Limits
    iteration: int = 0
    calls: dict[str, CallState] = field(default_factory=dict)
    open_calls: dict[str, CallState] = field(default_factory=dict)
    steps: int = 0
    """How many tool calls are settled."""
    signals: list[Signal] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    tokens: int = 0
    cost_usd: float = 0.0
    busy_us: int = 0
    """How long calls of tools took, added up."""
    termination: Termination | None = None

    @property
    def goal_id(self) -> str:
        return self.tip.goal_id

    @property
    def status(self) -> Status:
        """Where the goal stands: it waits when all that is open waits for somebody."""
        if self.termination is not None:
            return "done" if self.termination.reason == "done" else "stopped"
        return "waiting" if self.waiting_for is not None else "open"

    @property
    def is_busy(self) -> bool:
        """Whether a tool call is open that runs, or is to be run, by itself."""
        return any(isinstance(call.call, ToolCall) and call.unknown is None for call in self.open_calls.values())

    @property
    def waiting_for(self) -> WaitingFor | None:
        """What the goal waits for, when nothing in it can run: a person before a signal before a timer."""
        found = {_waits_for(call) for call in self.open_calls.values()}
        if self.termination is not None or None in found:
            return None
        return next((kind for kind in ("person", "signal", "timer") if kind in found), None)


def fold(events: Iterable[Event]) -> GoalState:
    """Fold a whole history.

    Raises: Damaged when an event cannot be read, is missing, or does not follow from those before it.
    """
    state: GoalState | None = None
    for event in events:
        if state is None:
            state = _begin(event)
        else:
            apply(state, event)
    if state is None:
        raise Damaged("A goal without events cannot be.")
    return state


def apply(state: GoalState, event: Event) -> None:
    """Take one more event into the state.

    Raises: Damaged when it does not follow from what was before.
    """
    if event.seq != state.tip.seq + 1:
        raise Damaged(f"Event {state.tip.seq + 1} of {event.goal_id} is missing; {event.seq} follows instead.")
    if state.termination is not None:
        raise Damaged(f"Event {event.seq} of {event.goal_id} comes after the end.")
    _take(state, decode(event), event)
    state.tip = Tip(event.goal_id, event.seq, event.hash)
    state.updated_us = event.timestamp_us
    state.iteration = max(state.iteration, event.iteration)


def _begin(event: Event) -> GoalState:
    body = decode(event)
    if event.seq != 1 or not isinstance(body, GoalBegun):
        raise Damaged(f"The history of {event.goal_id} does not begin with its goal, but with event {event.seq}.")
    tip = Tip(event.goal_id, event.seq, event.hash)
    return GoalState(body, tip, event.timestamp_us, event.timestamp_us, body.limits)


def _take(state: GoalState, body: Body, event: Event) -> None:
    match body:
        case GoalBegun():
            _fork(state, body)
        case Message(text=text):
            state.messages.append(text)
        case ToolCall() | Ask() | Wait():
            _open(state, body, event)
        case ToolOutput() | OutcomeUnknown() | Decision():
            _answer(state, body, event)
        case Signal():
            state.signals.append(body)
        case LimitRaised(name=name, value=value):
            raised: dict[str, Any] = {name: value}
            state.limits = replace(state.limits, **raised)
        case Termination():
            state.termination = body
        case _:
            assert_never(body)


def _fork(state: GoalState, body: GoalBegun) -> None:
    """A fork goes on from its parent's events; what was open there is decided anew."""
    state.begun = body
    state.limits = body.limits
    for call_id in body.voided:
        state.calls.pop(call_id, None)
        state.open_calls.pop(call_id, None)


def _open(state: GoalState, call: Call, event: Event) -> None:
    if call.call_id in state.calls:
        raise Damaged(f"Event {event.seq} of {event.goal_id} begins call {call.call_id} a second time.")
    state.calls[call.call_id] = state.open_calls[call.call_id] = CallState(call, event.seq, event.timestamp_us)


def _answer(state: GoalState, body: ToolOutput | OutcomeUnknown | Decision, event: Event) -> None:
    before = state.open_calls.get(body.call_id)
    if before is None:
        raise Damaged(f"Event {event.seq} of {event.goal_id} settles call {body.call_id}, which is not open.")
    match body:
        case ToolOutput():
            after = replace(before, outcome=body, ended_us=event.timestamp_us)
            state.busy_us += body.duration_ms * 1000
            state.tokens += int((body.usage or {}).get("tokens", 0))
            state.cost_usd += float((body.usage or {}).get("cost_usd", 0.0))
        case OutcomeUnknown():
            after = replace(before, unknown=body)
        case Decision():
            after = replace(before, decision=body, ended_us=event.timestamp_us)
    state.calls[body.call_id] = state.open_calls[body.call_id] = after
    if not after.is_open:
        del state.open_calls[body.call_id]
        state.steps += isinstance(after.call, ToolCall)


def _waits_for(call: CallState) -> WaitingFor | None:
    match call.call:
        case Ask():
            return "person"
        case Wait(signal=signal):
            return "signal" if signal else "timer"
        case ToolCall():
            return "person" if call.unknown is not None else None
