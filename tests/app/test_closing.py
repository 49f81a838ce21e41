"""A home that is closed while goals run: they are interrupted and released, and their callers are told."""

import asyncio
import logging
from pathlib import Path

import pytest

from perdure import Perdure, Unavailable, flow
from perdure.app import open_ephemeral
from perdure.app.goals.goals import Goals

_begun: list[asyncio.Event] = []
_cleaned_up: list[str] = []


async def _last_long() -> None:
    _begun[0].set()
    try:
        await asyncio.sleep(60)
    finally:
        _cleaned_up.append("step")


@flow(name="closing_long")
async def long(goal) -> None:  # type: ignore[no-untyped-def]  # as users write it
    await goal.step(_last_long)


@pytest.fixture(autouse=True)
def begun() -> asyncio.Event:
    _begun[:], _cleaned_up[:] = [asyncio.Event()], []
    return _begun[0]


async def _until_begun(goals: Goals, begun: asyncio.Event, count: int) -> None:
    async with asyncio.timeout(20):
        await begun.wait()
        while sum(goal.is_running for goal in await goals.list()) < count:  # noqa: ASYNC110 (the store has no event)
            await asyncio.sleep(0.01)


async def test_runs_are_interrupted_and_released_before_the_database_is_closed(
    tmp_path: Path, database_url: str, begun: asyncio.Event, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    with caplog.at_level(logging.WARNING):
        async with Perdure.open(home, database_url=database_url) as p:
            runs = [asyncio.create_task(p.goals.run(each)) for each in (long, ["sleep", "60"])]
            await _until_begun(p.goals, begun, 2)
        assert all(run.done() for run in runs)
    for run in runs:
        with pytest.raises(Unavailable, match="was interrupted because the home was closed.*goal resume"):
            await run
    assert _cleaned_up == ["step"]
    assert [record.getMessage() for record in caplog.records] == []
    async with Perdure.open(home, database_url=database_url) as p:
        found = await p.goals.list()
        assert {goal.status for goal in found} == {"interrupted"}
        assert {goal.summary.worker for goal in found} == {None}


async def test_runs_in_memory_are_ended_too(begun: asyncio.Event) -> None:
    async with open_ephemeral() as goals:
        run = asyncio.create_task(goals.run(long))
        await _until_begun(goals, begun, 1)
    with pytest.raises(Unavailable, match="home was closed"):
        await run
    assert _cleaned_up == ["step"]
