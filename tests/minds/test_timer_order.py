"""The search for the order of timers: whatever was chosen in the first run is found again, if it is not too far."""

from hypothesis import given
from hypothesis import strategies as st

from perdure.minds.flow.execution.timer_order import ORDERS, TimerPlan, TimerSearch

COUNTS = st.lists(st.integers(2, 4), min_size=1, max_size=4)


def run(plan: TimerPlan, wanted: list[int], counts: list[int]) -> int:
    """Make the choices of a plan, as far as they are right; return how many were."""
    for number, (right, count) in enumerate(zip(wanted, counts, strict=True)):
        if plan.choose(count) != right:
            return number
    return len(wanted)


@given(st.data(), COUNTS)
def test_choices_that_show_one_after_the_other_are_all_found(data: st.DataObject, counts: list[int]) -> None:
    wanted = [data.draw(st.integers(0, count - 1)) for count in counts]
    search = TimerSearch()
    while (plan := search.next_plan(is_late=False)) is not None:
        came = run(plan, wanted, counts)
        if came == len(wanted):
            return
        search.note(plan, (len(wanted) - came, 0))
    raise AssertionError("they were not found")


def test_a_search_ends_when_nothing_comes_further() -> None:
    search, runs = TimerSearch(), 0
    while (plan := search.next_plan(is_late=False)) is not None:
        runs += 1
        run(plan, [9] * 30, [3] * 30)
        search.note(plan, (1, 0))
    assert len(ORDERS) < runs <= 40


def test_only_the_orders_are_tried_when_it_is_late() -> None:
    search, orders = TimerSearch(), []
    while (plan := search.next_plan(is_late=True)) is not None:
        orders.append(plan.order)
        plan.choose(5)
        search.note(plan, (1, 0))
    assert tuple(orders) == ORDERS
