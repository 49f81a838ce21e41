"""Where a goal can be forked, decided by its events alone."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Conflict, Invalid, NotFound
from perdure.kernel.events import (
    Ask,
    Body,
    Cancel,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    Head,
    Message,
    MindSpec,
    OutcomeUnknown,
    Reopened,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    Wait,
    decode,
    seal,
)
from perdure.kernel.fold import fold
from perdure.kernel.history.forking import ForkRequest, fork_before_damage, fork_point
from perdure.kernel.history.repetition import done_after
from perdure.kernel.history.step_names import named_step, short_name
from tests.kernel.test_fold import history

FLOW = GoalBegun("g", MindSpec("flow"))
FAILED = ToolError("error", "refused")
LATE = ToolError("timeout", "took too long")


def call(call_id: str, effect: str = "once") -> ToolCall:
    return ToolCall(call_id, call_id.rpartition(".")[0], "step", {}, effect)  # type: ignore[arg-type]


def done(call_id: str) -> ToolOutput:
    return ToolOutput(call_id, ok=True)


def failed(call_id: str) -> ToolOutput:
    return ToolOutput(call_id, ok=False, error=FAILED)


def late(call_id: str) -> ToolOutput:
    return ToolOutput(call_id, ok=False, error=LATE)


def pure(call_id: str) -> ToolOutput:
    return ToolOutput(call_id, ok=True, step=call_id.rpartition(".")[0], effect="pure", digest="d")


def point(events: Sequence[Event], **asked: Any) -> int:
    return fork_point(events, ForkRequest(**asked))


ORDER = history(
    FLOW,
    pure("/price#0.1"),
    call("/charge#0.1"),
    failed("/charge#0.1"),
    call("/charge#0.2"),
    done("/charge#0.2"),
    Ask("/ask#0.1", "/ask#0", "Ship?"),
    Decision("/ask#0.1", "answer", "yes"),
    call("/ship#0.1"),
    done("/ship#0.1"),
    call("/ship#1.1"),
    done("/ship#1.1"),
    Termination("done"),
)


@pytest.mark.parametrize(
    ("asked", "seq"),
    [
        ({"before": "price"}, 1),
        ({"after": "price"}, 2),
        ({"before": "charge"}, 2),
        ({"after": "charge"}, 6),
        ({"before": "charge.2"}, 4),
        ({"after": "charge.1"}, 4),
        ({"before": "/charge#0"}, 2),
        ({"before": "charge#0"}, 2),
        ({"before": "/charge#0.2"}, 4),
        ({"before": "ask"}, 6),
        ({"after": "ask"}, 8),
        ({"before": "ship#1"}, 10),
        ({"after": "ship#1"}, 12),
        ({"at": 8}, 8),
    ],
    ids=str,
)
def test_a_step_names_the_point_before_its_first_event_or_after_its_outcome(asked: dict[str, Any], seq: int) -> None:
    assert point(ORDER, **asked) == seq


def test_an_unknown_step_is_not_found_and_the_steps_are_listed() -> None:
    with pytest.raises(NotFound, match="'refund'. Its steps are /price#0, /charge#0, /ask#0, /ship#0, /ship#1."):
        point(ORDER, before="refund")


def test_an_ambiguous_step_is_invalid_and_its_meanings_are_listed() -> None:
    with pytest.raises(Invalid, match="'ship' is ambiguous in g. Expected one of /ship#0, /ship#1."):
        point(ORDER, after="ship")


@pytest.mark.parametrize("asked", [{}, {"at": 1, "before": "ask"}, {"before": "ask", "after": "ask"}], ids=str)
def test_a_fork_has_exactly_one_place(asked: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="exactly one"):
        point(ORDER, **asked)


@pytest.mark.parametrize("at", [0, -1, 14, 99])
def test_there_is_no_point_outside_of_a_history(at: int) -> None:
    with pytest.raises(Conflict, match="has events 1 to 13"):
        point(ORDER, at=at)


def test_the_end_of_a_goal_is_not_a_point_and_an_earlier_one_is_named() -> None:
    with pytest.raises(Conflict, match=r"is its end \(done\).* Fork it earlier: --at 12"):
        point(ORDER, at=13)


@pytest.mark.parametrize(
    ("at", "elsewhere"),
    [
        (3, "--at 4, which does /charge#0, /ship#0, /ship#1 again."),
        (5, "--after charge, which does /ship#0, /ship#1 again."),
        (9, "--after 'ship#0', which does /ship#1 again."),
    ],
)
def test_a_point_inside_of_a_once_call_is_refused_with_the_next_one_and_what_that_repeats(
    at: int, elsewhere: str
) -> None:
    with pytest.raises(Conflict) as refused:
        point(ORDER, at=at)
    assert "may have happened" in refused.value.detail
    assert refused.value.detail.endswith(f"Or fork with {elsewhere}")
    assert f"add --repeat {'ship' if at == 9 else 'charge'}" in refused.value.detail.replace("'", "")


def test_a_point_where_nothing_is_repeated_is_called_that() -> None:
    with pytest.raises(Conflict, match="Or fork where nothing is repeated: --after 'ship#1'.$"):
        point(ORDER, at=11)


def test_a_point_inside_of_a_once_call_is_accepted_for_one_who_repeats_it() -> None:
    assert point(ORDER, at=5, repeat=("charge",)) == 5


UNKNOWN = history(
    FLOW, call("/charge#0.1"), OutcomeUnknown("/charge#0.1", "killed"), Decision("/charge#0.1", "skip", 1)
)


def test_a_call_whose_outcome_is_unknown_is_repeated_only_on_purpose() -> None:
    with pytest.raises(Conflict, match="Or fork where nothing is repeated: --after charge.$"):
        point(UNKNOWN, at=3)
    for place in ({"before": "charge"}, {"at": 3}):
        with pytest.raises(Conflict, match="perdure goal decide g '/charge#0.1' skip .*add --repeat charge.$"):
            point(UNKNOWN[:3], **place)
    assert point(UNKNOWN, at=3, repeat=("charge",)) == 3
    assert point(UNKNOWN, after="charge") == 4


CHARGE = call("/charge#0.1")
CANCELLED = ToolError("cancelled", "The flow cancelled it.")


def cancelled(happened: str | None) -> ToolOutput:
    return ToolOutput("/charge#0.1", ok=False, error=CANCELLED, happened=happened)  # type: ignore[arg-type]


OUTSIDE = "Check first, outside Perdure, whether the effect of /charge#0.1 exists."
DECIDED = "`perdure goal retry g` asks you to decide the outcome of /charge#0.1. Do that first."


@pytest.mark.parametrize(
    ("bodies", "remedy"),
    [
        ([CHARGE], "Settle it first: perdure goal resume g."),
        ([CHARGE, Termination("cancelled")], OUTSIDE),
        ([CHARGE, cancelled("unknown")], OUTSIDE),
        ([CHARGE, cancelled("yes")], OUTSIDE),
        ([CHARGE, cancelled(None), Termination("done")], OUTSIDE),
        ([CHARGE, late("/charge#0.1"), Termination("failed", steps=("/charge#0",))], DECIDED),
        ([CHARGE, OutcomeUnknown("/charge#0.1", "killed"), Decision("/charge#0.1", "abort")], OUTSIDE),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [{"before": "charge"}, {"at": 1}, {"before": "price"}], ids=str)
def test_a_once_call_after_the_point_that_may_have_happened_is_repeated_only_on_purpose(
    bodies: Sequence[Body], remedy: str, place: dict[str, Any]
) -> None:
    events = history(FLOW, pure("/price#0.1"), *bodies)
    with pytest.raises(Conflict) as refused:
        point(events, **place)
    said = refused.value.detail
    assert "would repeat /charge#0.1, which is `once`. Its effect may have happened. Nothing was forked." in said
    assert remedy in said
    assert "add --repeat charge." in said
    assert point(events, **place, repeat=("charge",)) == point(events, **place, repeat=("/charge#0",)) >= 1


@pytest.mark.parametrize(
    "bodies",
    [
        [done("/charge#0.1")],
        [failed("/charge#0.1")],
        [cancelled("no")],
        [OutcomeUnknown("/charge#0.1", "killed"), Decision("/charge#0.1", "skip", 1)],
        [OutcomeUnknown("/charge#0.1", "killed"), Decision("/charge#0.1", "retry")],
    ],
    ids=str,
)
def test_a_once_call_after_the_point_whose_outcome_is_known_is_called_again(bodies: Sequence[Body]) -> None:
    assert point(history(FLOW, CHARGE, *bodies), before="charge") == 1


def test_a_second_attempt_that_may_have_happened_is_repeated_only_on_purpose() -> None:
    events = [*ORDER[:5]]
    with pytest.raises(Conflict, match="would repeat /charge#0.2"):
        point(events, at=4)
    assert point(events, at=4, repeat=("charge",)) == 4


CLEANED = history(
    FLOW,
    call("/charge#0.1"),
    done("/charge#0.1"),
    Wait("/sleep#0.1", "/sleep#0", until="t"),
    Cancel("person", None),
    Decision("/sleep#0.1", "cancel", by="flow"),
    call("/refund#0.1"),
    done("/refund#0.1"),
    call("/release#0.1", "idempotent"),
    done("/release#0.1"),
    pure("/look#0.1"),
    Termination("cancelled"),
)


@pytest.mark.parametrize(
    "place", [{"before": "sleep"}, {"before": "charge"}, {"at": 1}, {"at": 8}, {"at": 12}], ids=str
)
def test_a_goal_that_has_cleaned_up_is_forked_only_by_one_who_names_the_steps_of_its_cleanup(
    place: dict[str, Any],
) -> None:
    with pytest.raises(Conflict) as refused:
        point(CLEANED, **place)
    assert "its cleanup began /refund#0, /release#0. A fork would not undo those steps." in refused.value.detail
    assert refused.value.detail.endswith("add --repeat refund --repeat release.")


def test_who_names_all_steps_of_a_cleanup_may_fork_before_the_cancel() -> None:
    with pytest.raises(Conflict, match="its cleanup began /release#0. A fork would not undo that step."):
        point(CLEANED, before="sleep", repeat=("refund",))
    assert point(CLEANED, before="sleep", repeat=("refund", "release")) == 3


def test_what_a_cleanup_did_is_not_done_again() -> None:
    assert done_after(fold(CLEANED), 1) == ["/charge#0"]
    assert done_after(fold(CLEANED), 3) == []


def test_a_cancelled_goal_whose_cleanup_did_nothing_is_forked_before_the_cancel() -> None:
    assert point([*CLEANED[:6]], before="sleep") == 3


PARALLEL = history(
    FLOW,
    call("g1.0/charge#0.1"),
    call("g1.1/mail#0.1"),
    call("g1.2/look#0.1", "idempotent"),
    done("g1.0/charge#0.1"),
    done("g1.2/look#0.1"),
    done("g1.1/mail#0.1"),
)


def test_steps_that_run_beside_the_named_one_are_not_repeated_without_notice() -> None:
    with pytest.raises(Conflict, match="outcome of g1.1/mail#0, which is"):
        point(PARALLEL, after="charge")
    with pytest.raises(Conflict, match="outcome of g1.0/charge#0, which is"):
        point(PARALLEL, before="mail")
    with pytest.raises(Conflict, match="g1.0/charge#0, g1.1/mail#0, which are .*add --repeat charge --repeat mail"):
        point(PARALLEL, before="look")
    with pytest.raises(Conflict, match="add --repeat mail"):
        point(PARALLEL, before="look", repeat=("charge",))
    assert point(PARALLEL, before="look", repeat=("charge", "mail")) == 3


def test_an_open_call_that_may_be_repeated_needs_no_permission() -> None:
    events = history(FLOW, call("/look#0.1", "idempotent"), Wait("/nap#0.1", "/nap#0", until="t"))
    assert point(events, at=3) == 3


def test_a_call_of_a_model_that_was_not_approved_was_not_begun() -> None:
    events = history(GoalBegun("g", MindSpec("model")), call("send.1"), Decision("send.1", "approve"))
    assert point(events, at=2) == 2
    with pytest.raises(Conflict):
        point(events, at=3)


def test_a_repetition_that_the_fork_would_not_make_is_refused() -> None:
    with pytest.raises(Invalid, match="--repeat charge: /charge#0 is settled at event 6"):
        point(ORDER, at=6, repeat=("charge",))
    with pytest.raises(NotFound):
        point(ORDER, at=6, repeat=("refund",))
    assert point(ORDER, before="charge", repeat=("charge",)) == 2, "it is called again in any case"


RETRIED = history(
    FLOW,
    call("/charge#0.1"),
    failed("/charge#0.1"),
    Termination("failed", steps=("/charge#0",)),
    Reopened("person", None, 4, again=("/charge#0.1",)),
    call("/charge#0.2"),
    done("/charge#0.2"),
    Termination("done"),
)


def test_a_step_that_was_retried_lies_on_both_sides_of_an_end() -> None:
    assert point(RETRIED, before="charge") == 1
    assert point(RETRIED, after="charge") == 7
    assert point(RETRIED, at=5) == 5
    assert point(RETRIED, before="charge.2") == 5
    for end in (4, 8):
        with pytest.raises(Conflict, match="is its end"):
            point(RETRIED, at=end)


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (RETRIED[:5], "it is called again"),
        (RETRIED[:6], "it is open"),
        (history(FLOW, *map(decode, UNKNOWN[1:3]), Decision("/charge#0.1", "retry")), "it is called again"),
    ],
)
def test_a_step_that_is_not_settled_permanently_has_no_point_after_it(events: Sequence[Event], why: str) -> None:
    with pytest.raises(Conflict, match=f"is not settled yet: {why}. Fork before it: --before charge"):
        point(events, after="charge")


def test_a_failed_call_that_a_retry_reopens_as_unknown_is_not_repeated_without_notice() -> None:
    events = history(FLOW, *map(decode, RETRIED[1:4]), Reopened("person", None, 4, unknown=("/charge#0.1",)))
    assert point(events, at=3) == 3
    with pytest.raises(Conflict, match="may have happened"):
        point(events, at=5)


def test_a_call_that_a_fork_has_voided_is_judged_by_the_events_up_to_the_point() -> None:
    begun = history(FLOW, call("/charge#0.1"))
    fork = GoalBegun("g", MindSpec("flow"), forked_from=ForkedFrom("g", 2), voided=("/charge#0.1",))
    events = [*begun, seal(fork, Head("f", 2, begun[-1].hash), event_id="f", iteration=0, timestamp_us=1)]
    assert point(events, at=3) == 3
    with pytest.raises(Conflict, match="add --repeat charge. Or fork where nothing is repeated: --at 3.$"):
        point(events, at=2)
    assert point(events, at=2, repeat=("charge",)) == 2
    with pytest.raises(Conflict, match="would repeat /charge#0.1"):
        point(events, at=1)
    assert point(events, at=1, repeat=("charge",)) == 1


def test_the_fork_that_is_offered_before_damage_repeats_nothing_without_notice() -> None:
    assert fork_before_damage(ORDER[:9]) == "--before ship --repeat ship"
    assert fork_before_damage(ORDER[:8]) == "--at 8"
    assert fork_before_damage(RETRIED[:4]) == "--at 3"


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:  # noqa: C901 (one case for each thing that can happen)
    """Some steps side by side, each begun, lost, decided or ended, with failures, ends and retries between."""
    bodies: list[Body] = [FLOW]
    opened: dict[str, bool] = {}
    failures: list[str] = []
    tries: dict[str, int] = {}
    for _ in range(draw(st.integers(0, 25))):
        step = draw(st.sampled_from(["/a#0", "/a#1", "g1.0/b#0", "plain"]))
        effect = draw(st.sampled_from(["once", "once", "idempotent"]))
        name = f"{step}.{tries.get(step, 0)}"
        match draw(st.sampled_from(["begin", "end", "end", "fail", "lose", "decide", "pure", "say", "retry"])):
            case "begin" if name not in opened:
                tries[step] = tries.get(step, 0) + 1
                opened[f"{step}.{tries[step]}"] = False
                bodies.append(call(f"{step}.{tries[step]}", effect))
            case "pure" if name not in opened:
                tries[step] = tries.get(step, 0) + 1
                bodies.append(pure(f"{step}.{tries[step]}"))
            case "end" if opened.pop(name, None) is not None:
                bodies.append(done(name))
            case "fail" if opened.pop(name, None) is not None:
                bodies.append(draw(st.sampled_from([failed, late]))(name))
                failures.append(name)
            case "lose" if opened.get(name) is False:
                opened[name] = True
                bodies.append(OutcomeUnknown(name, "lost"))
            case "decide" if opened.pop(name, False):
                bodies.append(Decision(name, draw(st.sampled_from(["retry", "skip", "abort"]))))
            case "say":
                bodies.append(Message("x"))
            case "retry" if failures:
                chosen = failures.pop()
                unknown = draw(st.booleans()) and chosen.rpartition(".")[2] == str(tries[chosen.rpartition(".")[0]])
                bodies.append(Termination("failed"))
                again, doubtful = ((), (chosen,)) if unknown else ((chosen,), ())
                bodies.append(Reopened("person", None, len(bodies), again, doubtful))
                if unknown:
                    opened[chosen] = True
    return history(*bodies)


def open_once(events: Sequence[Event]) -> set[str]:
    """Return the `once` calls that have begun and have no outcome, without the help of the fold."""
    found: set[str] = set()
    for body in map(decode, events):
        match body:
            case ToolCall(call_id=call_id, effect="once"):
                found.add(call_id)
            case ToolOutput(call_id=call_id) | Decision(call_id=call_id, decision="retry" | "skip" | "abort"):
                found.discard(call_id)
            case Reopened(unknown=unknown):
                effects = {body.call_id: body.effect for body in map(decode, events) if isinstance(body, ToolCall)}
                found |= {call_id for call_id in unknown if effects[call_id] == "once"}
    return found


def unresolved(events: Sequence[Event]) -> dict[str, int]:
    """Return the `once` calls that may have happened, with their events, without the help of the fold."""
    begun: dict[str, int] = {}
    found: set[str] = set()
    for event in events:
        match body := decode(event):
            case ToolCall(call_id=call_id, effect="once"):
                begun[call_id] = event.seq
                found.add(call_id)
            case ToolOutput(call_id=call_id) if body.error is None or body.error.code != "timeout":
                found.discard(call_id)
            case Decision(call_id=call_id, decision="retry" | "skip"):
                found.discard(call_id)
            case Reopened(unknown=unknown):
                found |= begun.keys() & set(unknown)
    return {call_id: begun[call_id] for call_id in found}


def at_risk(events: Sequence[Event], at: int) -> set[str]:
    """Return the steps that a fork would repeat although they may have happened."""
    calls = open_once(events[:at]) | {call_id for call_id, seq in unresolved(events).items() if seq > at}
    return {call_id.rpartition(".")[0] for call_id in calls}


def done_again(events: Sequence[Event], at: int) -> set[str]:
    """Return the `once` steps that were done after an event."""
    effects = {body.call_id: body for body in map(decode, events) if isinstance(body, ToolCall)}
    bodies = [decode(event) for event in events[at:]]
    ok = [body.call_id for body in bodies if isinstance(body, ToolOutput) and body.ok]
    ok += [body.call_id for body in bodies if isinstance(body, Decision) and body.decision == "skip"]
    return {effects[each].step for each in ok if each in effects and effects[each].effect == "once"}


@given(lives())
def test_a_point_is_accepted_if_and_only_if_no_once_call_that_may_have_happened_is_executed_again(
    events: list[Event],
) -> None:
    for at in range(1, len(events) + 1):
        there = fold(events[:at])
        steps = at_risk(events, at)
        if there.termination is not None:
            with pytest.raises(Conflict, match="is its end"):
                point(events, at=at)
        elif steps:
            with pytest.raises(Conflict, match="may have happened") as refused:
                point(events, at=at)
            assert all(step in refused.value.detail for step in steps)
            assert point(events, at=at, repeat=tuple(steps)) == at
        else:
            assert point(events, at=at) == at


@given(lives())
def test_the_points_that_a_refusal_offers_are_accepted_and_repeat_what_is_said(events: list[Event]) -> None:
    for at in range(1, len(events) + 1):
        try:
            point(events, at=at)
        except Conflict as refused:
            found = re.search(r"(with|repeated:|earlier:) (--.*?)(?:, which does (.*) again)?\.$", refused.detail)
            if found is None:
                assert all(
                    at_risk(events, each) for each in range(1, len(events)) if not fold(events[:each]).termination
                )
                continue
            option, value, *repeats = shlex.split(found[2])
            asked = {"at": int(value)} if option == "--at" else {option[2:]: value}
            seq = point(events, **asked, repeat=tuple(repeats[1::2]))
            if found[1] != "earlier:":
                assert not repeats
                assert set((found[3] or "").split(", ")) - {""} == done_again(events, seq)


@given(lives())
def test_a_step_is_not_shared_by_a_fork_before_it_and_is_settled_in_one_after_it(events: list[Event]) -> None:
    state = fold(events)
    every = tuple({each.call.step for each in state.calls.values()})
    for step in every:
        begins = min(each.seq for each in state.calls.values() if each.call.step == step)
        beside = tuple(at_risk(events, begins - 1))
        assert point(events, before=step, repeat=beside) == begins - 1
        assert named_step(state, short_name(state, step)).step == step
        try:
            seq = point(events, after=step)
        except Conflict:
            continue
        shared = [each for each in fold(events[:seq]).calls.values() if each.call.step == step]
        assert shared
        assert not any(each.is_open for each in shared)
