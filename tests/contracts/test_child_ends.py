"""Every store posts the end of a child to its parent, in the append that ends it."""

from dataclasses import replace

import pytest

from perdure.errors import Conflict
from perdure.kernel.events import GoalBegun, Message, MindSpec, ParentCall, Termination
from tests.contracts.histories import History, Stored

PARENT = ParentCall("p", "x.1")


async def write(history: History, *bodies: Message | Termination) -> None:
    """Append to a child."""
    await history.append(*bodies, summary=replace(history.summary(history.next(*bodies)), parent=PARENT))


@pytest.fixture
async def family(stored: Stored) -> tuple[History, History]:
    """A parent and its child, both open."""
    parent, child = History(stored, "p"), History(stored, "c")
    await parent.append(GoalBegun("parent", MindSpec("command")))
    begun = GoalBegun("child", MindSpec("command"), parent=PARENT)
    await child.append(begun, summary=replace(child.summary(child.next(begun)), parent=PARENT))
    return parent, child


async def test_the_end_of_a_child_is_posted_once(family: tuple[History, History]) -> None:
    parent, child = family
    store = parent.stored.store
    await write(child, Message("not yet"))
    assert await store.inbox("p") == []

    await write(child, Message("now"), Termination("done", value=7))

    [row] = await store.inbox("p")
    assert (row.kind, row.payload, row.key) == ("child", {"goal_id": "c", "seq": 4}, "child:c@4")
    assert await store.posted("w1") == ["p"]
    assert not await store.post("p", "child", {"goal_id": "c", "seq": 4}, key="child:c@4")


async def test_a_rejected_end_of_a_child_posts_nothing(family: tuple[History, History]) -> None:
    parent, child = family
    child.epoch += 1
    with pytest.raises(Conflict):
        await write(child, Termination("done"))
    assert await parent.stored.store.inbox("p") == []


async def test_the_end_of_a_child_is_not_posted_to_a_parent_that_has_ended(family: tuple[History, History]) -> None:
    parent, child = family
    await parent.append(Termination("failed"))
    await write(child, Termination("failed"))
    assert await parent.stored.store.inbox("p") == []
