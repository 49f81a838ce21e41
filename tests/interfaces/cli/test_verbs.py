"""`perdure goal signal | fork | diff | export | watch | delete`, called in this process."""

import errno
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from perdure import failpoints
from tests.interfaces.cli.terminal import Screen, Terminal
from tests.test_docs import ROOT, blocks

PLAN = """
goal: publish
steps:
  - {id: fetch, exec: "echo fetched"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, exec: "sh -c 'echo $PERDURE_OUT_SURE'", needs: [sure]}
"""
FLOW = """
from perdure import flow

@flow
async def waits(goal):
    return [await goal.signal("paid"), await goal.signal("paid")]
"""


@pytest.fixture
def asking(perdure: Terminal) -> str:
    """A plan that waits for an answer: events 1 to 4."""
    Path("plan.yaml").write_text(PLAN)
    assert perdure("run", "--plan", "plan.yaml") == 5
    return perdure.newest()


@pytest.fixture
def answered(perdure: Terminal, asking: str) -> str:
    """The same, answered and done."""
    assert perdure("goal", "answer", asking, "yes", "--resume") == 0
    return asking


@pytest.fixture
def waiting(perdure: Terminal, monkeypatch: pytest.MonkeyPatch) -> str:
    """A flow that waits for two signals."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Path("waiting_flow.py").write_text(FLOW)
    assert perdure("run", "--flow", "waiting_flow:waits") == 5
    return perdure.newest()


def test_a_signal_is_reported_by_the_command_that_is_shown_and_its_payload_is_json(
    perdure: Terminal, waiting: str
) -> None:
    perdure("goal", "show", waiting)
    assert f"  perdure goal signal {waiting} paid JSON --resume\n" in perdure.out
    assert perdure("goal", "signal", waiting, "paid", '{"eur": 3}') == 0
    assert perdure.out == f"Recorded.\nResume it where it stopped.\n  perdure goal resume {waiting}\n"
    assert perdure("goal", "signal", waiting, "paid", "--resume") == 0
    assert perdure.out == '[{"eur": 3}, null]\n'


def test_a_signal_with_the_same_key_is_reported_once_also_after_the_end(perdure: Terminal, waiting: str) -> None:
    for _ in range(2):
        assert perdure("goal", "signal", waiting, "paid", "1", "--key", "a") == 0
    assert perdure.goals()[0]["last_seq"] == 3
    assert perdure("goal", "signal", waiting, "paid", "2", "--key", "b", "--resume") == 0
    assert perdure.out == "[1, 2]\n"
    assert perdure("goal", "signal", waiting, "paid", "2", "--key", "b") == 0
    assert perdure.out == f"{waiting} already has a request with this key; nothing was changed.\n"
    assert perdure("goal", "signal", waiting, "paid", "3", "--key", "b") == 4
    assert perdure("goal", "signal", waiting, "paid") == 4


@pytest.mark.parametrize("payload", ["{", "yes", ""])
def test_a_payload_that_is_no_json_is_refused(perdure: Terminal, waiting: str, payload: str) -> None:
    assert perdure("goal", "signal", waiting, "paid", payload) == 2
    assert perdure("goal", "signal", waiting, "") == 2
    for key in ("", "k" * 201, "\udcff"):
        assert perdure("goal", "signal", waiting, "paid", "--key", key) == 2
        assert "A key" in perdure.err
    assert perdure.goals()[0]["last_seq"] == 2


def test_a_fork_goes_another_way_and_says_where_it_came_from(perdure: Terminal, answered: str) -> None:
    assert perdure("goal", "fork", answered, "--at", "3") == 0
    said = perdure.out
    fork = perdure.newest()
    assert said == f"{fork} continues from event 3 of {answered}.\nRun the fork.\n  perdure goal resume {fork}\n"
    assert perdure.goals()[0]["forked_from"] == {"goal_id": answered, "seq": 3}
    assert perdure("run", "--resume", fork) == 5
    assert f"It is a fork of {answered} at event 3." in perdure.err
    assert perdure("goal", "answer", fork, "no", "--resume") == 0
    assert perdure.out == "no\n"
    for verb in ("show", "replay"):
        assert perdure("goal", verb, fork) == 0
        assert f"fork of {answered} at event 3" in perdure.out.replace("  ", " ")
    assert perdure("goal", "watch", fork) == 0
    assert f"goal {fork}: forked from {answered} at event 3" in perdure.err
    assert perdure("goal", "replay", answered) == 0


def test_a_fork_may_be_run_at_once_and_be_forked_again(perdure: Terminal, answered: str) -> None:
    assert perdure("goal", "fork", answered, "--at", "4", "--resume") == 5
    fork = perdure.newest()
    assert perdure.json("goal", "fork", fork, "--at", "5")["forked_from"] == {"goal_id": fork, "seq": 5}
    assert perdure("goal", "replay", perdure.newest()) == 0


def test_what_a_fork_repeats_is_broken_between_words_on_a_terminal(
    perdure: Terminal, answered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr", screen := Screen())
    assert perdure("goal", "fork", answered, "--before", "fetch") == 0
    assert screen.lines == [f"fetch, send were done in {answered} and", "will be done again."]


def test_a_fork_is_made_by_a_step_and_says_what_it_repeats(perdure: Terminal, answered: str) -> None:
    assert perdure("goal", "fork", answered, "--before", "sure") == 0
    assert "oid" not in perdure.out
    assert perdure.err == f"send was done in {answered} and will be done again.\n"
    assert perdure.goals()[0]["forked_from"] == {"goal_id": answered, "seq": 3}
    assert perdure("goal", "fork", answered, "--at", "2") == 4
    assert "add --repeat fetch. Or fork with --after fetch, which does send again." in perdure.err
    assert len(perdure.goals()) == 2
    assert perdure("goal", "fork", answered, "--at", "2", "--repeat", "fetch") == 0
    assert "\nVoid, and called again in the fork: fetch.1 (once)\n" in perdure.out
    assert perdure.err == f"fetch, send were done in {answered} and will be done again.\n"
    assert perdure.json("goal", "fork", answered, "--at", "4")["voided"] == ["sure.1"]
    assert perdure("goal", "fork", answered, "--before", "fetch") == 0
    assert perdure.err == f"fetch, send were done in {answered} and will be done again.\n"
    assert perdure.json("goal", "fork", answered, "--before", "fetch")["done_again"] == ["fetch", "send"]
    assert perdure("goal", "fork", answered, "--at", "2", "--repeat", "fetch", "--resume") == 5
    assert "Void, and called again in the fork: fetch.1 (once)\n" in perdure.err


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ([], 2),
        (["--before", "sure", "--at", "3"], 2),
        (["--before", "refund"], 3),
        (["--before", ""], 2),
        (["--at", "3", "--repeat", "fetch"], 2),
        (["--at", "3", "--take-key"], 2),
    ],
    ids=str,
)
def test_a_fork_that_is_invalid_is_refused(perdure: Terminal, answered: str, place: list[str], code: int) -> None:
    assert perdure("goal", "fork", answered, *place) == code
    assert len(perdure.goals()) == 1


def test_a_run_with_the_key_finds_the_fork_that_has_taken_it(perdure: Terminal) -> None:
    Path("plan.yaml").write_text(PLAN)
    command = ["run", "--plan", "plan.yaml", "--key", "k"]
    assert perdure(*command) == 5
    goal = perdure.newest()
    assert perdure("goal", "fork", goal, "--before", "fetch", "--take-key") == 0
    assert f"It has the start key of {goal}.\n" in perdure.out
    fork = perdure.newest()
    assert perdure(*command) == 5
    assert perdure.newest() == fork
    assert [perdure.json("goal", "show", each)["key"] for each in (goal, fork)] == [None, "k"]


@pytest.mark.parametrize(("at", "code"), [("0", 2), ("-1", 2), ("x", 2), ("8", 4), ("9", 4), ("999", 4)])
def test_a_fork_lies_on_an_event_before_the_end(perdure: Terminal, answered: str, at: str, code: int) -> None:
    before = perdure.goals()
    assert before[0]["last_seq"] == 8
    assert perdure("goal", "fork", answered, "--at", at) == code
    assert perdure.goals() == before


def test_two_runs_of_the_same_are_the_same_and_end_with_zero(perdure: Terminal) -> None:
    perdure("run", "--", "echo", "hello")
    perdure("run", "--", "echo", "hello")
    one, two = (goal["id"] for goal in perdure.goals())
    assert perdure("goal", "diff", one, two) == 0
    assert perdure.out == f"{one} and {two} have the same 4 events.\n"
    assert perdure.json("goal", "diff", one, two)["is_same"] is True


def test_where_two_histories_part_is_shown_side_by_side_and_ends_with_one(perdure: Terminal, answered: str) -> None:
    perdure("goal", "fork", answered, "--at", "4")
    fork = perdure.newest()
    perdure("run", "--resume", fork)
    perdure("goal", "answer", fork, "no", "--resume")
    assert perdure("goal", "diff", answered, fork) == 1
    assert f"{answered} and {fork} are the same up to event 4.\n" in perdure.out
    assert f"{fork} is a fork of {answered} at event 4." in perdure.out
    assert re.search(r'^5 +answer sure.1: "yes" +6 +ask sure.1: "Publish\?"$', perdure.out, re.MULTILINE)
    found = perdure.json("goal", "diff", fork, answered)
    assert (found["common"], found["left"]["id"]) == (4, fork)
    assert [event["type"] for event in found["right"]["events"]][-1] == "termination"
    assert perdure("goal", "diff", answered, "nothing") == 3


def test_an_export_has_every_event_and_the_hashes_fit_by_the_lines_of_the_page(
    perdure: Terminal, asking: str, ready: Path
) -> None:
    perdure("goal", "fork", asking, "--at", "4", "--resume")
    perdure("run", "--", "printf", 'ä \\033 \\177 \\342\\200\\250 "')
    (program,) = blocks((ROOT / "docs/how-to/export-a-history.md").read_text(), "python")
    for goal in [goal["id"] for goal in perdure.goals()]:
        file = ready / f"{goal}.jsonl"
        assert perdure("goal", "export", goal, "--output", str(file)) == 0
        assert perdure("goal", "export", goal) == 0
        assert file.read_text() == perdure.out
        told = perdure.json("goal", "export", goal)
        assert "".join(f"{line}\n" for line in told["lines"]) == file.read_text()
        assert verified(program, file) == f"{told['events']} events, last hash {told['last_hash']}\n"
        file.write_text(file.read_text().replace('"goal"', '"Goal"', 1))
        assert verified(program, file) == "Event 1 is not as it was written.\n"


def verified(program: str, file: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("at", ["x", "0", "-1", "1.5", "²"])
def test_a_fork_at_what_is_no_number_says_what_is_expected(perdure: Terminal, answered: str, at: str) -> None:
    assert perdure("goal", "fork", answered, f"--at={at}") == 2
    assert "--at must be the seq of an event" in perdure.err


def test_an_export_replaces_no_file_unless_it_is_forced_to(perdure: Terminal, asking: str, ready: Path) -> None:
    file = ready / "history.jsonl"
    file.write_text("mine")
    assert perdure("goal", "export", asking, "-o", str(file)) == 4
    assert "or use --force" in perdure.err
    assert file.read_text() == "mine"
    assert perdure("goal", "export", asking, "-o", str(file), "--force") == 0
    assert len(file.read_text().splitlines()) == 4
    assert perdure("goal", "export", asking, "-o", str(ready), "--force") == 4
    assert perdure("goal", "export", asking, "-o", str(ready / "no" / "where")) == 1
    assert sorted(path.name for path in ready.iterdir()) == ["history.jsonl", "plan.yaml"]


def test_an_export_that_finds_no_room_leaves_what_was_there(perdure: Terminal, asking: str, ready: Path) -> None:
    def find_no_room() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = ready / "history.jsonl"
    file.write_text("mine")
    with failpoints.armed("files.fsync.before", find_no_room):
        assert perdure("goal", "export", asking, "-o", str(file), "--force") == 8
    assert file.read_text() == "mine"
    assert sorted(path.name for path in ready.iterdir()) == ["history.jsonl", "plan.yaml"]


def test_a_payload_is_exported_as_it_is_stored(perdure: Terminal) -> None:
    perdure("run", "--", "echo", "hello")
    with closing(sqlite3.connect(Path(os.environ["PERDURE_HOME"]) / "perdure.db")) as plain:
        stored = [row[0] for row in plain.execute("SELECT payload FROM events ORDER BY seq")]
    perdure("goal", "export", "20")
    found = [line.partition('"payload":')[2].rpartition(',"hash":')[0] for line in perdure.out.splitlines()]
    assert found == stored


def test_a_caller_that_watches_a_goal_that_has_ended_sees_it_all_and_its_exit_code(perdure: Terminal) -> None:
    perdure("run", "--", "sh", "-c", "echo out; exit 3")
    assert perdure("goal", "watch", "20") == 1
    assert perdure.out == "out\n"
    assert "failed: exit 3" in perdure.err
    assert perdure("goal", "watch", "20", "--jsonl", "--after", "2") == 1
    assert [event["seq"] for event in perdure.events] == [3, 4]
    assert perdure.json("goal", "watch", "20")["reason"] == "failed"
    assert perdure("goal", "watch", "20", "--jsonl", "--json") == 2
    assert perdure("goal", "watch", "nothing") == 3


def test_only_a_finished_goal_without_forks_is_deleted(perdure: Terminal, asking: str) -> None:
    assert perdure("goal", "delete", asking, "--yes") == 4
    perdure("goal", "fork", asking, "--at", "3")
    fork = perdure.newest()
    for goal in (asking, fork):
        perdure("goal", "cancel", goal)
    assert perdure("goal", "delete", asking, "--yes") == 4
    assert fork in perdure.err
    assert perdure("goal", "delete", fork, "--yes") == 0
    assert perdure.json("goal", "delete", asking, "--yes") == {"id": asking, "deleted": True}
    assert perdure.goals() == []
    assert perdure("goal", "show", asking) == 3


@pytest.mark.parametrize("flags", [[], ["--no-input"], ["--json"]])
def test_where_no_person_can_be_asked_nothing_is_deleted_without_yes(perdure: Terminal, flags: list[str]) -> None:
    perdure("run", "--", "true")
    assert perdure("goal", "delete", perdure.newest(), *flags) == 4
    assert len(perdure.goals()) == 1
