"""Calls of tools as the kernel makes them, and processes that a test can watch from outside."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.kernel.events import ToolCall, ToolOutput
from perdure.kernel.ports import CallContext, Tool
from perdure.tools.processes import Birth, birth_of, session_of

GOAL = "20250101-000000-goal-abcd"
CALL = "c1"
LONG_S = 300
"""Longer than any test may take: what sleeps so long must be ended."""

_PATIENCE_S = 20.0


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


async def appearance(path: Path) -> str:
    """Wait until a file has a whole line, and return it."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            text = path.read_text() if path.exists() else ""
            if text.endswith("\n"):
                return text.strip()
            await asyncio.sleep(0.005)


def is_running(pid: int) -> bool:
    """Whether a process lives; one that is dead and not buried does not."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return birth_of(pid) is not None


def known(pid: int) -> Birth:
    """Who has a pid."""
    birth = birth_of(pid)
    assert birth is not None
    return birth


async def begin(tool: Tool, context: CallContext, seen: Path) -> tuple[asyncio.Task[ToolOutput], int]:
    """Run a call in the background until its program has written its pid to a file."""
    task = asyncio.create_task(tool.run(context))
    return task, int(await appearance(seen))


def assert_empty(leader: int) -> None:
    """A session has nobody left."""
    assert session_of(Birth(leader, "", "")) == []
    assert not is_running(leader)
