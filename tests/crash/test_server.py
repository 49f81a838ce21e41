"""A server that is killed: what it has acknowledged is there, what was begun goes on, and nothing is done twice."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from perdure import Unavailable
from perdure.app.access.token import read_token
from perdure.client import Client
from tests.crash import program
from tests.crash.program import Program

STEPS = 6
PRINTING = """
import os
from perdure import flow

@flow
async def chatter(goal):
    await goal.step(int)
    print("printed by a flow", flush=True)
    os.write(1, b"written by a flow")
"""


@pytest.fixture
def home(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    if backend == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), home / "perdure.db")
    else:
        url = request.getfixturevalue("own_postgresql")
        (home / "config.toml").write_text(f'database_url = "{url}"\n')
    return home


@contextmanager
def served(home: Path, killed_at: tuple[str, int] | None = None) -> Iterator[tuple[Program, str]]:
    """Serve a home in a process of its own, which may die; what is left of it is killed at the end."""
    server = program.start(home, home, ["serve", "--port", "0"], killed_at=killed_at)
    try:
        url = url_of(server)
        assert url is not None, "the server has never said where it is"
        yield server, url
    finally:
        server.kill()


def url_of(server: Program) -> str | None:
    """Read where a server is; None when it has died before it said so."""
    for line in server.said:
        if found := re.search(r" at (http://127\.0\.0\.1:\d+)\.", line):
            return found[1]
    return None


@asynccontextmanager
async def connected(home: Path, url: str) -> AsyncIterator[Client]:
    async with Client(url, read_token(home)) as client:
        yield client


def counting(folder: Path) -> str:
    steps = "".join(
        f"  - id: s{n}\n    exec: 'echo {n} >> {folder}/done'\n    shell: true\n    effect: idempotent\n"
        f"    needs: [{f's{n - 1}' if n else ''}]\n"
        for n in range(STEPS)
    )
    return f"goal: count\nsteps:\n{steps}"


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
@pytest.mark.parametrize("nth", [2, 4])
async def test_a_goal_continues_when_the_server_is_started_again(
    home: Path, tmp_path: Path, point: str, nth: int
) -> None:
    with served(home, (point, nth)) as (first, url):
        async with connected(home, url) as client:
            with pytest.raises(Unavailable):  # also from create: the goal runs while its answer is sent
                goal = await client.goals.create(plan=counting(tmp_path), key="once")
                async for _ in client.goals.follow(goal["id"], tries=0):
                    pass
        first.wait_for_end()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            goal = await client.goals.create(plan=counting(tmp_path), key="once")
            assert [each["id"] for each in await client.request("GET", "/goals")] == [goal["id"]]
            seqs = [event["seq"] async for event in client.goals.follow(goal["id"])]
            assert (await client.goals.get(goal["id"]))["status"] == "done"
    assert seqs == list(range(1, len(seqs) + 1))
    done = (tmp_path / "done").read_text().split()
    assert sorted(set(done)) == [str(n) for n in range(STEPS)]
    assert len(done) <= STEPS + 1  # the step whose outcome was not recorded was idempotent, and done again


@pytest.mark.parametrize("point", ["store.commit.before", "store.commit.after"])
@pytest.mark.parametrize("nth", [1, 2])
async def test_a_repeated_call_gets_the_turn_that_the_killed_server_had_saved(home: Path, point: str, nth: int) -> None:
    keys = [str(uuid4()), str(uuid4())]
    with served(home, (point, nth)) as (first, url):
        async with connected(home, url) as client:
            with pytest.raises(Unavailable):
                await talked(client, keys)
        first.wait_for_end()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            session = await talked(client, keys)
            again = await talked(client, keys)
            drafts = await client.request("GET", "/builder/drafts")
    assert again == session
    assert (session["revision"], session["question_count"]) == (2, 1)
    assert len(drafts) == 1


async def talked(client: Client, keys: list[str]) -> dict[str, object]:
    """Begin a session and answer its first question, each call under its key, and return where it stands."""
    begin, answer = ({"Idempotency-Key": key} for key in keys)
    body = {"description": "a timer for pasta"}
    session = await client.request("POST", "/builder/sessions", body, headers=begin)
    here = f"/builder/sessions/{session['session_id']}"
    await client.request("POST", f"{here}/answer", {"answer": {"option_index": 0}}, headers=answer)
    found: dict[str, object] = await client.request("GET", here)
    return found


async def test_a_server_that_is_asked_to_end_twice_does_not_wait_for_steps(home: Path) -> None:
    with served(home) as (server, url):
        async with connected(home, url) as client:
            goal = await client.goals.create(command="sleep 60")
            async for event in client.goals.follow(goal["id"]):
                if event["payload"].get("call_id"):
                    break
        server.interrupt()
        server.wait_for("Ctrl-C ends them now")
        server.interrupt()
        began_s = time.monotonic()
        server.wait_for_end()
        assert server.process.exitcode == 0
        assert time.monotonic() - began_s < 8  # and not the ten seconds that steps have, or the sixty that this takes


async def test_a_server_that_is_asked_to_end_releases_its_goals(home: Path, tmp_path: Path) -> None:
    with served(home) as (server, url):
        async with connected(home, url) as client:
            steps = f"[{{id: a, exec: 'sleep 1'}}, {{id: b, exec: 'touch {tmp_path}/ended', needs: [a]}}]"
            goal = await client.goals.create(plan=f"goal: nap\nsteps: {steps}")
            async for event in client.goals.follow(goal["id"]):
                if event["payload"].get("call_id") == "a.1":
                    break
        server.interrupt()
        server.wait_for("ten seconds to finish")
        server.wait_for_end()
        assert server.process.exitcode == 0
    assert not (tmp_path / "ended").exists()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            events = [event async for event in client.goals.follow(goal["id"])]
    assert [event["type"] for event in events].count("outcome_unknown") == 0
    assert (tmp_path / "ended").exists()


@contextmanager
def printing(home: Path, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Serve a home whose flow prints, as a program starts it that reads standard output."""
    (folder / "printing.py").write_text(PRINTING)
    with (home / "config.toml").open("a") as settings:
        settings.write('flows = "printing:chatter"\n')
    environment = {**os.environ, "PERDURE_HOME": str(home), "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "perdure", "serve", "--port", "0", "--json"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            yield server
        finally:
            server.kill()


async def test_a_program_that_reads_what_serve_prints_reads_one_line(home: Path, tmp_path: Path) -> None:
    with printing(home, tmp_path) as server:
        assert server.stdout is not None
        told = json.loads(server.stdout.readline())
        async with connected(home, told["url"]) as client:
            goal = await client.goals.create(flow="printing:chatter")
            async for _ in client.goals.follow(goal["id"]):
                pass
        server.terminate()
        rest, said = server.communicate(timeout=30)
    assert told.keys() == {"url", "login_url", "pid"}
    assert told["login_url"] is None
    assert b"/login?code=" not in said
    assert rest == b""
    assert b"printed by a flow" in said
