"""A server whose files run out: connections without a token take none that its goals need, nor keep out a client."""

import os
import resource
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.file_limit import MOST_FILES, raise_file_limit
from perdure.interfaces.api.protocols.connection_limit import RESERVE
from tests import children
from tests.crash import program
from tests.crash.size import torture_size
from tests.crash.test_server import connected, url_of

ROUNDS = torture_size(small=1)
FILES = RESERVE + 128
FLOOD = FILES + 64
STEPS = 15


@pytest.fixture
def home(tmp_path: Path, migrated_sqlite: str) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "perdure.db")
    return home


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """Let the one who floods open more files than the server may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < FLOOD + 256:
        pytest.skip("this system does not let us open enough files to flood a server")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], FLOOD + 256), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def flood(pid: int, port: int) -> Iterator[None]:
    """Connect more often than the server has files, all at once: it stands still until all have come."""
    os.kill(pid, signal.SIGSTOP)
    held = [socket.socket() for _ in range(FLOOD)]
    try:
        for each in held:
            each.setblocking(False)
            with suppress(BlockingIOError):
                each.connect(("127.0.0.1", port))
        os.kill(pid, signal.SIGCONT)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        for each in held:
            each.close()


def counting(round_: int, folder: Path) -> str:
    steps = "".join(
        f"  - {{id: s{n}, exec: 'echo {n} >> {folder}/{round_}', shell: true, effect: once,"
        f" needs: [{f's{n - 1}' if n else ''}]}}\n"
        for n in range(STEPS)
    )
    return f"goal: count\nsteps:\n{steps}"


@pytest.mark.torture
async def test_connections_without_a_token_take_no_files_that_goals_need(home: Path, tmp_path: Path) -> None:
    server = program.start(home, home, ["serve", "--port", "0"], files=FILES)
    try:
        url, pid = url_of(server), server.process.pid
        assert url is not None
        assert pid is not None
        for number in range(ROUNDS):
            async with connected(home, url) as client:
                before = await client.goals.create(plan=counting(number, tmp_path))
                with flood(pid, int(url.rpartition(":")[2])):
                    during = await client.goals.create(command="true")
                    async for _ in client.goals.follow(before["id"]):
                        pass
                    async for _ in client.goals.follow(during["id"]):
                        pass
                    for goal in (before, during):
                        found = await client.goals.get(goal["id"])
                        assert (found["status"], found["reason"]) == ("done", "done"), found
            assert (tmp_path / str(number)).read_text().split() == [str(n) for n in range(STEPS)]
        server.interrupt()
        said = server.said.read()
    finally:
        server.kill()
    assert "out of system resource" not in said
    assert "Too many open files" not in said


async def _programs_keep_their_limit(home: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(hard, MOST_FILES)
    async with Perdure.open(home) as p:
        ran = await p.goals.run(["sh", "-c", "ulimit -S -n"])
    assert ran.value["stdout"].strip() == "200"


def test_a_server_opens_more_files_than_it_was_given_and_its_programs_do_not(home: Path) -> None:
    children.run(_programs_keep_their_limit, home)
