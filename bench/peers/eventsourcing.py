"""eventsourcing: steps as events of an aggregate, in its SQLite or PostgreSQL store; it has no list of aggregates."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import NAMESPACE_URL, UUID, uuid5

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.peers.program import GOALS, WARM, Asked, per_second, run, since_start_ms, us_each
from bench.peers.step import payload

_NAME = "resumed"


class Goal(Aggregate):
    """A goal that only counts its steps."""

    @event("Begun")
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    @staticmethod
    def create_id(name: str) -> UUID:
        """Name the aggregate; the library calls it."""
        return uuid5(NAMESPACE_URL, name)

    @event("Stepped")
    def step(self, body: dict[str, Any]) -> None:  # noqa: ARG002 (the event keeps it)
        self.count += 1


def _opened(asked: Asked) -> Any:
    settings = {
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": f"{asked.folder}/goals.db",
        "SQLITE_LOCK_TIMEOUT": "60",
    }
    if asked.url is not None:
        parts = urlsplit(asked.url)
        settings = {
            "PERSISTENCE_MODULE": "eventsourcing.postgres",
            "POSTGRES_DBNAME": parts.path.strip("/"),
            "POSTGRES_HOST": parse_qs(parts.query)["host"][0],
            "POSTGRES_PORT": "5432",
            "POSTGRES_USER": parts.username or "",
            "POSTGRES_PASSWORD": "none",
        }
    return Application(settings)


def _work(app: Any, name: str, steps: int) -> None:
    goal = Goal(name)
    app.save(goal)
    for number in range(steps):
        goal.step(payload(number))
        app.save(goal)


def _steps(asked: Asked) -> float:
    app = _opened(asked)
    _work(app, f"warm-{time.time_ns()}", WARM)
    start = time.perf_counter()
    _work(app, f"goal-{time.time_ns()}", asked.n)
    return us_each(start, asked.n)


def _many(asked: Asked) -> float:
    app = _opened(asked)
    _work(app, "warm", WARM)
    start = time.perf_counter()
    threads = [threading.Thread(target=_work, args=(app, f"goal-{number}", asked.n)) for number in range(GOALS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return per_second(start, GOALS * asked.n)


def _prepare(asked: Asked) -> None:
    app = _opened(asked)
    goal = Goal(_NAME)
    for number in range(asked.n):
        goal.step(payload(number))
    app.save(goal)


def _resume(asked: Asked) -> float:
    app = _opened(asked)
    goal = app.repository.get(Goal.create_id(_NAME))
    goal.step(payload(goal.count))
    app.save(goal)
    return since_start_ms()


def _cold(asked: Asked) -> float:
    _work(_opened(asked), f"cold-{time.time_ns()}", 1)
    return since_start_ms()


if __name__ == "__main__":
    run({"steps": _steps, "many": _many, "prepare": _prepare, "resume": _resume, "cold": _cold}, "eventsourcing")
