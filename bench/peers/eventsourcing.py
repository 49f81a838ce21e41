"""Steps as events of an aggregate of `eventsourcing`, in its SQLite store."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import json
import sys
import time
from importlib.metadata import version

from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.peers.step import payload


class Goal(Aggregate):
    """A goal that only counts its steps."""

    @event("Begun")
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    @event("Stepped")
    def step(self, body: dict[str, object]) -> None:  # noqa: ARG002 (the event keeps it)
        self.count += 1


def main(folder: str, n: int) -> None:
    settings = {"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": f"{folder}/goals.db"}
    app: Application = Application(settings)
    goal = Goal("goal")
    app.save(goal)
    start = time.perf_counter()
    for number in range(n):
        goal.step(payload(number))
        app.save(goal)
    spent = time.perf_counter() - start
    print(json.dumps({"version": version("eventsourcing"), "step_us": spent / n * 1e6}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
