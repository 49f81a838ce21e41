"""Lists of conversations, the last used first: the same in memory, on SQLite and on PostgreSQL."""

import pytest

from perdure import Conflict
from perdure.kernel.conversation.conversation import Overview
from perdure.kernel.conversation.messages import Message, ModelTurn
from perdure.kernel.conversation.parts import TextPart, ToolCallPart
from perdure.kernel.events import Body, ForkedFrom, GoalBegun, MindSpec, Termination
from perdure.kernel.fold import fold
from perdure.kernel.summary import summarise
from tests.contracts.histories import NOW, History, Stored, begin

CHAT = MindSpec("model", model="openai:x", chat=True)


async def say(talk: History, *bodies: Body, at: int) -> None:
    """Append to a conversation as its owner does, with the summary of its state."""
    made = talk.next(*bodies, timestamp_us=NOW + at)
    await talk.store(made, summary=summarise(fold([*talk.events, *made])))
    talk.events += made


async def chat(stored: Stored, goal_id: str, text: str = "Hello", *, bot: str | None = None, at: int = 0) -> History:
    talk = History(stored, goal_id)
    await say(talk, GoalBegun(text, CHAT, bot=bot), Message(text), at=at)
    return talk


def answer(text: str, turn: int = 1) -> ModelTurn:
    return ModelTurn(turn, "openai:x", "openai", parts=(TextPart(text),))


async def listed(stored: Stored, bot: str | None = None) -> list[str]:
    return [goal.goal_id for goal in await stored.store.conversations(bot)]


async def test_a_conversation_is_listed_with_its_title_count_and_last_text(stored: Stored) -> None:
    talk = await chat(stored, "g", "One?\n" + "x" * 100)
    await say(talk, answer("First. " + "y" * 1000), at=1)
    await say(talk, Message("records", role="context", by="memory"), Message("Two?"), at=2)
    (found,) = await stored.store.conversations(None)
    assert found.overview == Overview(("One?\n" + "x" * 100)[:80], 2, "Two?", NOW + 2)
    await say(talk, answer("Second.", 2), at=3)
    (found,) = await stored.store.conversations(None)
    assert found.overview is not None
    assert (found.overview.last_text, found.overview.last_us) == ("Second.", NOW + 3)
    assert found == await stored.store.find("g")
    assert found == (await stored.store.list_goals())[0]


async def test_a_turn_that_only_calls_tools_says_nothing(stored: Stored) -> None:
    talk = await chat(stored, "g")
    call = ToolCallPart("t1.1", "exec", {"argv": ["true"]})
    await say(talk, ModelTurn(1, "openai:x", "openai", parts=(call,), finish_reason="tool_calls"), at=5)
    (found,) = await stored.store.conversations(None)
    assert found.overview == Overview("Hello", 1, "Hello", NOW)


async def test_long_answers_are_listed_by_their_beginning_and_as_storable_text(stored: Stored) -> None:
    talk = await chat(stored, "g", "nul \0 here")
    await say(talk, answer("z" * 5000), at=1)
    (found,) = await stored.store.conversations(None)
    assert found.overview is not None
    assert found.overview.title == r"nul \x00 here"
    assert found.overview.last_text == "z" * 500


async def test_the_last_used_conversation_comes_first_page_by_page(stored: Stored) -> None:
    talks = [await chat(stored, name, at=number) for number, name in enumerate("abcd")]
    await chat(stored, "other", bot="ada", at=9)
    await begin(stored, "command")
    assert await listed(stored) == ["d", "c", "b", "a"]
    await say(talks[0], answer("Yes."), at=7)
    assert await listed(stored) == ["a", "d", "c", "b"]
    assert await listed(stored, "ada") == ["other"]
    assert await listed(stored, "nobody") == []
    seen: list[str] = []
    after: tuple[int, str] | None = None
    while page := await stored.store.conversations(None, limit=3, after=after):
        seen += [goal.goal_id for goal in page]
        last = page[-1]
        assert last.overview is not None
        after = last.overview.last_us, last.goal_id
    assert seen == ["a", "d", "c", "b"]


async def test_conversations_of_one_moment_are_paged_without_a_gap(stored: Stored) -> None:
    for name in "abc":
        await chat(stored, name)
    (first,) = await stored.store.conversations(None, limit=1)
    assert first.goal_id == "c"
    assert [goal.goal_id for goal in await stored.store.conversations(None, after=(NOW, "c"))] == ["b", "a"]


async def test_a_fork_begins_with_the_overview_of_its_origin(stored: Stored) -> None:
    talk = await chat(stored, "g")
    await say(talk, answer("First."), at=1)
    await say(talk, Message("Two?"), at=2)
    fork = History(stored, "fork", events=talk.events[:3])
    await say(fork, GoalBegun("Hello", CHAT, forked_from=ForkedFrom("g", 3)), at=4)
    found = await stored.store.find("fork")
    assert found.overview == Overview("Hello", 1, "First.", NOW + 1)
    assert await listed(stored) == ["g", "fork"]


async def test_a_goal_that_is_not_a_conversation_is_not_listed(stored: Stored) -> None:
    goal = History(stored, "g")
    await say(goal, GoalBegun("Do it.", MindSpec("model", model="openai:x")), Message("Do it."), at=0)
    assert await listed(stored) == []
    assert (await stored.store.find("g")).overview is None


async def test_an_ended_conversation_is_listed_until_it_is_deleted(stored: Stored) -> None:
    talk = await chat(stored, "g")
    await say(talk, Termination("cancelled"), at=1)
    assert await listed(stored) == ["g"]
    await stored.store.delete("g")
    assert await listed(stored) == []


async def test_a_rejected_append_changes_no_overview(stored: Stored) -> None:
    talk = await chat(stored, "g")
    made = talk.next(Message("Two?"))
    done = await stored.store.append_event(
        *("g", made),
        expected_seq=2,
        expected_hash=talk.last_hash,
        epoch=1,
        summary=summarise(fold([*talk.events, *made])),
        key="k",
    )
    assert done.seq == 3
    other = talk.next(Message("Or two?"))
    summary = summarise(fold([*talk.events, *other]))
    with pytest.raises(Conflict, match="by now"):
        await talk.store(other, summary=summary)
    (found,) = await stored.store.conversations(None)
    assert found.overview is not None
    assert found.overview.last_text == "Two?"
