"""The fold: what the events of a goal say about it, whatever came when."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Damaged
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    Head,
    LimitRaised,
    Limits,
    Message,
    MindSpec,
    OutcomeUnknown,
    Signal,
    Termination,
    ToolCall,
    ToolOutput,
    Wait,
    seal,
)
from perdure.kernel.fold import apply, fold

GOAL = GoalBegun("g", MindSpec("plan"), limits=Limits(iterations=5))
CALL = ToolCall("c1", "fetch", "exec", {}, "once")
ASK = Ask("a1", "sure", "Publish?", ("yes", "no"))


def history(*bodies: Body, goal_id: str = "g") -> list[Event]:
    events: list[Event] = []
    head = Head(goal_id)
    for number, body in enumerate(bodies):
        event = seal(body, head, event_id=str(number), iteration=number, timestamp_us=1000 + number)
        events.append(event)
        head = Head(goal_id, event.seq, event.hash)
    return events


def test_a_new_goal_is_open() -> None:
    state = fold(history(GOAL))
    assert (state.status, state.waiting_for, state.goal_id, state.head.seq) == ("open", None, "g", 1)


def test_a_call_is_open_until_its_outcome_is_there() -> None:
    events = history(GOAL, CALL, ToolOutput("c1", ok=True, output="x"))
    assert list(fold(events[:2]).open_calls) == ["c1"]
    state = fold(events)
    assert not state.open_calls
    assert state.calls["c1"].outcome == ToolOutput("c1", ok=True, output="x")
    assert state.steps == 1


def test_a_goal_that_only_waits_for_a_person_is_waiting() -> None:
    assert fold(history(GOAL, ASK)).waiting_for == "person"


def test_a_goal_with_a_question_and_a_running_call_is_open() -> None:
    assert fold(history(GOAL, ASK, CALL)).status == "open"


def test_an_unknown_outcome_waits_for_a_person_until_it_is_decided() -> None:
    events = history(GOAL, CALL, OutcomeUnknown("c1", "killed"), Decision("c1", "skip", value=1))
    assert fold(events[:3]).waiting_for == "person"
    assert fold(events).status == "open"
    assert fold(events).steps == 1


def test_an_approval_lets_a_call_run_and_does_not_end_it() -> None:
    state = fold(history(GOAL, CALL, Decision("c1", "approve")))
    assert list(state.open_calls) == ["c1"]


@pytest.mark.parametrize(
    ("wait", "what"), [(Wait("w", "s", signal="go"), "signal"), (Wait("w", "s", until="t"), "timer")]
)
def test_a_wait_reports_what_it_waits_for(wait: Wait, what: str) -> None:
    assert fold(history(GOAL, wait)).waiting_for == what
    assert fold(history(GOAL, wait, ASK)).waiting_for == "person"


@pytest.mark.parametrize(
    ("reason", "status"),
    [("done", "done"), ("failed", "failed"), ("cancelled", "cancelled"), ("fatal_error", "failed")],
)
def test_an_end_is_done_failed_or_cancelled(reason: str, status: str) -> None:
    assert fold(history(GOAL, Termination(reason))).status == status  # type: ignore[arg-type]


def test_usage_adds_up_and_limits_can_be_raised() -> None:
    usage = {"tokens": 10, "cost_usd": 0.5}
    second = ToolCall("c2", "again", "exec", {}, "once")
    state = fold(
        history(
            GOAL,
            CALL,
            ToolOutput("c1", ok=True, usage=usage),
            second,
            ToolOutput("c2", ok=False, usage=usage),
            LimitRaised("iterations", 9),
        )
    )
    assert (state.used.tokens, state.used.usd, state.limits) == (20, 1.0, Limits(iterations=9))


def test_messages_and_signals_are_kept_in_order() -> None:
    state = fold(history(GOAL, Message("a"), Signal("go", 1), Message("b")))
    assert state.conversation.entries == [(2, Message("a")), (4, Message("b"))]
    assert state.signals == [Signal("go", 1)]


def test_a_fork_continues_with_its_parents_events_and_forgets_what_was_open() -> None:
    parent = history(GOAL, CALL, ToolOutput("c1", ok=True), ASK)
    fork = GoalBegun("g", MindSpec("plan"), forked_from=ForkedFrom("g", 4), voided=("a1",))
    state = fold(parent)
    apply(state, seal(fork, Head("fork", 4, parent[-1].hash), event_id="f", iteration=0, timestamp_us=1))
    assert state.goal_id == "fork"
    assert state.begun == fork
    assert list(state.calls) == ["c1"]
    assert state.status == "open"


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([], "must have events"),
        (history(CALL), "does not begin with its goal"),
        (history(GOAL, CALL)[1:], "does not begin with its goal, but with event 2"),
        (history(GOAL, Message("a"), Message("b"))[::2], "Event 2 of g is missing"),
        (history(GOAL, Termination("done"), Message("a")), "after the end"),
        (history(GOAL, CALL, CALL), "a second time"),
        (history(GOAL, ToolOutput("c1", ok=True)), "not open"),
        (history(GOAL, CALL, ToolOutput("c1", ok=True), ToolOutput("c1", ok=True)), "not open"),
    ],
)
def test_a_history_that_cannot_have_happened_is_damage(events: Sequence[Event], message: str) -> None:
    with pytest.raises(Damaged, match=message):
        fold(events)


@given(st.lists(st.sampled_from(["call", "settle", "message"]), max_size=30), st.integers(0, 30))
def test_folding_in_two_pieces_is_folding_at_once(script: list[str], cut: int) -> None:
    bodies: list[Body] = [GOAL]
    waiting: list[str] = []
    for number, what in enumerate(script):
        if what == "call":
            waiting.append(f"c{number}")
            bodies.append(ToolCall(f"c{number}", "s", "exec", {}, "pure"))
        elif what == "settle" and waiting:
            bodies.append(ToolOutput(waiting.pop(0), ok=True))
        else:
            bodies.append(Message("m"))
    events = history(*bodies)
    cut = min(cut + 1, len(events))
    state = fold(events[:cut])
    for event in events[cut:]:
        apply(state, event)
    assert state == fold(events)
    assert len(state.open_calls) == len(waiting)
