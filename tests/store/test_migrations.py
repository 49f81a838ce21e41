"""The chain of migrations, and made-up links that show what the machinery does with them."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory

from perdure import Conflict, Damaged, DatabaseClient, PerdureError
from perdure.store.database import Database
from perdure.store.migrate import alembic_config
from perdure.store.migrations import CHAIN, Chain
from perdure.store.postgres.database import PostgresDatabase
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.target import PostgresTarget, parse_target
from perdure.store.transaction import Transaction
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names
from tests.sql import insert
from tests.store.rows import row

NEXT, AFTER = (f"{CHAIN.head + number:04d}" for number in (1, 2))

REBUILD = """
from alembic import op
def upgrade():
    with op.batch_alter_table("projects", recreate="auto") as batch:
        batch.create_check_constraint("ck_projects_name", "name <> ''")
"""
ADD = """
import sqlalchemy as sa
from alembic import op
def upgrade():
    op.add_column("features", sa.Column("color", sa.Text()))
"""
FAIL = """
from alembic import op
def upgrade():
    op.execute("CREATE TABLE half (id TEXT)")
    op.execute("UPDATE projects SET name = 'changed'")
    raise RuntimeError("on purpose")
"""
ORPHAN = """
from alembic import op
def upgrade():
    op.execute("DELETE FROM projects")
"""


def chain_with(folder: Path, *scripts: str) -> Chain:
    """Our chain with made-up migrations behind it."""
    target = folder / f"chain-{len(list(folder.iterdir()))}"
    shutil.copytree(CHAIN.folder, target, ignore=shutil.ignore_patterns("__pycache__"))
    for number, script in enumerate(scripts, CHAIN.head + 1):
        revision = f'revision, down_revision = "{number:04d}", "{number - 1:04d}"'
        (target / "versions" / f"{number:04d}_made_up.py").write_text(f"{script}{revision}\n")
    return Chain(target, CHAIN.head + len(scripts))


async def open_with(url: str, chain: Chain = CHAIN, *, migrate: bool = True) -> Database:
    target = parse_target(url)
    if isinstance(target, PostgresTarget):
        return await PostgresDatabase.open(target, migrate=migrate, debug=False, chain=chain)
    assert target.path is not None
    return await SqliteFileDatabase.open(target.path, migrate=migrate, debug=False, chain=chain)


def chain_until(folder: Path, head: int) -> Chain:
    """Our chain as it was when a revision was its newest."""
    target = folder / f"until-{head}"
    if target.exists():
        return Chain(target, head)
    shutil.copytree(CHAIN.folder, target, ignore=shutil.ignore_patterns("__pycache__"))
    for script in (target / "versions").glob("*.py"):
        if int(script.name[:4]) > head:
            script.unlink()
    return Chain(target, head)


async def filled(url: str, chain: Chain = CHAIN) -> None:
    """A database with a project and a feature in it, of today or of an earlier day."""
    database = await open_with(url, chain)
    await database.write(new_project("a"))
    await database.write(
        lambda tx: (
            tx.execute(
                "INSERT INTO features (id, project_id, name, created_at, updated_at) VALUES ('f', 'a', 'f', 1, 1)"
            ).rowcount
        )
    )
    await database.close()


def test_the_head_that_we_know_is_alembics() -> None:
    assert ScriptDirectory.from_config(alembic_config(CHAIN)).get_current_head() == f"{CHAIN.head:04d}"


def test_revisions_are_numbered_without_gaps() -> None:
    script = ScriptDirectory.from_config(alembic_config(CHAIN))
    numbers = sorted(int(revision.revision) for revision in script.walk_revisions())
    assert numbers == list(range(1, CHAIN.head + 1))


async def test_a_database_that_was_made_without_migrating_is_migrated_later(database_url: str) -> None:
    await (await DatabaseClient.create(database_url, migrate=False)).close()
    async with await DatabaseClient.create(database_url) as db:
        assert (await db.health()).version == CHAIN.head
        assert await db.verify() == []


@pytest.mark.parametrize("version", range(1, CHAIN.head))
async def test_a_database_of_every_earlier_version_becomes_todays_and_keeps_its_rows(
    database_url: str, tmp_path: Path, version: int
) -> None:
    await filled(database_url, chain_until(tmp_path, version))
    async with await DatabaseClient.create(database_url) as db:
        assert (await db.health()).version == CHAIN.head
        assert await db.verify() == []
        assert await db.read(project_names) == ["a"]


async def test_drafts_of_an_earlier_version_keep_every_column(database_url: str, tmp_path: Path) -> None:
    draft = row("builder_drafts", state_json='{"kept": "whole"}', schema_version=1, revision=7, question_count=3)
    database = await open_with(database_url, chain_until(tmp_path, 4))
    await database.write(lambda tx: tx.execute(insert("builder_drafts", draft), draft).rowcount)
    await database.close()
    async with await DatabaseClient.create(database_url) as db:
        query = f"SELECT {', '.join(draft)} FROM builder_drafts"
        assert await db.read(lambda tx: tx.execute(query).all()) == [tuple(draft.values())]


NEW_DEFAULTS = [
    ("builder_drafts", {"revision": 7, "state_json": '{"kept": "whole"}'}, "revision", 1),
    ("builder_memory", {"chosen_skills": '["a"]', "chosen_tone": "t", "chosen_model": "m", "bot_slug": "s"}, "", None),
    ("checkpoints", {"format_version": 3, "pinned": True, "log_position": 5}, "format_version", 1),
]


@pytest.mark.parametrize(("table", "values", "column", "default"), NEW_DEFAULTS, ids=[each[0] for each in NEW_DEFAULTS])
async def test_tables_that_got_defaults_keep_their_rows(
    database_url: str, tmp_path: Path, table: str, values: Mapping[str, Any], column: str, default: object
) -> None:
    await filled(database_url, chain_until(tmp_path, 8))
    database = await open_with(database_url, chain_until(tmp_path, 8))
    own = {"project_id": "a"} if table == "checkpoints" else {}
    old, key = row(table, **values, **own), "session_id" if table == "builder_drafts" else "id"
    await database.write(partial(add, table, old))
    await database.close()
    async with await DatabaseClient.create(database_url) as db:
        assert await db.verify() == []
        found = await db.read(lambda tx: tx.execute(f"SELECT {', '.join(old)} FROM {table}").all())
        assert found == [tuple(old.values())]
        new = row(table, **own, **{key: "new"})
        await db.transaction(partial(add, table, new))
        wanted = column or "chosen_tone, chosen_model, bot_slug, chosen_skills"
        [stored] = await db.read(lambda tx: tx.execute(f"SELECT {wanted} FROM {table} WHERE {key} = 'new'").all())
        assert tuple(stored) == ((default,) if column else (None, None, None, "[]"))
        if table == "checkpoints":
            await db.transaction(lambda tx: tx.execute("DELETE FROM projects").rowcount)
            assert await db.read(lambda tx: tx.scalar("SELECT count(*) FROM checkpoints")) == 0


async def test_versions_of_bots_of_before_count_as_edited_where_forge_has_changed_them(
    database_url: str, tmp_path: Path
) -> None:
    earlier = chain_until(tmp_path, 10)
    database = await open_with(database_url, earlier)
    bot = row("bots")
    made = [
        ("assemble", '{"SOUL.md": "a"}'),
        ("reconfigure", '{"SOUL.md": "b"}'),
        ("rollback", '{"SOUL.md": "a"}'),
        ("reconfigure", "{}"),
        ("reconfigure", "[]"),
    ]
    kept = [
        row("bot_versions", bot_id=bot["id"], number=number, origin=origin, state="past", sha256=sha256)
        for number, (origin, sha256) in enumerate(made, 1)
    ]
    for table, values in [("bots", bot), *(("bot_versions", each) for each in kept)]:
        await database.write(partial(add, table, values))
    await database.close()
    async with await DatabaseClient.create(database_url) as db:
        assert await db.verify() == []
        names = ", ".join(kept[0])
        found = await db.read(lambda tx: tx.execute(f"SELECT {names} FROM bot_versions ORDER BY number").all())
        assert found == [tuple(each.values()) for each in kept]
        edited = await db.read(lambda tx: tx.execute("SELECT hand_edits FROM bot_versions ORDER BY number").all())
        assert [json.loads(text) for (text,) in edited] == [[], ["SOUL.md"], [], [], []]
        await db.transaction(lambda tx: tx.execute("DELETE FROM bots").rowcount)
        assert await db.read(lambda tx: tx.scalar("SELECT count(*) FROM bot_versions")) == 0


@pytest.mark.parametrize("version", ["ae1027a6acf", f"{CHAIN.head + 1:04d}", "-1", "٣", ""])
async def test_a_sqlite_file_with_a_revision_that_is_not_known_is_refused_and_unchanged(
    sqlite_path: Path, version: str
) -> None:
    await filled(str(sqlite_path))
    with closing(sqlite3.connect(sqlite_path)) as plain, plain:
        plain.execute("UPDATE alembic_version SET version_num = ?", [version])
    before = sqlite_path.read_bytes()
    for migrate in (True, False):
        with pytest.raises(Conflict, match="knows versions up to"):
            await DatabaseClient.create(str(sqlite_path), migrate=migrate)
    assert sqlite_path.read_bytes() == before
    with closing(sqlite3.connect(sqlite_path)) as plain, plain:
        plain.execute("UPDATE alembic_version SET version_num = ?", [f"{CHAIN.head:04d}"])
    async with await DatabaseClient.create(str(sqlite_path)) as db:
        assert await db.read(project_names) == ["a"]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM alembic_version",
        "INSERT INTO alembic_version VALUES ('0001')",
        "DROP TABLE alembic_version",
        "UPDATE alembic_version SET version_num = '0001'",
        f"UPDATE alembic_version SET version_num = '{CHAIN.head}'",
    ],
)
@pytest.mark.parametrize("is_older", [False, True], ids=["newest", "older"])
async def test_a_sqlite_file_whose_bookkeeping_disagrees_is_damaged_and_no_copy_is_made(
    sqlite_path: Path, change: str, *, is_older: bool
) -> None:
    await filled(str(sqlite_path))
    with closing(sqlite3.connect(sqlite_path)) as plain, plain:
        plain.execute(change)
        if is_older:
            plain.execute(f"PRAGMA user_version = {CHAIN.head - 1}")
    before = sqlite_path.read_bytes()
    for _ in range(2):
        with pytest.raises(Damaged, match="in its table `alembic_version`"):
            await DatabaseClient.create(str(sqlite_path))
    assert sqlite_path.read_bytes() == before
    assert not list(sqlite_path.parent.glob("*.before-*"))


def add(table: str, values: Mapping[str, Any], tx: Transaction) -> int:
    """Insert one row."""
    return tx.execute(insert(table, values), values).rowcount


OLD_GOALS = [
    ("a", "plan", "done", "done", "{}"),
    ("b", "plan", "stopped", "failed", "{}"),
    ("c", "plan", "stopped", "cancelled", "{}"),
    ("d", "flow", "stopped", "fatal_error", '{"mind":{"kind":"flow","flow":"reports.daily:Nightly.run","args":{}}}'),
    ("e", "flow", "waiting", None, "not JSON"),
]


async def test_goals_of_an_earlier_version_are_failed_or_cancelled_and_keep_their_events(
    database_url: str, tmp_path: Path
) -> None:
    database = await open_with(database_url, chain_until(tmp_path, 7))
    for number, (name, mind, status, reason, payload) in enumerate(OLD_GOALS, 1):
        goal = {"goal_no": number, "id": name, "text": name, "mind": mind, "status": status, "reason": reason}
        goal |= {
            "runner": "server",
            "parent_id": "a" if name == "b" else None,
            "parent_seq": 1 if name == "b" else None,
        }
        goal |= {"last_seq": 2, "last_hash": bytes(32), "created_at": number, "updated_at": number}
        event = {"goal_no": number, "seq": 2, "id": bytes(16), "type": "goal", "v": 1, "iteration": 0, "timestamp": 1}
        event |= {"payload": payload, "hash": bytes(32)}
        await database.write(partial(add, "goals", goal))
        await database.write(partial(add, "events", event))
    await database.close()
    async with await DatabaseClient.create(database_url) as db:
        query = "SELECT id, status, reason, queue, forked_from_id, forked_from_seq, flow, tags FROM goals ORDER BY id"
        assert await db.read(lambda tx: [tuple(row) for row in tx.execute(query).all()]) == [
            ("a", "done", "done", "server", None, None, None, "[]"),
            ("b", "failed", "failed", "server", "a", 1, None, "[]"),
            ("c", "cancelled", "cancelled", "server", None, None, None, "[]"),
            ("d", "failed", "fatal_error", "server", None, None, "Nightly.run", "[]"),
            ("e", "waiting", None, "server", None, None, None, "[]"),
        ]
        joined = "SELECT count(*) FROM goals JOIN events USING (goal_no)"
        assert await db.read(lambda tx: tx.scalar(joined)) == len(OLD_GOALS)


def said(kind: str, content: Mapping[str, Any]) -> tuple[str, str]:
    return kind, json.dumps(content)


CHAT = said("goal", {"text": "One?", "mind": {"kind": "model", "chat": True}})
TURN = {"parts": [{"kind": "thinking", "text": "hm"}, {"kind": "text", "text": "First."}]}
OLD_TALKS: dict[str, tuple[tuple[str, int] | None, list[tuple[str, str]]]] = {
    "talk": (
        None,
        [
            CHAT,
            said("message", {"role": "context", "text": "record", "by": "memory"}),
            said("message", {"role": "user", "text": "One? " + "x" * 100}),
            said("model_turn", TURN),
            said("message", {"role": "user", "text": "Two? \ud800 \x00"}),
            said("model_turn", {"parts": [{"kind": "tool_call", "call_id": "t2.1", "tool": "exec"}]}),
        ],
    ),
    "fork": (("talk", 4), [CHAT]),
    "run": (None, [said("goal", {"mind": {"kind": "model"}}), said("message", {"role": "user", "text": "Do it."})]),
    "damaged": (None, [CHAT, ("message", "{")]),
    "silent": (None, [CHAT]),
}
"""Goals of a model by name: the event that they are forked at, and their own events."""


async def test_conversations_of_an_earlier_version_are_listed(database_url: str, tmp_path: Path) -> None:
    database = await open_with(database_url, chain_until(tmp_path, 12))
    for number, (name, (origin, events)) in enumerate(OLD_TALKS.items(), 1):
        began = 0 if origin is None else origin[1]
        goal = {"goal_no": number, "id": name, "text": name, "mind": "model", "status": "waiting"}
        goal |= {"forked_from_id": origin and origin[0], "forked_from_seq": origin and origin[1]}
        goal |= {"last_seq": began + len(events), "last_hash": bytes(32), "created_at": 1, "updated_at": 1}
        await database.write(partial(add, "goals", goal))
        for seq, (kind, payload) in enumerate(events, began + 1):
            event = {"goal_no": number, "seq": seq, "id": bytes(16), "type": kind, "v": 1, "iteration": 0}
            event |= {"timestamp": seq * 10, "payload": payload, "hash": bytes(32)}
            await database.write(partial(add, "events", event))
    await database.close()
    async with await DatabaseClient.create(database_url) as db:
        assert await db.verify() == []
        query = "SELECT id, title, messages, last_text, last_at FROM goals WHERE messages IS NOT NULL ORDER BY goal_no"
        assert await db.read(lambda tx: [tuple(row) for row in tx.execute(query).all()]) == [
            ("talk", "One? " + "x" * 75, 2, r"Two? \ud800 \x00", 50),
            ("fork", "One? " + "x" * 75, 1, "First.", 40),
        ]


async def test_an_existing_database_goes_through_all_new_migrations_and_keeps_its_rows(
    database_url: str, tmp_path: Path
) -> None:
    await filled(database_url)
    database = await open_with(database_url, chain_with(tmp_path, REBUILD, ADD))
    assert (await database.health()).version == CHAIN.head + 2
    assert await database.read(project_names) == ["a"]
    assert await database.read(lambda tx: tx.scalar("SELECT color FROM features WHERE id = 'f'")) is None
    assert await database.read(lambda tx: tx.scalar("SELECT version_num FROM alembic_version")) == AFTER
    await database.close()


async def test_a_rebuilt_table_keeps_the_rows_that_point_at_it(sqlite_path: Path, tmp_path: Path) -> None:
    await filled(str(sqlite_path))
    database = await open_with(str(sqlite_path), chain_with(tmp_path, REBUILD))
    assert await database.read(lambda tx: tx.scalar("SELECT count(*) FROM features")) == 1
    assert await database.write(lambda tx: tx.scalar("PRAGMA foreign_keys")) == 1
    await database.close()


async def test_a_migration_that_fails_leaves_version_schema_and_rows(database_url: str, tmp_path: Path) -> None:
    await filled(database_url)
    with pytest.raises(RuntimeError, match="on purpose"):
        await open_with(database_url, chain_with(tmp_path, FAIL))
    database = await open_with(database_url)
    assert (await database.health()).version == CHAIN.head
    assert await database.read(project_names) == ["a"]
    assert await database.verify() == []
    with pytest.raises(Exception, match="half"):
        await database.read(lambda tx: tx.execute("SELECT * FROM half"))
    await database.close()


async def test_migrations_before_the_one_that_fails_stay(database_url: str, tmp_path: Path) -> None:
    await filled(database_url)
    with pytest.raises(RuntimeError, match="on purpose"):
        await open_with(database_url, chain_with(tmp_path, REBUILD, FAIL))
    database = await open_with(database_url, chain_with(tmp_path, REBUILD))
    assert (await database.health()).version == CHAIN.head + 1
    await database.close()


async def test_a_migration_that_would_leave_orphans_is_undone(sqlite_path: Path, tmp_path: Path) -> None:
    await filled(str(sqlite_path))
    with pytest.raises(Damaged, match="point nowhere"):
        await open_with(str(sqlite_path), chain_with(tmp_path, ORPHAN))
    database = await open_with(str(sqlite_path))
    assert await database.read(project_names) == ["a"]
    await database.close()


async def test_the_file_is_copied_before_it_is_migrated(sqlite_path: Path, tmp_path: Path) -> None:
    await filled(str(sqlite_path))
    await (await open_with(str(sqlite_path), chain_with(tmp_path, REBUILD))).close()
    (copy,) = sqlite_path.parent.glob(f"perdure.db.before-{NEXT}-*")
    with closing(sqlite3.connect(copy)) as plain:
        assert plain.execute("PRAGMA user_version").fetchone() == (CHAIN.head,)
        assert plain.execute("SELECT name FROM projects").fetchall() == [("a",)]
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_a_new_database_needs_no_copy(sqlite_path: Path) -> None:
    await filled(str(sqlite_path))
    assert list(sqlite_path.parent.glob("*before*")) == []


async def test_todays_program_refuses_tomorrows_database(database_url: str, tmp_path: Path) -> None:
    await filled(database_url)
    await (await open_with(database_url, chain_with(tmp_path, REBUILD))).close()
    with pytest.raises(Conflict, match=NEXT):
        await open_with(database_url)


async def test_a_postgresql_database_with_the_bookkeeping_of_another_program_is_refused(
    postgres: PostgresServer,
) -> None:
    database_url = postgres.new_database("bookkeeping")
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('ae1027a6acf')")
    with pytest.raises(Conflict, match="ae1027a6acf"):
        await DatabaseClient.create(database_url)


async def test_many_that_open_a_new_database_at_once_migrate_it_once(database_url: str) -> None:
    clients = await asyncio.gather(*[DatabaseClient.create(database_url) for _ in range(6)])
    await clients[0].transaction(new_project("a"))
    assert [await client.read(project_names) for client in clients] == [["a"]] * 6
    await asyncio.gather(*[client.close() for client in clients])


async def test_an_unmigrated_database_is_reported_when_it_is_used(database_url: str) -> None:
    async with await DatabaseClient.create(database_url, migrate=False) as db:
        with pytest.raises(Exception, match="projects") as failure:
            await db.read(lambda tx: tx.execute("SELECT * FROM projects"))
        assert not isinstance(failure.value, PerdureError), "our own mistake must not look like the user's"
