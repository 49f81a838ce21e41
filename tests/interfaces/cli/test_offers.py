"""What a person can decide about a call that waits."""

from perdure.interfaces.cli.goals.run_ui.offers import LATER, offer_of
from perdure.kernel.events import Ask, ToolCall, Wait
from perdure.kernel.history.call_state import CallState

CALL = ToolCall("pay.1", "pay", "exec", {"argv": ["pay", "\x1b[8m3 EUR"]}, "once")


def test_an_approval_shows_exactly_what_is_run_and_leaves_it_by_default() -> None:
    offer = offer_of(CallState(CALL, 2, 0, needs_approval=True))
    assert offer is not None
    assert "pay.1: exec, once" in offer.shown
    assert "\x1b" not in offer.shown
    assert [option.kind for option in offer.options] == ["approve", "deny", None]
    assert offer.options[offer.default] is LATER


def test_a_question_with_options_can_be_left_and_one_without_is_typed() -> None:
    closed = offer_of(CallState(Ask("sure.1", "sure", "Sure?", ("yes", "no")), 2, 0))
    free = offer_of(CallState(Ask("name.1", "name", "Name?", None), 2, 0))
    assert closed is not None
    assert [option.value for option in closed.options] == ["yes", "no", None]
    assert free is not None
    assert free.options == ()


def test_what_runs_or_waits_for_a_timer_is_not_offered() -> None:
    assert offer_of(CallState(CALL, 2, 0)) is None
    assert offer_of(CallState(Wait("nap.1", "nap", until="2026-11-15T00:00:00.000000Z"), 2, 0)) is None
