"""DBOS: steps of a workflow, its system database in SQLite or PostgreSQL."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import os
import sqlite3
import time
from typing import Any

from dbos import DBOS, SetWorkflowID

from bench.peers.program import GOALS, PAGE, WARM, Asked, NewSteps, list_ms, per_second, run, tell_and_die, us_each
from bench.peers.step import payload

_PACKAGE = "dbos"
_NEW = NewSteps()
_KEY = "resumed"
_ENDLESS = 10**9
_REALLY = 1000
"""So many steps of a long history are really done; the others are copies of their rows, which would take minutes."""
_PATIENCE_S = 100


@DBOS.step()
def search(number: int) -> dict[str, Any]:
    """Do a step."""
    _NEW.begins(_PACKAGE, number)
    return payload(number)


@DBOS.workflow()
def searching(steps: int) -> None:
    """Do steps."""
    for number in range(steps):
        search(number)


def _launch(asked: Asked) -> None:
    url = f"sqlite:///{asked.folder}/goals.db"
    if asked.url is not None:
        url = asked.url.replace("postgresql://", "postgresql+psycopg://")
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "run_admin_server": False,
            "application_version": "1",
        }
    )
    DBOS.launch()


def _steps(asked: Asked) -> float:
    _launch(asked)
    searching(WARM)
    start = time.perf_counter()
    searching(asked.n)
    return us_each(start, asked.n)


def _many(asked: Asked) -> float:
    _launch(asked)
    searching(WARM)
    start = time.perf_counter()
    for goal in [DBOS.start_workflow(searching, asked.n) for _ in range(GOALS)]:
        goal.get_result()
    return per_second(start, GOALS * asked.n)


def _prepare(asked: Asked) -> None:
    """Do steps in a process of their own that dies, and copy their rows where more are wanted."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _NEW.dies_at = min(asked.n, _REALLY)
        _launch(asked)
        with SetWorkflowID(_KEY):
            searching(_ENDLESS)
    os.waitpid(child, 0)
    if asked.n > _REALLY:
        _copy_steps(f"{asked.folder}/goals.db", asked.n // _REALLY)


def _copy_steps(path: str, times: int) -> None:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM operation_outputs").fetchone()
        names = [row[1] for row in connection.execute("PRAGMA table_info(operation_outputs)")]
        copied = [f"function_id + {count} * number" if name == "function_id" else name for name in names]
        connection.execute(
            f"INSERT INTO operation_outputs ({', '.join(names)}) SELECT {', '.join(copied)} FROM operation_outputs,"
            " (WITH RECURSIVE numbers (number) AS"
            f" (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {times - 1}) SELECT * FROM numbers)"
        )
    connection.close()


def _resume(asked: Asked) -> None:
    """Wait until the recovery that a launch begins has come to new steps."""
    _NEW.tells_at = 2
    _launch(asked)
    time.sleep(_PATIENCE_S)
    raise RuntimeError(f"it was not recovered in {_PATIENCE_S} s")


def _fill(asked: Asked) -> None:
    _launch(asked)
    searching(1)
    with sqlite3.connect(f"{asked.folder}/goals.db") as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(workflow_status)")]
        changed = {
            "workflow_uuid": "workflow_uuid || '-' || number",
            "created_at": "created_at + number",
            "updated_at": "updated_at + number",
        }
        connection.execute(
            f"INSERT INTO workflow_status ({', '.join(names)})"
            f" SELECT {', '.join(changed.get(name, name) for name in names)} FROM workflow_status,"
            " (WITH RECURSIVE numbers (number) AS"
            f" (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {asked.n}) SELECT * FROM numbers)"
        )
    connection.close()
    tell_and_die(_PACKAGE, None)


def _list(asked: Asked) -> float:
    _launch(asked)
    return list_ms(lambda: len(DBOS.list_workflows(limit=PAGE, sort_desc=True)))


def _cold(asked: Asked) -> None:
    _NEW.tells_at = 2
    _launch(asked)
    searching(WARM)


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
