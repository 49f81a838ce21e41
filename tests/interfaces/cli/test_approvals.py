"""`perdure goal approve` and `deny`: what a person is shown, and what is stored for the worker that runs the goal."""

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app.home.system import SystemClock, SystemIds, WorkerIdentity
from perdure.interfaces.cli.errors import run
from perdure.kernel.events import GoalBegun, MindSpec, Termination, ToolCall, encode, fingerprint
from perdure.kernel.journal import Journal, JournalDeps
from tests.waiting import waiting_goal, worker_of

CALL = ToolCall("c1", "write", "exec", {"argv": ["rm", "-r", "\x1b[8mhidden"]}, "once")


@pytest.fixture
def goal(ready: Path, tmp_path: Path) -> Iterator[str]:
    """A goal of a model, held by this process, whose first call waits for approval."""
    assert ready.is_dir()
    identity = WorkerIdentity(tmp_path / "home")

    async def begin() -> str:
        async with Perdure.open() as p:
            clock, store = SystemClock(), p.database.state_store()
            await p.database.leases(boottime_s=clock.boottime_s, is_dead=lambda _name: False).renew(identity.worker, 60)
            ids = SystemIds()
            begun = GoalBegun("tidy up", MindSpec("model"), workdir=str(ready))
            journal = Journal.begin(JournalDeps(store, clock, ids, identity.worker), begun, ids.goal_id("tidy up"))
            journal.record(CALL, is_decision=True)
            await journal.commit()
            return journal.goal_id

    yield asyncio.run(begin())
    identity.close()


def pending(goal: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(["goal", "show", goal, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["pending"]
    return found


def test_an_approval_shows_what_will_be_run_and_is_stored_with_its_hash(
    goal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["goal", "approve", goal]) == 0
    said = capsys.readouterr()
    assert said.out == f"Stored for the worker that runs {goal}.\n"
    assert "c1: exec, once" in said.err
    assert '"rm"' in said.err
    assert "\x1b" not in said.err
    (row,) = pending(goal, capsys)
    assert row["payload"]["decision"] == "approve"
    assert row["payload"]["shown_sha256"] == fingerprint(encode(CALL)[1])


def test_what_is_stored_for_a_live_worker_is_not_a_conflict_when_going_on_is_asked_for_too(
    goal: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["goal", "approve", goal, "--resume"]) == 0
    assert capsys.readouterr().out == f"Stored for the worker that runs {goal}.\n"
    assert len(pending(goal, capsys)) == 1


def test_a_decision_that_a_goal_ended_before_is_shown_as_too_late(
    ready: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A goal may end by itself between the acknowledgement of a decision and the moment that its owner takes it."""

    async def ended() -> str:
        async with Perdure.open() as p:
            store = p.database.state_store()
            goal_id = await waiting_goal(store, "unknown", ready, is_held=True)
            await store.post(goal_id, "decision", {"call_id": "pay.1", "decision": "retry"}, key="k")
            deps = JournalDeps(store, SystemClock(), SystemIds(), worker_of(ready))
            journal = Journal(deps, await p.goals.state(goal_id), epoch=1)
            journal.record(Termination("failed"))
            await journal.commit(release=True)
            return goal_id

    assert run(["goal", "show", asyncio.run(ended())]) == 0
    assert "Posted too late, the goal ended first: decision retry pay.1" in capsys.readouterr().out


def test_a_denial_carries_its_reason(goal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["goal", "deny", goal, "c1", "--reason", "not today"]) == 0
    (row,) = pending(goal, capsys)
    assert (row["payload"]["decision"], row["payload"]["value"]) == ("deny", "not today")
    assert run(["goal", "show", goal]) == 0
    said = capsys.readouterr().out
    assert "Pending since" in said
    assert "decision deny c1" in said
    assert f"perdure goal approve {goal} c1" in said


def test_a_call_that_is_not_there_is_not_approved(goal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["goal", "approve", goal, "c2", "--json"]) == 4
    assert pending(goal, capsys) == []


@pytest.mark.parametrize(("typed", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_is_asked_first(goal: str, typed: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    ours, its = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", "goal", "approve", goal], stdin=its, stdout=subprocess.DEVNULL, stderr=its
    )
    os.close(its)
    seen = b""
    while b"Run this?" not in seen:
        seen += os.read(ours, 4096)
    assert b'"rm"' in seen
    os.write(ours, typed.encode() + b"\n")
    assert program.wait(60) == code
    os.close(ours)
    assert len(pending(goal, capsys)) == (1 - code)
