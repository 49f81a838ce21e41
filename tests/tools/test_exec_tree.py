"""Processes of a call that left its session: they end with their step, and nobody else's do."""

import asyncio
import fcntl
import os
import signal
import sys
from pathlib import Path

import pytest

from perdure.kernel.run_context import RunContext
from perdure.tools.exec.child import PATIENCE_S
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.process_tree import KILL_AFTER_S, CallTree, Scan
from perdure.tools.exec.processes import identity_of, lineage_of
from tests import children
from tests.tools.calls import (
    CALL,
    GOAL,
    HOME_ID,
    LONG_S,
    Fifo,
    begin,
    call,
    code_of,
    end_of,
    exec_tool,
    is_running,
    known,
    notes,
    python,
    shell,
)
from tests.tools.test_exec_end import FORK_TWICE, orphaned, reap_call

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to find who has left")

DEAF = f"trap '' TERM\necho $$ >pid\nexec sleep {LONG_S}\n"
"""Tells its pid, and lives on whoever asks it to end."""
NEW_SESSION = "setsid sh deaf"
DAEMON = "(setsid sh -c '(sh deaf) &' &)"
"""Forks twice and makes a session of its own: its parent is gone, and it is in nobody's group."""
WAYS = pytest.mark.parametrize("line", [NEW_SESSION, DAEMON], ids=["own session", "daemon"])
DEADLINE_S = 5.0


@pytest.fixture(autouse=True)
def deaf(workdir: Path) -> None:
    (workdir / "deaf").write_text(DEAF)


@WAYS
async def test_one_that_left_the_session_ends_with_a_step_that_ends(
    tool: ExecTool, workdir: Path, told: Fifo, gate: Fifo, line: str
) -> None:
    task, left = await begin(tool, call(workdir, shell(f"{line} & read x <gate; echo done")), told)
    gate.let_go()
    outcome = await task
    assert outcome.ok
    assert outcome.output["stdout"] == "done\n"
    assert not is_running(left)


@WAYS
async def test_one_that_left_the_session_ends_with_a_step_that_takes_too_long(
    tool: ExecTool, workdir: Path, told: Fifo, line: str
) -> None:
    task, left = await begin(tool, call(workdir, shell(f"{line} & sleep {LONG_S}; true", timeout_s=0.3)), told)
    assert code_of(await task) == "timeout"
    assert not is_running(left)


@WAYS
async def test_one_that_left_the_session_ends_with_a_step_that_is_cancelled(
    tool: ExecTool, workdir: Path, told: Fifo, line: str
) -> None:
    task, left = await begin(tool, call(workdir, shell(f"{line} & sleep {LONG_S}; true")), told)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(left)


@WAYS
async def test_one_that_left_the_session_is_ended_by_the_next_process_after_a_kill(
    run_dir: Path, workdir: Path, told: Fifo, line: str
) -> None:
    left = await orphaned(run_dir, workdir, f"{line} & sleep {LONG_S}; true", told)
    assert is_running(left)
    children.run(reap_call, run_dir, 0.2)
    assert not is_running(left)
    assert notes(run_dir) == []


async def test_one_that_left_the_session_is_ended_though_the_session_is_gone(
    run_dir: Path, workdir: Path, told: Fifo
) -> None:
    line = f"echo $$ >pid; read x <gate; {DAEMON}; sleep {LONG_S}; true"
    gate = Fifo(workdir / "gate")
    leader = await orphaned(run_dir, workdir, line, told)
    gate.let_go()
    left = int(await told.line())
    os.killpg(leader, signal.SIGKILL)
    await end_of(leader)
    assert is_running(left)
    children.run(reap_call, run_dir, 0.2)
    assert not is_running(left)
    gate.close()


async def test_one_that_left_the_session_with_our_pipe_does_not_hold_us(
    tool: ExecTool, workdir: Path, told: Fifo, gate: Fifo
) -> None:
    task, escaped = await begin(tool, call(workdir, python(FORK_TWICE.replace("SETUP", "os.setsid()"))), told)
    gate.let_go()
    outcome = await task
    assert outcome.ok
    assert outcome.output["stdout"] == "done\n"
    assert not is_running(escaped)


async def test_one_that_cleared_its_environment_is_found_by_its_descent(
    tool: ExecTool, workdir: Path, told: Fifo, gate: Fifo
) -> None:
    line = "env -i PATH=$PATH setsid sh deaf & read x <gate"
    task, left = await begin(tool, call(workdir, shell(f"{line}; sleep {LONG_S}", timeout_s=0.5)), told)
    gate.let_go()
    assert code_of(await task) == "timeout"
    assert not is_running(left)


async def test_one_that_merely_began_later_is_never_touched(tool: ExecTool, workdir: Path, told: Fifo) -> None:
    task, _ = await begin(tool, call(workdir, shell(f"echo $$ >pid; sleep {LONG_S}", timeout_s=0.3)), told)
    process = await asyncio.create_subprocess_exec("sleep", str(LONG_S), start_new_session=True)
    try:
        assert code_of(await task) == "timeout"
        assert is_running(process.pid)
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("key", [f"{GOAL}/{CALL}", f"{GOAL}/other"], ids=["of another home", "of another call"])
async def test_one_that_bears_the_mark_of_another_is_never_touched(
    run_dir: Path, workdir: Path, told: Fifo, key: str
) -> None:
    leader = await orphaned(run_dir, workdir, f"echo $$ >pid; sleep {LONG_S}", told)
    home_id = "another" if key.endswith(CALL) else HOME_ID
    environment = {**os.environ, "PERDURE_IDEMPOTENCY_KEY": key, "PERDURE_HOME_ID": home_id}
    process = await asyncio.create_subprocess_exec("sleep", str(LONG_S), start_new_session=True, env=environment)
    try:
        await exec_tool(run_dir).reap(GOAL, CALL)
        assert not is_running(leader)
        assert is_running(process.pid)
    finally:
        process.kill()
        await process.wait()


async def test_one_that_was_seen_once_is_known_though_it_clears_its_environment_later(
    workdir: Path, told: Fifo, gate: Fifo
) -> None:
    line = f"echo $$ >pid; read x <gate; exec env -i sleep {LONG_S}"
    mark = {"PERDURE_IDEMPOTENCY_KEY": f"{GOAL}/{CALL}"}
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", line, start_new_session=True, cwd=workdir, env={**os.environ, **mark}
    )
    pid = int(await told.line())
    tree = CallTree(known(os.getpid()), [f"PERDURE_IDEMPOTENCY_KEY={GOAL}/{CALL}"], is_child=False)
    assert pid in tree.scan().living
    gate.let_go()
    async with asyncio.timeout(20):
        while b"PERDURE" in Path(f"/proc/{pid}/environ").read_bytes():  # noqa: ASYNC110 (another process does it)
            await asyncio.sleep(0.01)
    assert pid in tree.scan().living
    process.kill()
    await process.wait()


def test_a_tree_that_ignores_term_is_gone_within_five_seconds() -> None:
    """What is killed is gone at once, so the two waits before it are all that there is."""
    assert PATIENCE_S + KILL_AFTER_S < DEADLINE_S
    assert RunContext.end_within_s > DEADLINE_S, "the loop leaves no call alone that is about to be killed"


def test_the_lineage_of_a_process_is_its_own() -> None:
    seen = lineage_of(os.getpid())
    assert seen is not None
    assert (seen.parent, seen.group, seen.is_living) == (os.getppid(), os.getpgid(0), True)
    identity = identity_of(os.getpid())
    assert identity is not None
    assert seen.started == identity.started


HOPPER = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
until = time.monotonic() + 20
for file in (1, 2):
    os.dup2(os.open(os.devnull, os.O_WRONLY), file)
fcntl.flock(os.open("lock", os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)
number = 0
while time.monotonic() < until:
    if os.fork():
        os._exit(0)
    os.setsid()
    number += 1
    if number == 3:
        open("pid", "w").write("1\\n")
    time.sleep(float(sys.argv[1]))
"""
"""Hops from session to session. Each process inherits the lock of the one before: it is free when all have ended."""


@pytest.mark.parametrize("pause_s", ["0", "0.001", "0.05"])
async def test_a_process_that_keeps_forking_into_new_sessions_is_ended(
    tool: ExecTool, workdir: Path, told: Fifo, pause_s: str
) -> None:
    (workdir / "hopper.py").write_text(HOPPER)
    line = f"{sys.executable} -S hopper.py {pause_s} & sleep {LONG_S}; true"
    task, _ = await begin(tool, call(workdir, shell(line, timeout_s=0.5)), told)
    assert code_of(await task) == "timeout"
    with (workdir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_tree_that_has_left_its_session_and_still_moves_has_not_ended() -> None:
    assert Scan().is_empty(None)
    assert not Scan(is_moving=True).is_empty(Scan(is_moving=True))
