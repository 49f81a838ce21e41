"""LangGraph: rounds of a graph of one node, with its SQLite or PostgreSQL saver; each is durable before the next.

As it is, the state is the newest step alone, the least that a graph can keep; `--variant all` keeps all steps in it,
as histories of messages do.
"""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import asyncio
import operator
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, TypedDict

from langgraph.errors import GraphRecursionError
from langgraph.graph import END, START, StateGraph

from bench.peers.program import GOALS, PAGE, WARM, Asked, NewSteps, list_ms, per_second, run, us_each
from bench.peers.step import payload

_PACKAGE = "langgraph langgraph-checkpoint-sqlite langgraph-checkpoint-postgres"
_NEW = NewSteps()
_KEY = "resumed"
_ENDLESS = 10**6
_CONNECTIONS = 16


class Newest(TypedDict):
    """The newest step."""

    done: int
    wanted: int
    body: dict[str, Any]


class All(TypedDict):
    """All steps."""

    done: int
    wanted: int
    body: Annotated[list[dict[str, Any]], operator.add]


def _graph(asked: Asked) -> Any:
    keeps_all = asked.variant == "all"

    def search(state: Any) -> dict[str, Any]:
        _NEW.begins(_PACKAGE, state["done"])
        body = payload(state["done"])
        return {"done": state["done"] + 1, "body": [body] if keeps_all else body}

    graph = StateGraph(All if keeps_all else Newest)
    graph.add_node("step", search)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["done"] < state["wanted"] else END)
    return graph


def _thread(name: str, limit: int = _ENDLESS) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}, "recursion_limit": limit}


def _opened(asked: Asked, work: Callable[[Any, Any], float | None]) -> float | None:
    opened: Any
    if asked.url is None:
        from langgraph.checkpoint.sqlite import SqliteSaver

        opened = SqliteSaver.from_conn_string(f"{asked.folder}/goals.db")
    else:
        from langgraph.checkpoint.postgres import PostgresSaver

        opened = PostgresSaver.from_conn_string(asked.url)
    with opened as saver:
        saver.setup()
        return work(_graph(asked).compile(checkpointer=saver), saver)


def _begun(steps: int) -> dict[str, int]:
    return {"done": 0, "wanted": steps}


def _steps(asked: Asked) -> float | None:
    def work(program: Any, _saver: Any) -> float:
        program.invoke(_begun(WARM), _thread("warm"), durability="sync")
        start = time.perf_counter()
        program.invoke(_begun(asked.n), _thread("goal"), durability="sync")
        return us_each(start, asked.n)

    return _opened(asked, work)


def _many(asked: Asked) -> float:
    return asyncio.run(_many_at_once(asked))


async def _many_at_once(asked: Asked) -> float:
    async with _opened_for_many(asked) as saver:
        await saver.setup()
        program = _graph(asked).compile(checkpointer=saver)
        await program.ainvoke(_begun(WARM), _thread("warm"), durability="sync")
        start = time.perf_counter()
        goals = [
            program.ainvoke(_begun(asked.n), _thread(f"goal-{number}"), durability="sync") for number in range(GOALS)
        ]
        await asyncio.gather(*goals)
        return per_second(start, GOALS * asked.n)


@asynccontextmanager
async def _opened_for_many(asked: Asked) -> AsyncIterator[Any]:
    if asked.url is None:
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(f"{asked.folder}/goals.db") as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(
        asked.url, min_size=_CONNECTIONS, max_size=_CONNECTIONS, open=False, kwargs=options
    ) as pool:
        yield AsyncPostgresSaver(pool)


def _prepare(asked: Asked) -> None:
    """End in the middle; where all steps are kept, only the last state is written, or it would be gigabytes."""

    def work(program: Any, saver: Any) -> None:
        saver.conn.execute("PRAGMA synchronous = OFF")
        durability = "exit" if asked.variant == "all" else "sync"
        with suppress(GraphRecursionError):
            program.invoke(_begun(_ENDLESS), _thread(_KEY, asked.n), durability=durability)

    _opened(asked, work)


def _resume(asked: Asked) -> float | None:
    _NEW.tells_at = 2

    def work(program: Any, _saver: Any) -> None:
        program.invoke(None, _thread(_KEY), durability="sync")

    return _opened(asked, work)


def _fill(asked: Asked) -> None:
    def work(program: Any, saver: Any) -> None:
        program.invoke(_begun(1), _thread("goal"), durability="exit")
        saver.conn.execute("PRAGMA synchronous = OFF")
        names = [row[1] for row in saver.conn.execute("PRAGMA table_info(checkpoints)")]
        changed = {
            "thread_id": "thread_id || '-' || number",
            "checkpoint_id": "substr(checkpoint_id, 1, 24) || printf('%012x', number)",
        }
        saver.conn.execute(
            f"INSERT INTO checkpoints ({', '.join(names)})"
            f" SELECT {', '.join(changed.get(name, name) for name in names)} FROM checkpoints,"
            " (WITH RECURSIVE numbers (number) AS"
            f" (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {asked.n}) SELECT * FROM numbers)"
        )
        saver.conn.commit()

    _opened(asked, work)


def _list(asked: Asked) -> float | None:
    def work(_program: Any, saver: Any) -> float:
        return list_ms(lambda: len(list(saver.list(None, limit=PAGE))))

    return _opened(asked, work)


def _cold(asked: Asked) -> float | None:
    _NEW.tells_at = 2

    def work(program: Any, _saver: Any) -> None:
        program.invoke(_begun(WARM), _thread(f"cold-{time.time_ns()}"), durability="sync")

    return _opened(asked, work)


if __name__ == "__main__":
    run(
        {
            "steps": _steps,
            "many": _many,
            "prepare": _prepare,
            "resume": _resume,
            "fill": _fill,
            "list": _list,
            "cold": _cold,
        },
        _PACKAGE,
    )
