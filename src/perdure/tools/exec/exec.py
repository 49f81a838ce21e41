"""The tool `exec`: runs a program to its end, and ends all processes that it leaves."""

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from perdure.errors import Conflict, PerdureError, Unavailable
from perdure.kernel.events import ToolError, ToolOutput
from perdure.kernel.recovery import EXHAUSTION
from perdure.kernel.tool import CallContext, Check
from perdure.tools.exec import child
from perdure.tools.exec.command import SPEC, Command, home_mark, key_mark, parse_arguments, parse_command
from perdure.tools.exec.pidfiles import Folders, Home, Note, note_path, read_note, remove_note, write_note
from perdure.tools.exec.process_tree import KILL_AFTER_S, CallTree
from perdure.tools.exec.processes import ProcessIdentity
from perdure.tools.outcome import failed

log = logging.getLogger(__name__)

CHECK_S = 60.0
"""The timeout of a check without an explicit one."""

_NOTHING: dict[str, Any] = {
    "exit_code": None,
    "stdout": "",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
}


class ExecTool:
    """Runs programs; `run_dir` contains a note of each running one."""

    spec = SPEC

    def __init__(self, run_dir: Path, home_id: Callable[[], str], *, kill_after_s: float = KILL_AFTER_S) -> None:
        """Run programs for a home, whose id is requested on demand."""
        self._run_dir = run_dir
        self._home_id = functools.cache(home_id)
        self._kill_after_s = kill_after_s
        self._folders = Folders()

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate. Whether the program and its folder exist is checked when it runs."""
        parse_arguments(arguments)

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. Processes that the program leaves running are ended half a second after it."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            command, _ = parse_command(context, self._home_id())
            begun = self._start(command, context)
        except (PerdureError, *EXHAUSTION) as error:
            outcome = failed(context.call, error, dict(_NOTHING))
        else:
            outcome = await self._finish(begun, command.timeout_s, context)
        return replace(outcome, duration_ms=round((loop.time() - begun_s) * 1000))

    async def check(self, context: CallContext) -> Check:
        """See Tool.check. Runs the argument `check`: exit 0 says that it happened, 1 that it did not."""
        try:
            _, command = parse_command(context, self._home_id())
            if command is None:
                return "unknown"
            begun = self._start(command, context)
        except EXHAUSTION as error:
            raise Unavailable(f"The system says: {error}.") from error
        outcome = await self._finish(begun, CHECK_S if command.timeout_s is None else command.timeout_s, context)
        answers: dict[int, Check] = {0: "happened", 1: "not_happened"}
        answer = None if outcome.error and outcome.error.code != "exit" else answers.get(outcome.output["exit_code"])
        if answer is None:
            raise Unavailable(outcome.error.message if outcome.error else "It said nothing.")
        return answer

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. Another process with the same pid, or one of another home, is never signalled."""
        path = self._note_path(goal_id, call_id)
        try:
            note = read_note(path)
            if note is not None and note.home != self._home:
                _require_gone(note, key_mark(goal_id, call_id))
                return
        except OSError as error:
            raise Unavailable(f"The processes of {call_id} cannot be searched: {error}.") from error
        if note is not None:
            tree = CallTree(note.identity, self._marks(goal_id, call_id), is_child=False)
            await tree.end(kill_after_s=self._kill_after_s)
        remove_note(path, note)

    def _start(self, command: Command, context: CallContext) -> child.Child:
        """Start a program; after an error, it has not run."""
        path = self._note_path(context.goal_id, context.call.call_id)
        home, marks = self._home, self._marks(context.goal_id, context.call.call_id)
        note = None

        def note_program(identity: ProcessIdentity) -> None:
            """Note the process of the program, and check directly before its start that the lease is fresh."""
            nonlocal note
            note = Note(identity, home)
            write_note(path, note)
            context.require_ours()

        try:
            return child.start(command, marks, note_program)
        except BaseException:
            for left in (note, None):  # a complete note, or an incomplete one
                remove_note(path, left)
            raise

    async def _finish(self, begun: child.Child, timeout_s: float | None, context: CallContext) -> ToolOutput:
        """Wait for a program, and end all its processes. An exception means that the outcome is unknown.

        The exit code of a successful program is its outcome, even if it cannot be verified that its processes have
        ended. In all other cases, a process may still run when a retry begins.
        """
        path = self._note_path(context.goal_id, context.call.call_id)
        is_in_time = False
        try:
            is_in_time = await begun.wait(timeout_s)
        finally:
            unended = await begun.end(self._kill_after_s)
            if unended is None:
                remove_note(path, Note(begun.tree.leader, self._home))
        error = _error_of(begun, None if is_in_time else timeout_s)
        if unended is not None:
            log.warning("call %s left processes running: %s", context.idempotency_key, unended.detail)
            if error is not None:
                raise unended
        return ToolOutput(context.call.call_id, ok=error is None, output=_output_of(begun), error=error)

    def _note_path(self, goal_id: str, call_id: str) -> Path:
        path = note_path(self._run_dir, goal_id, call_id)
        self._folders.use(path.parent)
        return path

    @functools.cached_property
    def _home(self) -> Home:
        return Home(self._home_id(), str(self._run_dir.parent.resolve()))

    def _marks(self, goal_id: str, call_id: str) -> tuple[str, str]:
        return key_mark(goal_id, call_id), home_mark(self._home_id())


def _require_gone(note: Note, mark: str) -> None:
    """Check that no process runs of a call that another home has noted.

    Raises: Conflict when one does, because only that home may end it.
    """
    living = CallTree(note.identity, [mark], is_child=False).scan().living
    if living:
        whose = f"the home {note.home.path}" if note.home else "a home that its note does not name"
        pids = ", ".join(map(str, living))
        raise Conflict(f"Process {pids} still runs for {whose}, and only that home may end it.")


def _output_of(ended: child.Child) -> dict[str, Any]:
    for capture in (ended.stdout, ended.stderr):
        if capture.error is not None:
            raise Unavailable(f"What the program wrote could not be read: {capture.error!r}.")
    return {
        "exit_code": ended.exit_code,
        "stdout": ended.stdout.text(),
        "stderr": ended.stderr.text(),
        "stdout_truncated": ended.stdout.is_truncated,
        "stderr_truncated": ended.stderr.is_truncated,
    }


def _error_of(ended: child.Child, passed_s: float | None) -> ToolError | None:
    code = ended.exit_code
    if code is None and ended.has_ended:
        raise Unavailable("The exit code is lost: other code of this process has waited for the program.")
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
