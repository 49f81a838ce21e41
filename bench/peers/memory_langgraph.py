"""LangGraph: items of its SqliteStore, as it opens a file by itself."""

# mypy: disable-error-code="import-not-found"
# (it is installed only where this program runs)

import json
import sqlite3
from contextlib import nullcontext
from typing import Any

from langgraph.store.sqlite import SqliteStore

from bench.peers.program import Asked, run
from bench.peers.remembering import Add, adds, fill, find, lost, refused, together

_SPACE = ("memory",)


def _store(asked: Asked) -> Any:
    connection = sqlite3.connect(f"{asked.folder}/store.db", check_same_thread=False, isolation_level=None)
    store = SqliteStore(connection)
    store.setup()
    return store


def _adding(store: Any) -> Add:
    def add(record: dict[str, Any]) -> None:
        store.put(_SPACE, record["id"], record)

    return add


def _adds(asked: Asked) -> float:
    return adds(asked, _adding(_store(asked)))


def _together(asked: Asked) -> set[str]:
    _store(asked).conn.close()
    return together(asked, lambda: nullcontext(_adding(_store(asked))))


def _lost(asked: Asked) -> float:
    told = _together(asked)
    rows = sqlite3.connect(f"{asked.folder}/store.db").execute("SELECT value FROM store").fetchall()
    return lost(told, {json.loads(value)["id"] for (value,) in rows})


def _refused(asked: Asked) -> float:
    return refused(asked, _together(asked))


def _fill(asked: Asked) -> None:
    fill(asked, _adding(_store(asked)))


def _find(asked: Asked) -> float:
    store = _store(asked)
    return find(asked, lambda record: len(store.search(_SPACE, filter={"fingerprint": record["fingerprint"]})))


if __name__ == "__main__":
    run(
        {"adds": _adds, "lost": _lost, "refused": _refused, "fill": _fill, "find": _find},
        "langgraph langgraph-checkpoint-sqlite",
    )
