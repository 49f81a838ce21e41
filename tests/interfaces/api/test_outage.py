"""A database that goes away under a server and comes back: who follows a goal is told to come again, and can."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from websockets.exceptions import ConnectionClosed

from perdure import Unavailable
from perdure.interfaces.api.connections import CloseCode
from tests.interfaces.api.serving import Served, served
from tests.interfaces.api.test_goals import ASKS, waiting
from tests.interfaces.api.test_streams import event_heard, heard, opened
from tests.postgres import PostgresServer


@dataclass(frozen=True)
class Database:
    """A database of a server that runs on, which can be shut and opened."""

    server: PostgresServer
    name: str

    @contextmanager
    def away(self) -> Iterator[None]:
        self._allow("false")
        try:
            yield
        finally:
            self._allow("true")

    def _allow(self, word: str) -> None:
        with psycopg.connect(self.server.url(), autocommit=True) as connection:
            name = sql.Identifier(self.name)
            connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(name, sql.SQL(word)))
            ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            connection.execute(ends, (self.name,))


@pytest.fixture
def database(postgres: PostgresServer) -> Database:
    name = f"outage_{secrets.token_hex(6)}"
    postgres.new_database(name)
    return Database(postgres, name)


@pytest.fixture
async def at(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "home", database.server.url(database.name)) as at:
        yield at


async def test_who_follows_a_goal_is_asked_to_come_again_and_can(
    at: Served, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    goal = await at.client.goals.create(plan=ASKS)
    await waiting(at.client, goal["id"])
    stream = at.http.stream("GET", f"/goals/{goal['id']}/events", headers={"Accept": "text/event-stream"})
    token = at.server.surface.access.token.read() or ""
    async with opened(at.server, token, f"/ws/goals/{goal['id']}") as socket, stream as sent:
        seen, chunks = await event_heard(socket), sent.aiter_bytes()
        assert (await anext(chunks)).startswith(b"id: 1\n")
        with database.away():
            at.server.surface.p.goals.feed.wake_all()
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    await heard(socket)
            async for _ in chunks:
                pass  # it ends as if it were whole
            with pytest.raises(Unavailable):
                async for _ in at.client.goals.follow(goal["id"], tries=1):
                    pass
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.LATER
    assert await anext(at.client.goals.follow(goal["id"])) == seen
    assert [record for record in caplog.records if record.levelno > logging.WARNING] == []
    told = [record.message for record in caplog.records if "polling for" in record.message]
    assert len([message for message in told if "polling for changes failed" in message]) <= 1, told


async def test_a_server_answers_503_while_its_database_is_away_and_nothing_else(at: Served, database: Database) -> None:
    with database.away():
        answers = await asyncio.gather(
            at.http.get("/goals"), at.http.get("/bots"), at.http.post("/goals", json={"command": "echo"})
        )
        assert [answer.status_code for answer in answers] == [503, 503, 503]
    assert (await at.http.get("/goals")).json()["data"] == []
