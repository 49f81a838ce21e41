"""Servers that are killed with goals in their queue and flows on their threads, and two servers that share a home."""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from perdure import PerdureError, Unavailable
from perdure.app.access.token import read_token
from perdure.client import Client
from tests import children
from tests.crash.flows import BLOCKED, COUNTING, STEPS, serve_few
from tests.crash.size import torture_size
from tests.crash.test_server import connected, served
from tests.interfaces.api.serving import plain_http

GOALS = 4
LONGEST_S = 25.0
"""Less than a lease: what is waited for must not need its end."""


@pytest.fixture
def home(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    settings = [f'flows = "{COUNTING}, {BLOCKED}"']
    if backend == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), home / "perdure.db")
    else:
        settings.append(f'database_url = "{request.getfixturevalue("own_postgresql")}"')
    (home / "config.toml").write_text("\n".join(settings) + "\n")
    return home


@contextmanager
def few(home: Path, most: int, killed_at: tuple[str, int] | None = None) -> Iterator[tuple[ForkServerProcess, str]]:
    """A server in a process of its own that runs few goals at once."""
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(serve_few, home, most, killed_at, theirs)
    theirs.close()
    try:
        assert ours.poll(60)
        yield child, ours.recv()
    finally:
        ours.close()
        child.kill()
        child.join()
        child.close()


def noting(folder: Path, name: str) -> str:
    effect = f"echo {name} >> {folder}/done; sleep 0.1"
    return f"goal: note\nsteps: [{{id: a, exec: '{effect}', shell: true, effect: idempotent}}]"


async def ended(client: Client, goal_id: str, within_s: float = LONGEST_S) -> dict[str, Any]:
    """Wait until a goal has ended, however it is told."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        goal = await client.goals.get(goal_id)
        if goal["status"] in ("done", "failed", "cancelled"):
            return dict(goal)
        await asyncio.sleep(0.05)
    raise AssertionError(f"{goal_id} is {goal['status']} ({goal['detail']})")


@pytest.mark.parametrize(
    ("point", "nth"),
    [("kernel.append.before", 3), ("kernel.append.after", 3), ("store.claim.before", 2), ("store.claim.after", 2)],
)
async def test_goals_that_wait_in_the_queue_are_run_by_the_next_server(
    home: Path, tmp_path: Path, point: str, nth: int
) -> None:
    told: list[str] = []

    async def create(client: Client, number: int) -> str:
        goal = await client.goals.create(plan=noting(tmp_path, f"g{number}"), key=f"k{number}")
        return str(goal["id"])

    with few(home, 1, (point, nth)) as (child, url):
        async with connected(home, url) as client:
            with suppress(Unavailable):
                for number in range(GOALS):
                    told.append(await create(client, number))  # noqa: PERF401 (what was told before it died counts)
        child.join(60)
        assert child.exitcode == -9, f"{point} was not reached"
    with few(home, 1) as (_, url):
        async with connected(home, url) as client:
            ids = [await create(client, number) for number in range(GOALS)]
            assert ids[: len(told)] == told
            assert {(await ended(client, goal_id))["status"] for goal_id in ids} == {"done"}
    done = Counter((tmp_path / "done").read_text().split())
    assert sorted(done) == [f"g{number}" for number in range(GOALS)]
    assert sum(done.values()) <= GOALS + 1  # what was cut off was idempotent, and done again


@pytest.mark.parametrize(
    "point", ["kernel.append.before", "kernel.append.after", "store.append.before", "store.append.after"]
)
async def test_a_flow_on_a_thread_continues_when_its_server_was_killed(home: Path, tmp_path: Path, point: str) -> None:
    with served(home, (point, 5)) as (server, url):
        async with connected(home, url) as client:
            goals = []
            with suppress(Unavailable):
                for name in ("a", "b"):
                    goal = await client.goals.create(flow=COUNTING, args=[str(tmp_path), name], key=name)
                    goals.append(goal["id"])
        server.wait_for_end()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            again = [
                (await client.goals.create(flow=COUNTING, args=[str(tmp_path), name], key=name))["id"] for name in "ab"
            ]
            assert again[: len(goals)] == goals
            for goal_id in again:
                assert (await ended(client, goal_id))["status"] == "done"
                seqs = [event["seq"] async for event in client.goals.follow(goal_id)]
                assert seqs == list(range(1, len(seqs) + 1))
    counts = [len((tmp_path / f"{name}-{step}").read_text().split()) for name in "ab" for step in range(STEPS)]
    assert all(1 <= count <= 2 for count in counts)


async def test_a_server_answers_and_ends_while_a_flow_blocks_and_the_next_resumes_it(
    home: Path, tmp_path: Path
) -> None:
    with served(home) as (server, url):
        async with connected(home, url) as client, plain_http(base_url=url) as http:
            goal = await client.goals.create(flow=BLOCKED, args=[str(tmp_path)])
            await there(tmp_path / "blocks")
            assert (await http.get("/healthz")).status_code == 200
            other = await client.goals.create(flow=COUNTING, args=[str(tmp_path), "other"])
            assert (await ended(client, other["id"]))["status"] == "done"
        server.interrupt()
        server.wait_for("Ctrl-C ends them now")
        server.interrupt()
        server.wait_for_end()
        assert server.process.exitcode == 0
    (tmp_path / "go").touch()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            assert (await ended(client, goal["id"]))["status"] == "done"
    assert (tmp_path / "after").read_text() == ".\n"


async def there(path: Path) -> None:
    for _ in range(3_000):
        if path.exists():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} never came")


@asynccontextmanager
async def two_servers(home: Path) -> AsyncIterator[list[Client]]:
    """Two servers on one home, in processes of their own."""
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(2):
            _, url = stack.enter_context(served(home))
            clients.append(await stack.enter_async_context(Client(url, read_token(home))))
        yield clients


@pytest.mark.torture
async def test_an_answer_through_either_of_two_servers_is_taken_soon(home: Path) -> None:
    rounds = torture_size(small=5)
    steps = "".join(
        f"  - {{id: s{n}, ask: {{question: Sure}}, needs: [{f's{n - 1}' if n else ''}]}}\n" for n in range(5)
    )
    async with two_servers(home) as clients:
        for number in range(rounds):
            goals = [await client.goals.create(plan=f"goal: ask\nsteps:\n{steps}") for client in clients]
            for step in range(5):
                for place, goal in enumerate(goals):
                    await answer(clients[(number + step + place) % 2], goal["id"], f"s{step}")
            for goal in goals:
                assert (await ended(clients[number % 2], goal["id"]))["status"] == "done"


async def answer(client: Client, goal_id: str, step: str) -> None:
    """Answer the question of a step as soon as it is asked, which must not take as long as a failed goal is left."""
    deadline_s = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline_s:
        with suppress(PerdureError):
            await client.goals.decide(goal_id, "answer", call_id=f"{step}.1", value="yes")
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{goal_id} stands still before {step}")


@pytest.mark.torture
async def test_a_queue_that_two_servers_share_loses_nothing_while_they_are_killed(home: Path, tmp_path: Path) -> None:
    rounds, chance = torture_size(small=4), random.Random(7)
    ids: list[str] = []
    for number in range(rounds):
        with few(home, 2) as (child, url), few(home, 2) as (_, beside):
            async with connected(home, url) as client, connected(home, beside) as other:
                for name in (f"g{number}{letter}" for letter in "abcdef"):
                    ids.append((await client.goals.create(plan=noting(tmp_path, name), key=name))["id"])  # noqa: PERF401
                for _ in range(chance.randrange(20)):
                    await other.goals.get(ids[-1])
                child.kill()
                for goal_id in ids[-6:] if number % 2 else ():
                    assert (await ended(other, goal_id))["status"] == "done"
    with few(home, 2) as (_, url):
        async with connected(home, url) as client:
            assert {(await ended(client, goal_id))["status"] for goal_id in ids} == {"done"}
    assert len(set((tmp_path / "done").read_text().split())) == len(ids)
