"""A server whose goals kill it: after three deaths it stays up, the goal is on hold, and others run."""

import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from perdure.client import Client
from perdure.errors import Unavailable
from tests.crash import program
from tests.crash.goals import counted
from tests.crash.program import Program
from tests.crash.test_server import connected, served
from tests.interfaces.api.serving import plain_http

KILLS = "test -e {folder}/go || kill -9 $PPID $$; echo . >> {folder}/work"


@pytest.fixture
def home(tmp_path: Path, migrated_sqlite: str) -> Path:
    """A home on SQLite: PostgreSQL proves a worker dead by its lock file just the same."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, home / "perdure.db")
    return home


def killing_plan(folder: Path) -> str:
    """A plan of two steps; the second kills the server until there is a file."""
    step = f"{{id: work, shell: true, effect: idempotent, needs: [first], exec: '{KILLS.format(folder=folder)}'}}"
    return f"goal: kill\nsteps:\n  - {{id: first, shell: true, exec: 'echo . >> {folder}/first'}}\n  - {step}\n"


def killed(server: Program) -> bool:
    server.wait_for_end()
    return server.process.exitcode == -signal.SIGKILL


async def held(client: Client, goal_id: str) -> dict[str, object]:
    """Wait until a server has put a goal on hold, and return the goal."""
    async for event in client.goals.follow(goal_id):
        if event["type"] == "hold":
            break
    goal: dict[str, object] = dict(await client.goals.get(goal_id))
    return goal


async def test_a_server_stays_up_after_a_goal_has_killed_it_three_times(home: Path, tmp_path: Path) -> None:
    with served(home) as (server, url):
        async with connected(home, url) as client:
            with suppress(Unavailable):  # the goal may kill the server before the answer is sent
                await client.goals.create(plan=killing_plan(tmp_path), key="once")
        assert killed(server)
    for _ in range(2):
        server = program.start(home, home, ["serve", "--port", "0"])
        assert killed(server)
        server.kill()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            goal = await client.goals.create(plan=killing_plan(tmp_path), key="once")
            found = await held(client, goal["id"])
            assert (found["status"], found["waiting_for"]) == ("waiting", "hold")
            assert found["detail"] == "On hold: its worker died 3 times in a row while it ran; last in step work."
            async with plain_http() as http:
                assert (await http.get(f"{url}/healthz")).status_code == 200
            other = await client.goals.create(command="echo fine")
            _ = [event async for event in client.goals.follow(other["id"])]
            assert (await client.goals.get(other["id"]))["status"] == "done"
            (tmp_path / "go").touch()
            await client.goals.resume(goal["id"])
            _ = [event async for event in client.goals.follow(goal["id"])]
            assert (await client.goals.get(goal["id"]))["status"] == "done"
    assert (counted(tmp_path, "first"), counted(tmp_path, "work")) == (1, 1)
