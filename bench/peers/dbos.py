"""Steps of a DBOS workflow, with its system database in SQLite."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"
# (it is installed only where this program runs)

import json
import os
import sys
import time
from importlib.metadata import version

from dbos import DBOS

from bench.peers.step import payload


def main(folder: str, n: int) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{folder}/goals.db",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )

    @DBOS.step()
    def one_step(number: int) -> dict[str, object]:
        return payload(number)

    @DBOS.workflow()
    def goal(steps: int) -> float:
        start = time.perf_counter()
        for number in range(steps):
            one_step(number)
        return time.perf_counter() - start

    DBOS.launch()
    spent = goal(n)
    print(json.dumps({"version": version("dbos"), "step_us": spent / n * 1e6}), flush=True)
    os._exit(0)  # its threads have nothing more to do


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
