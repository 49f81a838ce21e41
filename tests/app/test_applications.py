"""Applications that embed Perdure: their queue, and what they recover, on both databases."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure import Goal, Invalid, NotFound, Perdure, Unavailable, flow
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.new_goal import of_flow
from perdure.app.workers.queues import GoalQueues
from perdure.kernel.events import Limits
from perdure.minds.flow import registry
from tests.app.parked import parked
from tests.app.serving import become, until

CALLS: list[str] = []


def note(word: str) -> str:
    CALLS.append(word)
    return word


@flow
async def asking(goal: Goal) -> str:
    return f"{await goal.step(note, 'first')} {await goal.ask('Well?')}"


@flow
async def sleeping(goal: Goal) -> str:
    await goal.sleep(0.3)  # longer than it takes to park it
    return str(await goal.step(note, "awake"))


@flow
async def counting(goal: Goal, name: str) -> str:
    return str(await goal.step(note, name))


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("park_after_s = 0")
    return home


@pytest.fixture
def shop(home: Path, migrated_url: str) -> "Shop":
    return Shop(home, migrated_url)


class Shop:
    """A home that applications open."""

    def __init__(self, home: Path, url: str) -> None:
        self._home = home
        self._url = url
        self.name = f"shop-{secrets.token_hex(4)}"

    def open(self, **options: Any) -> AbstractAsyncContextManager[Perdure]:
        return Perdure.open(self._home, database_url=self._url, **({"app": self.name} | options))

    @asynccontextmanager
    async def recovering(self, **options: Any) -> AsyncIterator[Perdure]:
        async with self.open(recover=True, **options) as p:
            yield p

    async def left(self, *names: str) -> list[str]:
        """Return goals that an application has begun and could not run."""
        async with self.open() as p:
            return [
                (await p.goals.enqueue(of_flow(counting, [name], {}), queue=f"app.{self.name}")).id for name in names
            ]


@pytest.mark.parametrize("app", ["", "Shop", "a b", "a" * 41, "shop.x", 5])
async def test_an_invalid_name_of_an_application_is_refused(tmp_path: Path, app: Any) -> None:
    with pytest.raises(Invalid, match="Invalid app: expected 1 to 40 characters"):
        async with Perdure.open(tmp_path / "home", app=app):
            pass
    assert not (tmp_path / "home").exists()


async def test_recovery_is_wanted_or_not(tmp_path: Path) -> None:
    options: dict[str, Any] = {"recover": "no"}
    with pytest.raises(Invalid, match="recover: expected True or False, got 'no'"):
        async with Perdure.open(tmp_path / "home", app="shop", **options):
            pass


async def test_recovery_without_an_application_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match='Perdure.open\\(app="shop", recover=True\\)'):
        async with Perdure.open(tmp_path / "home", recover=True):
            pass


async def test_goals_of_an_application_are_in_its_queue(shop: Shop) -> None:
    async with shop.open() as p:
        ran = await p.goals.run(counting, "a")
        started = await p.goals.start(counting, "b")
        await started.result(timeout_s=30)
        queues = [(await p.goals.get(each)).summary.queue for each in (ran.id, started.id)]
    assert queues == [f"app.{shop.name}"] * 2


async def test_what_an_application_has_left_is_recovered_by_the_next_process(shop: Shop) -> None:
    (goal_id,) = await shop.left("a")
    async with shop.recovering() as p:
        assert (await become(p, goal_id, "done")).summary.queue == f"app.{shop.name}"
    assert CALLS == ["a"]


async def test_goals_of_others_are_left_alone(shop: Shop) -> None:
    (goal_id,) = await shop.left("a")
    async with shop.open(app="other", recover=True) as p:
        await p.goals.start(counting, "b")
        await until(lambda: CALLS == ["b"])
        assert (await p.goals.get(goal_id)).status == "interrupted"
    async with shop.open() as p:
        assert (await p.goals.get(goal_id)).status == "interrupted", "nor does one recover that was not told to"
    assert CALLS == ["b"]


async def test_a_goal_that_was_answered_elsewhere_continues_here(shop: Shop) -> None:
    async with shop.recovering() as p, shop.open(app=None) as other:
        goal_id = (await parked(p.goals.run(asking))).id
        await other.goals.decide(goal_id, "answer", value="yes")
        await become(p, goal_id, "done")
    assert CALLS == ["first"]


async def test_a_goal_that_is_due_is_woken(shop: Shop) -> None:
    async with shop.recovering() as p:
        goal_id = (await parked(p.goals.run(sleeping))).id
        await become(p, goal_id, "done")
    assert CALLS == ["awake"]


async def test_two_processes_share_what_is_left(shop: Shop) -> None:
    names = [str(number) for number in range(12)]
    left = await shop.left(*names)
    async with shop.recovering() as one, shop.recovering():
        for goal_id in left:
            await become(one, goal_id, "done")
    assert sorted(CALLS, key=int) == names


async def test_a_goal_whose_code_is_unknown_is_paused_for_a_minute_and_logged_once(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (goal_id,) = await shop.left("a")
    monkeypatch.delitem(registry._FLOWS, counting.path)
    monkeypatch.setattr(f"{__name__}.counting", None)
    with caplog.at_level(logging.WARNING, "perdure.app.workers.background"):
        async with shop.recovering() as p:
            worker = p.goals.worker
            await until(lambda: f"resuming {goal_id} failed: " in caplog.text)
            assert 50 < (worker._failures.patience_s(goal_id) or 0) <= 60
            await worker._claim_goals()
            assert not worker.is_busy
            worker._failures.retry_now(goal_id)  # as a minute later
            await worker._claim_goals()
            await until(lambda: worker._failures.patience_s(goal_id) is not None)
            assert (await p.goals.get(goal_id)).status == "interrupted"
    assert caplog.text.count(f"resuming {goal_id} failed: ") == 1
    assert CALLS == []


async def test_a_goal_that_a_caller_runs_here_is_not_claimed_again(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    async def held() -> None:
        begun.set()
        await gate.wait()

    @flow
    async def holding(goal: Goal) -> str:
        await goal.step(held)
        return "held"

    async with shop.recovering() as p:
        running = asyncio.create_task(p.goals.run(holding))
        await begun.wait()
        goal = (await p.goals.list())[0]
        worker = p.goals.worker
        assert not worker._can_be_tried(goal)
        gate.set()
        assert (await running).value == "held"
    assert f"resuming {goal.id} failed" not in caplog.text


@pytest.mark.parametrize("kind", [Unavailable, RuntimeError])
async def test_polling_that_fails_is_logged_once_and_works_again_later(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    polled = 0

    async def fail(*_args: object, **_kwargs: object) -> Any:
        nonlocal polled
        polled += 1
        raise kind("The database does not answer.")

    async with shop.recovering() as p:
        with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "perdure.app.workers.background"):
            patched.setattr(GoalQueues, "claim_next", fail)

            def nudged() -> bool:
                p.goals.worker.poll_soon()
                return polled >= 3

            await until(nudged)
        assert caplog.text.count("The database does not answer.") == 1
        (goal_id,) = await shop.left("a")
        await become(p, goal_id, "done")


@pytest.mark.parametrize("queue", ["cli", "server"])
async def test_a_goal_of_an_application_stays_in_its_queue_when_others_run_it(shop: Shop, queue: str) -> None:
    async with shop.open() as p:
        goal_id = (await parked(p.goals.run(asking))).id
        await p.goals.resume_run(goal_id, RunOptions(queue=queue))
        assert (await p.goals.get(goal_id)).summary.queue == f"app.{shop.name}"
        await p.goals.enqueue_again(goal_id, Limits(iterations=50), queue=queue)
        assert (await p.goals.get(goal_id)).summary.queue == f"app.{shop.name}"


async def test_a_home_stops_being_a_worker_when_its_background_cannot_be_closed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> None:
        raise RuntimeError("the driver is broken")

    async with shop.open() as p:
        await p.goals.run(counting, "a")
        with monkeypatch.context() as patched:
            patched.setattr(p.goals.worker, "close", broken)
            with pytest.raises(RuntimeError):
                await p.goals.close()
        assert p.goals._runner.process.id is None


async def test_a_background_resume_that_cannot_load_its_code_is_logged(
    shop: Shop, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_given: object, **_options: object) -> None:
        raise NotFound("No flow of this name is known.")

    async with shop.open() as p:
        goal_id = (await parked(p.goals.options(key="k").run(asking))).id
        with monkeypatch.context() as patched:
            patched.setattr(p.goals._runner.contexts, "make", missing)
            await p.goals.options(key="k").start(asking)
            await until(lambda: f"resuming {goal_id} failed: " in caplog.text)
