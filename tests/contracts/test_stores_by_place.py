"""Stores that are made by a path or a URL: they open the database at the first use, and close what they have opened."""

from pathlib import Path

import pytest

from perdure import Conflict, DatabaseClient, Invalid, NotFound, PerdureError, Unavailable
from perdure.store import (
    BuilderDraft,
    BuilderMemoryEntry,
    BuilderMode,
    BuilderPhase,
    PostgresStateStore,
    SqlBotStore,
    SqlBuilderDraftStore,
    SqlBuilderMemoryStore,
    SqliteStateStore,
)
from tests.waiting import waiting_goal

DRAFT = BuilderDraft("s", "{}", "a timer", BuilderPhase.BASICS, BuilderMode.BOT, 0)


async def test_a_state_store_keeps_goals_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "new" / "goals.db"
    async with SqliteStateStore(path) as store:
        goal_id = await waiting_goal(store, "unknown", tmp_path)
        assert [goal.goal_id for goal in await store.list_goals()] == [goal_id]
    again = SqliteStateStore(str(path))
    assert [event.seq for event in await again.load(goal_id)] == [1, 2, 3]
    await again.close()
    async with await DatabaseClient.create(path) as client:
        assert (await client.state_store().find(goal_id)).goal_id == goal_id


async def test_a_state_store_in_memory_forgets(tmp_path: Path) -> None:
    async with SqliteStateStore(":memory:") as store:
        await waiting_goal(store, "unknown", tmp_path)
        assert len(await store.list_goals()) == 1
    async with SqliteStateStore(":memory:") as store:
        assert await store.list_goals() == []


async def test_a_state_store_opens_a_postgresql_url(own_postgresql: str, tmp_path: Path) -> None:
    async with PostgresStateStore(own_postgresql) as store:
        goal_id = await waiting_goal(store, "unknown", tmp_path)
    async with await DatabaseClient.create(own_postgresql) as client:
        assert (await client.state_store().find(goal_id)).goal_id == goal_id


async def test_drafts_choices_and_bots_are_kept_at_a_place(own_url: str) -> None:
    entry = BuilderMemoryEntry("1", "c", "d", None, None, (), None, 1)
    async with SqlBuilderDraftStore(own_url) as drafts, SqlBuilderMemoryStore(own_url) as choices:
        saved = await drafts.save_draft(DRAFT, 0)
        await choices.record_session(entry)
        assert await choices.recall_by_category("c") == [entry]
    async with SqlBuilderDraftStore(own_url) as drafts, SqlBotStore(own_url) as bots:
        assert await drafts.load_draft("s") == saved
        with pytest.raises(Conflict):
            await drafts.save_draft(DRAFT, 0)
        with pytest.raises(NotFound):
            await bots.version("none")


async def test_nothing_is_made_before_the_first_use_and_nothing_works_after_the_close(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "perdure.db"
    store, drafts = SqliteStateStore(path), SqlBuilderDraftStore(path)
    assert not path.parent.exists()
    await store.close()
    await store.close()
    await drafts.close()
    assert not path.parent.exists()
    with pytest.raises(Unavailable, match="closed"):
        await store.list_goals()
    with pytest.raises(Unavailable, match="closed"):
        await drafts.list_drafts()


async def test_an_opening_that_failed_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    path.mkdir()
    async with SqliteStateStore(path) as store:
        with pytest.raises(PerdureError):
            await store.list_goals()
        path.rmdir()
        assert await store.list_goals() == []


async def test_a_client_that_was_given_stays_open(own_url: str) -> None:
    async with await DatabaseClient.create(own_url) as client:
        async with SqlBuilderDraftStore(client) as drafts:
            await drafts.save_draft(DRAFT, 0)
        assert await client.ping()


def test_a_place_of_another_database_is_refused() -> None:
    with pytest.raises(Invalid, match="SqliteStateStore"):
        SqliteStateStore("postgresql://localhost/x")
    with pytest.raises(Invalid, match="PostgresStateStore"):
        PostgresStateStore("goals.db")
    with pytest.raises(Invalid):
        SqlBuilderDraftStore("mysql://localhost/x")
