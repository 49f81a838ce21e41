"""All drafts of a home that has many, and a page of them, beside the same query through the driver alone."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median

from bench.measure import scratch
from bench.table import Target, Timed
from perdure import DatabaseClient
from perdure.forge.drafts import encode_draft
from perdure.forge.interview.interview import start_interview
from perdure.forge.state import InterviewContext
from perdure.store.builder.drafts import SqlBuilderDraftStore

_DRAFTS = 10_000
_PAGE = 50
_QUERY = (
    "SELECT session_id, initial_description, phase, mode, revision, updated_at FROM builder_drafts"
    " ORDER BY updated_at DESC, session_id DESC LIMIT ?"
)


def measure(repeats: int) -> list[Timed]:
    with scratch() as home:
        path = home / "perdure.db"
        asyncio.run(_make(path))
        floors, ours = asyncio.run(_listed(path, repeats))
    return [
        Timed(f"{_PAGE} of {_DRAFTS:,} drafts, store", floors[0], ours[0], "ms", Target("value", "≤", 5)),
        Timed(f"all of {_DRAFTS:,} drafts, store", floors[1], ours[1], "ms", Target("value", "≤", 100)),
    ]


async def _make(path: Path) -> None:
    """Make drafts with states as long as those of real interviews."""
    draft = encode_draft(start_interview("s", "a timer for pasta", InterviewContext(models=("m" * 40,) * 60)))
    values = [replace(draft, session_id=f"{number:036}") for number in range(_DRAFTS)]
    async with await DatabaseClient.create(path):
        pass
    connection = sqlite3.connect(path)
    connection.executemany(
        "INSERT INTO builder_drafts (session_id, schema_version, revision, initial_description, phase, mode,"
        " question_count, created_at, updated_at, state_json) VALUES (?, 1, 1, ?, ?, ?, 0, ?, ?, ?)",
        (
            (each.session_id, each.initial_description, str(each.phase), str(each.mode), at, at, each.state_json)
            for at, each in enumerate(values)
        ),
    )
    connection.commit()
    connection.close()


async def _listed(path: Path, repeats: int) -> tuple[list[float], list[float]]:
    connection = sqlite3.connect(path)
    floors, ours = [], []
    async with await DatabaseClient.create(path) as db:
        store = SqlBuilderDraftStore(db)
        for limit in (_PAGE, _DRAFTS):
            raw, own = [], []
            for _ in range(repeats * 5):
                raw.append(_timed_ms(partial(_rows, connection, limit)))
                start = time.perf_counter()
                found = await store.list_drafts(limit=limit)
                own.append((time.perf_counter() - start) * 1e3)
            if len(found) != limit:
                raise RuntimeError(f"{len(found)} drafts were listed, not {limit}")
            floors.append(median(raw))
            ours.append(median(own))
    connection.close()
    return floors, ours


def _rows(connection: sqlite3.Connection, limit: int) -> list[object]:
    return connection.execute(_QUERY, (limit,)).fetchall()


def _timed_ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3
