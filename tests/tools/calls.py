"""Calls of tools as the kernel makes them, and processes that a test can watch from outside."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.kernel.events import ToolCall, ToolOutput
from perdure.kernel.tool import CallContext, Tool
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.pidfiles import Home, Note
from perdure.tools.exec.processes import ProcessIdentity, identity_of

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "only")
"""The tests of another worker run at the same time, and processes of a call are found by goal, call and home."""
GOAL = f"20250101-000000-goal-{_WORKER}"
CALL = "c1"
HOME_ID = f"home-{_WORKER}"
LONG_S = 300
"""Longer than any test may take: what sleeps so long must be ended."""

_PATIENCE_S = 20.0


def exec_tool(run_dir: Path, *, home_id: str = HOME_ID, kill_after_s: float = 0.2) -> ExecTool:
    """The tool `exec` of a home, which kills soon."""
    return ExecTool(run_dir, lambda: home_id, kill_after_s=kill_after_s)


def note_of(run_dir: Path, identity: ProcessIdentity, *, home_id: str = HOME_ID) -> Note:
    """The note of a process that runs for a home."""
    return Note(identity, Home(home_id, str(run_dir.parent.resolve())))


def call(
    workdir: Path,
    arguments: Any,
    *,
    goal_id: str = GOAL,
    call_id: str = CALL,
    tool: str = "exec",
    environment: Mapping[str, str] | None = None,
) -> CallContext:
    """A call with these arguments."""
    intent = ToolCall(call_id, step="a", tool=tool, arguments=arguments, effect="once")
    return CallContext(goal_id, intent, str(workdir), environment or {})


def shell(line: str, **more: Any) -> dict[str, Any]:
    """Arguments of `exec` that run a command line."""
    return {"argv": [line], "shell": True, **more}


def python(program: str, **more: Any) -> dict[str, Any]:
    """Arguments of `exec` that run a program text in a new interpreter."""
    return {"argv": [sys.executable, "-c", program], **more}


def code_of(outcome: ToolOutput) -> str:
    assert not outcome.ok
    assert outcome.error is not None
    assert outcome.error.message
    return outcome.error.code


class Fifo:
    """A named pipe between a program and its test: lines that the program writes, or that it waits for."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            os.mkfifo(path)
        self._file = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # both ends: nobody waits for the other to open it
        self._seen = b""

    async def line(self) -> str:
        """Wait for a line."""
        async with asyncio.timeout(_PATIENCE_S):
            while b"\n" not in self._seen:
                await _readable(self._file)
                self._seen += os.read(self._file, 4096)
        line, _, self._seen = self._seen.partition(b"\n")
        return line.decode()

    def let_go(self) -> None:
        """Write a line to whoever reads."""
        os.write(self._file, b"\n")

    def close(self) -> None:
        os.close(self._file)


async def _readable(file: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(file, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(file)


async def end_of(pid: int) -> None:
    """Wait for the end of a process, which may be nobody's child."""
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _readable(file)
    finally:
        os.close(file)


def notes(run_dir: Path) -> list[str]:
    """The notes that stand."""
    return sorted(path.name for path in run_dir.glob("*/*"))


def is_running(pid: int) -> bool:
    """Whether a process lives; one that is dead and not reaped does not."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return identity_of(pid) is not None


def known(pid: int) -> ProcessIdentity:
    """Who has a pid."""
    identity = identity_of(pid)
    assert identity is not None
    return identity


async def begin(tool: Tool, context: CallContext, told: Fifo) -> tuple[asyncio.Task[ToolOutput], int]:
    """Run a call in the background until its program has told its pid."""
    task = asyncio.create_task(tool.run(context))
    return task, int(await told.line())


def assert_empty(leader: int) -> None:
    """A session has nobody left."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    assert [pid for pid in pids if _session_of(pid) == leader and is_running(pid)] == []
    assert not is_running(leader)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
