"""Each example is killed with SIGKILL again and again, beside each of its effects, and has each of them once."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from perdure.interfaces.cli.errors import run as perdure
from tests.examples.killer import Death, run_until

BOTH: tuple[Literal["before", "after"], ...] = ("before", "after")
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, migrated_sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own, beside a home whose database is there already."""
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, tmp_path / "home" / "perdure.db")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    yield folder
    with closing(sqlite3.connect(tmp_path / "home" / "perdure.db")) as connection:
        goal_ids = [goal_id for (goal_id,) in connection.execute("SELECT id FROM goals")]
    assert [perdure(["goal", "replay", goal_id]) for goal_id in goal_ids] == [0] * len(goal_ids), "they are whole"


def killed(when: Literal["before", "after"], effect: int, name: str, example: str, *arguments: str) -> bool:
    """Run an example until its nth effect on files of that name in this run; tell whether it came to that."""
    return run_until(Death(when, effect, name), EXAMPLES / example, *arguments)


def run(example: str, *arguments: str) -> str:
    """Run an example to its end, as a person does."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_journey_that_cannot_be_booked_is_undone_once_however_often_it_is_killed(work: Path) -> None:
    kills = [killed(when, 1, "ledger", "saga.py", "Nowhere") for when in (*BOTH, *BOTH, *BOTH, *BOTH)]
    assert sum(kills) >= 4
    assert ": done undone, because there is no car in Nowhere\n" in run("saga.py", "Nowhere")
    assert (work / "ledger.txt").read_text().splitlines() == [
        "book flight Nowhere",
        "book hotel Nowhere",
        "undo hotel Nowhere",
        "undo flight Nowhere",
    ]


def test_a_journey_that_can_be_booked_is_booked_once(work: Path) -> None:
    assert killed("after", 2, "ledger", "saga.py", "Lisbon")
    assert run("saga.py", "Lisbon").endswith(": done booked flight, hotel, car\n")
    assert (work / "ledger.txt").read_text() == "book flight Lisbon\nbook hotel Lisbon\nbook car Lisbon\n"
    assert run("saga.py", "Lisbon").endswith(": done booked flight, hotel, car\n")


def test_a_report_is_written_approved_and_sent_once(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    day = ("nightly_report.py", "2026-11-15")
    assert killed("before", 1, "report", *day)
    assert killed("after", 1, "report", *day)
    asked = run(*day)
    assert ": waiting" in asked
    assert perdure(asked.split("then: perdure ")[1].split()) == 0
    assert not (work / "outbox.txt").exists()
    assert killed("before", 1, "outbox", *day)
    assert killed("after", 1, "outbox", *day)
    assert run(*day).endswith(": done sent report-2026-11-15.json\n")
    assert (work / "outbox.txt").read_text() == "report-2026-11-15.json\n"
    assert "Traceback" not in capsys.readouterr().err


def test_a_checkout_is_approved_charged_and_shipped_once(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = str(work / "ledger")
    assert [killed(when, 1, ledger, "checkout.py") for when in BOTH] == [True, True], "it reserves"
    goal_id, *asked = run("checkout.py").split()
    assert " ".join(asked).startswith("waits for a person: 'Approve 104.40 for 17?' (yes, no), until ")
    assert perdure(["goal", "answer", goal_id, "yes"]) == 0
    assert [killed(when, 1, ledger, "checkout.py") for when in BOTH] == [True, True], "it charges"
    assert killed("before", 1, ledger, "checkout.py"), "its child ships"
    assert killed("after", 1, ledger, "checkout.py")
    receipt = "Receipt(order='17', paid=Decimal('104.40'), parcel='parcel-17')\n"
    assert run("checkout.py") == receipt
    *reserved, charged, sent = (work / "ledger.txt").read_text().splitlines()
    assert sorted(line.split()[-1] for line in reserved) == ["bulb", "lamp"]
    assert [charged, sent] == ["charge 17 104.40", "parcel 17"]
    assert "Traceback" not in capsys.readouterr().err


def test_each_of_a_hundred_items_is_measured_once(work: Path) -> None:
    assert killed("before", 1, "results", "fan_out.py")
    assert killed("after", 30, "results", "fan_out.py")
    killed("before", 20, "results", "fan_out.py")  # unless the death before was so late that less is left
    assert run("fan_out.py").endswith(f": done {sum(item * item for item in range(100))}\n")
    results = {path.name: path.read_text() for path in (work / "results").iterdir()}
    assert results == {f"{item}.txt": "measured\n" for item in range(100)}


@pytest.mark.parametrize("example", ["nightly_report.py", "saga.py"])
def test_an_example_that_needs_an_argument_says_so(example: str) -> None:
    run("fan_out.py")
    done = subprocess.run([sys.executable, EXAMPLES / example], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith("Usage: python ")) == (1, True)
