"""Texts of user code in the row of a goal: every store takes them, whatever they contain."""

import pytest

from perdure.kernel.events import GoalBegun, Message, MindSpec, Termination
from perdure.kernel.fold import fold
from perdure.kernel.summary import summarise
from tests.contracts.histories import History, Stored, begin


@pytest.mark.parametrize(
    ("detail", "kept"),
    [("PK\0\0", r"PK\x00\x00"), ("half \ud800", r"half \ud800"), ("x" * 10_000, "x" * 500)],
    ids=["nul", "surrogate", "long"],
)
@pytest.mark.parametrize("takes", [False, True], ids=["alone", "with_its_inbox"])
async def test_the_detail_of_an_end_is_stored_whatever_it_contains(
    stored: Stored, detail: str, kept: str, takes: bool
) -> None:
    goal = await begin(stored)
    if takes:
        await stored.store.post("g", "signal", {"name": "paid"}, key="k")
    taken = [row.id for row in await stored.store.inbox("g")]
    state = fold([*goal.events, *goal.next(Termination("fatal_error"))])
    state.termination = Termination("fatal_error", detail)
    await goal.store(goal.next(Termination("fatal_error")), summary=summarise(state), taken=taken)
    summary = await stored.store.find("g")
    assert (summary.status, summary.detail) == ("failed", kept)


async def test_the_texts_of_a_new_goal_are_stored_whatever_they_contain(stored: Stored) -> None:
    goal = History(stored, "g")
    events = goal.next(GoalBegun("a\0b", MindSpec("flow", flow="f\0"), bot="b\0", tags=("t\0",)), Message("c\0"))
    await goal.store(events, summary=summarise(fold(events)))
    summary = await stored.store.find("g")
    found = (summary.text, summary.flow, summary.bot, summary.tags)
    assert found == (r"a\x00b", r"f\x00", r"b\x00", (r"t\x00",))
