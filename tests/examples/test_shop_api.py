"""The web shop of the examples, under uvicorn: killed in a step, it finishes its orders when it is started again."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.interfaces.cli.errors import run as perdure

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
PATIENCE_S = 60.0
ORDER = {"id": "7", "item": "lamp"}


@contextmanager
def served(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
    """Serve the shop from a folder, until it was killed or the block ends."""
    words = ["-m", "uvicorn", "shop_api:app", "--app-dir", str(EXAMPLES), "--port", "0"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    server = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert server.stderr is not None
    with server.stderr:
        try:
            found = next(match for line in server.stderr if (match := re.search(r"running on (http://[\d.:]+)", line)))
            with httpx.Client(base_url=found[1], timeout=PATIENCE_S) as client:
                yield server, client
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "it was waited for in vain"
        time.sleep(0.01)


def order(client: httpx.Client, goal_id: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/orders/{goal_id}").raise_for_status().json()
    return found


def test_an_order_is_finished_after_a_kill_and_each_effect_happens_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.txt"
    with served(tmp_path) as (server, client):
        accepted = client.post("/orders", json=ORDER)
        assert accepted.status_code == 202, accepted.text
        goal_id = accepted.json()["id"]
        assert client.post("/orders", json=ORDER).json() == {"id": goal_id}
        until(ledger.exists)
        assert order(client, goal_id) == {"id": goal_id, "status": "running"}
        server.send_signal(signal.SIGKILL)
        assert server.wait(PATIENCE_S) == -signal.SIGKILL
    assert ledger.read_text() == "charge 7\n", "it was killed while it packed"
    with served(tmp_path) as (_server, client):
        until(lambda: order(client, goal_id)["status"] == "done")
        assert order(client, goal_id)["value"] == "lamp is on its way"
        assert client.get("/orders/nothing").status_code == 404
        assert client.post("/orders", json=ORDER).json() == {"id": goal_id}
    assert ledger.read_text() == "charge 7\npack 7\nship 7\n"
    assert perdure(["goal", "replay", goal_id]) == 0, capsys.readouterr().err
