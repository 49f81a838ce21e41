"""However a call of `exec` ends, nothing of its program runs on."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.tools.exec import child, processes
from perdure.tools.exec.child_watcher import ChildWatcher, pidfd_of
from perdure.tools.exec.command import parse_command
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.pidfiles import note_path, read_note, write_note
from perdure.tools.exec.process_tree import KILL_AFTER_S, CallTree, Scan
from perdure.tools.exec.processes import ProcessIdentity
from tests import children
from tests.tools.calls import (
    CALL,
    GOAL,
    HOME_ID,
    LONG_S,
    Fifo,
    assert_empty,
    begin,
    call,
    code_of,
    end_of,
    exec_tool,
    is_running,
    known,
    note_of,
    notes,
    python,
    shell,
)

FORK_TWICE = f"""
import os, sys, time
if os.fork() == 0:
    if os.fork() == 0:
        SETUP
        open('pid', 'w').write(f'{{os.getpid()}}\\n')
        time.sleep({LONG_S})
    os._exit(0)
os.wait()
open('gate').readline()
print('done')
"""
SILENT = "null = os.open('/dev/null', os.O_RDWR); os.dup2(null, 1); os.dup2(null, 2)"


async def test_a_timeout_ends_the_program(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, shell(f"echo $$; sleep {LONG_S}; true", timeout_s=0.2)))
    assert code_of(outcome) == "timeout"
    assert outcome.output["exit_code"] == -signal.SIGTERM
    assert_empty(int(outcome.output["stdout"]))


async def test_a_program_that_ignores_term_is_killed(tool: ExecTool, workdir: Path) -> None:
    line = f"trap '' TERM; echo $$; sleep {LONG_S}; sleep {LONG_S}"
    outcome = await tool.run(call(workdir, shell(line, timeout_s=0.2)))
    assert code_of(outcome) == "timeout"
    assert outcome.output["exit_code"] == -signal.SIGKILL
    assert_empty(int(outcome.output["stdout"]))


async def test_a_program_may_tidy_up_on_term(run_dir: Path, workdir: Path) -> None:
    line = f"trap 'echo tidied; exit 0' TERM; sleep {LONG_S} & wait"
    outcome = await exec_tool(run_dir, kill_after_s=KILL_AFTER_S).run(call(workdir, shell(line, timeout_s=0.3)))
    assert code_of(outcome) == "timeout"
    assert outcome.output["exit_code"] == 0
    assert outcome.output["stdout"] == "tidied\n"


async def test_a_program_that_closes_its_output_is_waited_for(
    tool: ExecTool, workdir: Path, told: Fifo, gate: Fifo
) -> None:
    line = "exec >&- 2>&-; echo $$ >pid; read x <gate; touch ran; exit 4"
    task, _ = await begin(tool, call(workdir, shell(line)), told)
    gate.let_go()
    outcome = await task
    assert outcome.output["exit_code"] == 4
    assert (workdir / "ran").exists()


async def test_a_program_that_closes_its_output_is_still_ended_in_time(tool: ExecTool, workdir: Path) -> None:
    line = f"echo $$; exec >&- 2>&-; sleep {LONG_S}; true"
    outcome = await tool.run(call(workdir, shell(line, timeout_s=0.2)))
    assert code_of(outcome) == "timeout"
    assert_empty(int(outcome.output["stdout"]))


@pytest.mark.parametrize("setup", ["pass", SILENT, "os.setpgid(0, 0)"], ids=["loud", "silent", "own group"])
async def test_what_a_program_leaves_behind_ends_soon_after_it(
    tool: ExecTool, workdir: Path, setup: str, told: Fifo, gate: Fifo
) -> None:
    task, left = await begin(tool, call(workdir, python(FORK_TWICE.replace("SETUP", setup))), told)
    gate.let_go()
    outcome = await task
    assert outcome.ok
    assert outcome.output["stdout"] == "done\n"
    assert outcome.duration_ms < 10_000
    assert not is_running(left)


FORK_FOREVER = """
import os
if os.fork() == 0:
    alive = os.open('alive', os.O_WRONLY)
    null = os.open('/dev/null', os.O_RDWR); os.dup2(null, 1); os.dup2(null, 2)
    while True:
        if os.fork():
            os._exit(0)
"""


async def test_one_that_forks_and_dies_all_the_time_does_not_slip_away(tool: ExecTool, workdir: Path) -> None:
    os.mkfifo(workdir / "alive")
    alive = os.open(workdir / "alive", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert (await tool.run(call(workdir, python(FORK_FOREVER)))).ok
        assert os.read(alive, 1) == b"", "nobody has it open any more"
    finally:
        os.close(alive)


async def test_what_is_said_within_the_patience_is_heard(tool: ExecTool, workdir: Path) -> None:
    line = "leader=$$; (while kill -0 $leader; do :; done 2>/dev/null; echo late) & exit 0"
    outcome = await tool.run(call(workdir, shell(line)))
    assert outcome.output["stdout"] == "late\n"


async def test_cancelling_returns_when_the_whole_session_is_gone(
    tool: ExecTool, workdir: Path, run_dir: Path, told: Fifo
) -> None:
    line = f"trap '' TERM; sleep {LONG_S} & echo $$ >pid; sleep {LONG_S}; sleep {LONG_S}"
    task, leader = await begin(tool, call(workdir, shell(line)), told)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_empty(leader)
    assert notes(run_dir) == []


async def test_cancelling_twice_does_not_wait_for_a_tidy_end(run_dir: Path, workdir: Path, told: Fifo) -> None:
    line = f"trap 'echo term >pid' TERM; echo $$ >pid; while :; do sleep {LONG_S} & wait; done"
    tool = exec_tool(run_dir, kill_after_s=LONG_S)
    task, leader = await begin(tool, call(workdir, shell(line)), told)
    task.cancel()
    assert await told.line() == "term"
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(leader)
    assert notes(run_dir), "who did not wait for the end leaves the note to whoever comes next"
    await tool.reap(GOAL, CALL)
    assert_empty(leader)


@pytest.mark.parametrize("has_pidfd", [True, False])
async def test_the_end_of_a_child_is_reported(has_pidfd: bool) -> None:
    process = subprocess.Popen(["sh", "-c", "read x; exit 3"], stdin=subprocess.PIPE)  # noqa: ASYNC220 (as exec does)
    reaped = ChildWatcher(process, pidfd_of(process.pid) if has_pidfd else None)
    assert reaped.exit_code is None
    process.communicate(b"\n")
    await reaped.wait()
    assert reaped.exit_code == 3


async def test_cancelling_at_any_moment_leaves_nothing(tool: ExecTool, workdir: Path, run_dir: Path) -> None:
    for steps in range(12):
        task = asyncio.create_task(tool.run(call(workdir, {"argv": ["sleep", str(LONG_S)]})))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert notes(run_dir) == []


async def test_many_programs_run_at_the_same_time(tool: ExecTool, workdir: Path) -> None:
    calls = [call(workdir, shell(f"echo {number}"), call_id=f"c{number}") for number in range(20)]
    outcomes = await asyncio.gather(*map(tool.run, calls))
    assert [outcome.output["stdout"] for outcome in outcomes] == [f"{number}\n" for number in range(20)]


async def run_call(run_dir: Path, workdir: Path, line: str) -> None:
    await exec_tool(run_dir).run(call(workdir, shell(line)))


async def reap_call(run_dir: Path, kill_after_s: float) -> None:
    await exec_tool(run_dir, kill_after_s=kill_after_s).reap(GOAL, CALL)


async def orphaned(run_dir: Path, workdir: Path, line: str, told: Fifo) -> int:
    """Kill a process of ours in the middle of a call, and return the pid of the program that it leaves behind."""
    parent = children.start(run_call, run_dir, workdir, line)
    leader = int(await told.line())
    parent.kill()
    assert children.end_of(parent) == -signal.SIGKILL
    return leader


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["meek", "stubborn"])
async def test_after_a_kill_another_process_ends_what_was_left(
    run_dir: Path, workdir: Path, trap: str, told: Fifo
) -> None:
    line = f"{trap}sleep {LONG_S} & echo $$ >pid; sleep {LONG_S}; sleep {LONG_S}"
    leader = await orphaned(run_dir, workdir, line, told)
    assert is_running(leader)
    children.run(reap_call, run_dir, 0.2)
    assert_empty(leader)
    assert notes(run_dir) == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to know whose a process is")
async def test_after_a_kill_those_whose_leader_is_gone_are_ended_too(run_dir: Path, workdir: Path, told: Fifo) -> None:
    line = f"sleep {LONG_S} & echo $$ >pid; echo $! >pid; sleep {LONG_S}; true"
    leader = await orphaned(run_dir, workdir, line, told)
    member = int(await told.line())
    os.kill(leader, signal.SIGKILL)
    children.run(reap_call, run_dir, 5.0)
    assert not is_running(member)
    assert_empty(leader)


async def begin_and_die(workdir: Path) -> None:
    def die(identity: ProcessIdentity) -> None:
        (workdir / "pid").write_text(f"{identity.pid}\n")
        os.kill(os.getpid(), signal.SIGKILL)

    child.start(parse_command(call(workdir, shell("touch ran")), HOME_ID)[0], [], die)


async def test_a_program_whose_note_was_never_finished_never_starts(workdir: Path, told: Fifo) -> None:
    parent = children.start(begin_and_die, workdir)
    await end_of(int(await told.line()))
    assert children.end_of(parent) == -signal.SIGKILL
    assert not (workdir / "ran").exists()


@pytest.fixture
async def stranger() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is none of ours, in a session of its own."""
    process = await asyncio.create_subprocess_exec("sleep", str(LONG_S), start_new_session=True)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.parametrize(
    "change",
    [
        lambda identity: replace(identity, started="1"),
        lambda identity: replace(identity, boot_id="another"),
        lambda identity: replace(identity, boot_id=""),
    ],
    ids=["pid used again", "rebooted", "of an unknown boot"],
)
async def test_a_stranger_with_the_same_pid_is_never_touched(
    tool: ExecTool,
    run_dir: Path,
    stranger: asyncio.subprocess.Process,
    change: Callable[[ProcessIdentity], ProcessIdentity],
) -> None:
    write_note(note_path(run_dir, GOAL, CALL), note_of(run_dir, change(known(stranger.pid))))
    await tool.reap(GOAL, CALL)
    assert is_running(stranger.pid)
    assert notes(run_dir) == []


async def test_the_end_of_a_call_leaves_a_later_note_of_another_alone(
    tool: ExecTool, run_dir: Path, workdir: Path, stranger: asyncio.subprocess.Process, told: Fifo, gate: Fifo
) -> None:
    note, other = note_path(run_dir, GOAL, CALL), note_of(run_dir, known(stranger.pid))
    task, _ = await begin(tool, call(workdir, shell("echo $$ >pid; read x <gate")), told)
    write_note(note, other)
    gate.let_go()
    assert (await task).ok
    assert read_note(note) == other


async def test_strangers_in_a_session_without_a_leader_are_never_touched(
    tool: ExecTool, run_dir: Path, workdir: Path, told: Fifo
) -> None:
    line = f"sleep {LONG_S} >/dev/null 2>&1 & echo $! >pid"
    leader = await asyncio.create_subprocess_exec("sh", "-c", line, cwd=workdir, start_new_session=True)
    await leader.wait()
    member = int(await told.line())
    write_note(note_path(run_dir, GOAL, CALL), note_of(run_dir, ProcessIdentity(leader.pid, "1", processes.boot_id())))
    await tool.reap(GOAL, CALL)
    assert is_running(member)
    os.kill(member, signal.SIGKILL)


@pytest.mark.parametrize(
    "torn", [b"", b'{"pid": 1', b"[]", b"\xff", b'{"pid": 1, "started": "1", "boot_id": "x"}', b'{"pid": "7"}']
)
async def test_a_torn_note_is_removed(tool: ExecTool, run_dir: Path, torn: bytes) -> None:
    note = note_path(run_dir, GOAL, CALL)
    note.parent.mkdir(parents=True)
    note.write_bytes(torn)
    await tool.reap(GOAL, CALL)
    assert notes(run_dir) == []


async def test_a_call_without_a_note_needs_no_reaping(tool: ExecTool, run_dir: Path) -> None:
    await tool.reap(GOAL, CALL)
    await tool.reap("../..", "\ud800")
    assert not run_dir.exists()


async def test_a_system_without_proc_is_asked_through_ps(stranger: asyncio.subprocess.Process) -> None:
    by_ps = processes._state_with_ps(stranger.pid)
    assert by_ps is not None
    assert by_ps[0] in "SR"
    assert processes._state_with_ps(stranger.pid) == by_ps
    assert stranger.pid in processes._pids_with_ps()
    stranger.kill()
    await stranger.wait()
    assert processes._state_with_ps(stranger.pid) is None
    assert processes.identity_of(stranger.pid) is None


def test_a_system_that_does_not_answer_proves_nothing() -> None:
    assert processes.printed("/no/such/program") == ""
    assert processes.boot_id()
    assert CallTree(replace(known(os.getpid()), boot_id=""), [], is_child=False).scan() == Scan()
