"""The tool `exec`: runs a program to its end, and leaves nothing of it running."""

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.errors import PerdureError, Unavailable
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.ports import CallContext, Check
from perdure.tools import child
from perdure.tools.command import Command, key_mark, parse_arguments, parse_command
from perdure.tools.notes import Folders, note_path, read_note, remove_note, write_note
from perdure.tools.outcome import failed
from perdure.tools.processes import KILL_AFTER_S, Birth, end_session, is_ours

CHECK_S = 60.0
"""How long a check may take, where its step does not say."""

_NOTHING: dict[str, Any] = {
    "exit_code": None,
    "stdout": "",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
}


class ExecTool:
    """Runs programs; `run_dir` holds a note of each that runs."""

    name = "exec"

    def __init__(self, run_dir: Path, *, kill_after_s: float = KILL_AFTER_S) -> None:
        self._run_dir = run_dir
        self._kill_after_s = kill_after_s
        self._folders = Folders()

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. Whether the program and its folder are there is known only when it runs."""
        parse_arguments(arguments)

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. Those that the program leaves in its session end half a second after it."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            command, _ = parse_command(context)
            outcome = await self._run(command, context)
        except (PerdureError, OSError) as error:
            outcome = failed(context.call, error, dict(_NOTHING))
        return replace(outcome, duration_ms=round((loop.time() - begun_s) * 1000))

    async def check(self, context: CallContext) -> Check:
        """See Tool.check. Runs the argument `check`: exit 0 says that it happened, 1 that it did not."""
        _, command = parse_command(context)
        if command is None:
            return "unknown"
        command = command if command.timeout_s is not None else replace(command, timeout_s=CHECK_S)
        try:
            outcome = await self._run(command, context)
        except OSError as error:
            raise Unavailable(f"The system says: {error}.") from error
        answers: dict[int, Check] = {0: "happened", 1: "not_happened"}
        answer = None if outcome.error and outcome.error.code != "exit" else answers.get(outcome.output["exit_code"])
        if answer is None:
            raise Unavailable(outcome.error.message if outcome.error else "It said nothing.")
        return answer

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. A process that merely has the same pid is never touched.

        Raises: Unavailable when the system does not let it end.
        """
        path = self._note_path(goal_id, call_id)
        leader = read_note(path)
        if leader is not None and is_ours(leader, key_mark(goal_id, call_id)):
            await end_session(leader, kill_after_s=self._kill_after_s)
        remove_note(path, leader)

    async def _run(self, command: Command, context: CallContext) -> ToolOutput:
        path = self._note_path(context.goal_id, context.call.call_id)
        begun = None
        try:
            begun = child.start(command, lambda birth: _let_go(path, birth, context))
            is_in_time = await begun.wait(command.timeout_s)
        finally:
            unended = await self._end(begun) if begun else None
            if unended is None:
                remove_note(path, begun.birth if begun else None)
        error = _error_of(begun, None if is_in_time else command.timeout_s)
        if error and unended:
            error = replace(error, message=f"{error.message} {unended.detail}")
        return ToolOutput(context.call.call_id, ok=error is None, output=_output_of(begun), error=error)

    def _note_path(self, goal_id: str, call_id: str) -> Path:
        path = note_path(self._run_dir, goal_id, call_id)
        self._folders.use(path.parent)
        return path

    async def _end(self, begun: child.Child) -> Unavailable | None:
        try:
            await begun.end(self._kill_after_s)
        except Unavailable as error:
            return error
        return None


def _let_go(path: Path, birth: Birth, context: CallContext) -> None:
    """Note who the program is, and see, at the last moment, that it is still ours to start."""
    write_note(path, birth)
    context.require_ours()


def _output_of(ended: child.Child) -> dict[str, Any]:
    return {
        "exit_code": ended.exit_code,
        "stdout": ended.stdout.text(),
        "stderr": ended.stderr.text(),
        "stdout_truncated": ended.stdout.is_truncated,
        "stderr_truncated": ended.stderr.is_truncated,
    }


def _error_of(ended: child.Child, passed_s: float | None) -> ToolError | None:
    code = ended.exit_code
    if passed_s is not None:
        return ToolError("timeout", f"The program ran longer than {passed_s:g} s and was ended.")
    if code is not None and code < 0:
        return ToolError("signal", f"The program was killed by {_signal_name(-code)}.")
    if code != 0:
        return ToolError("exit", f"The program ended with exit code {code}.")
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
