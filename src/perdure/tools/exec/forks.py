"""Notes processes that a step of a flow forked, so that they can be ended with the step.

A step may fork its whole process, as `multiprocessing` does. The fork has no mark in its environment and no session of
its own. So each fork of a step, and each fork of a fork, notes itself before any other code of it runs. A fork outside
of a step notes nothing and is never ended.
"""

import asyncio
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from perdure import failpoints
from perdure.errors import Unavailable
from perdure.tools.exec.pidfiles import Folders, Home, Note, note_path, read_note, write_note
from perdure.tools.exec.processes import HAS_PROC, ProcessIdentity, boot_id, identity_of, lineage_of, pids, state_of

_KILL_AFTER_S = 1.0
"""A fork of Python often inherits a handler that ignores TERM, so the wait is short."""
_UNKILLABLE_AFTER_S = 10.0
_PAUSE_S = 0.02


@dataclass(slots=True)
class _Call:
    """A call of a step that runs in the current context."""

    run_dir: Path
    goal_id: str
    call_id: str
    home: Home
    worker: int
    """The pid of the worker."""
    process: int
    """The pid of the process that has this copy of the object: the worker, or a fork of it."""
    has_forked: bool = False
    """Most calls never fork, and then there is nothing to remove when they end."""
    is_over: bool = False
    """The call timed out or was cancelled. Its thread may run on, but must not fork any more."""

    @property
    def folder(self) -> Path:
        return _notes_of(self.run_dir, self.goal_id, self.call_id)


_CALL: ContextVar[_Call | None] = ContextVar("perdure_forking_call", default=None)


class ForkNotes:
    """The notes of forks of one home. See StepForks."""

    def __init__(self, run_dir: Path, home_id: str) -> None:
        self._run_dir = run_dir
        self._home = Home(home_id, str(run_dir.parent.resolve()))
        self._folders = Folders()
        boot_id()  # cached here, because a forked child should run as little as possible

    def begin(self, goal_id: str, call_id: str) -> None:
        """See StepForks.begin."""
        pid = os.getpid()
        _CALL.set(_Call(self._run_dir, goal_id, call_id, self._home, pid, pid))

    def leave(self, goal_id: str, call_id: str) -> None:
        """See StepForks.leave. Notes of living forks stay: they are ended if this worker dies."""
        call = _CALL.get()
        if call is not None and call.call_id == call_id and call.goal_id == goal_id and not call.has_forked:
            return
        with suppress(OSError):  # the outcome of the call is known, and stays
            _remove_stale(self._folder(goal_id, call_id))

    async def end(self, goal_id: str, call_id: str) -> None:
        """See StepForks.end."""
        folder = self._folder(goal_id, call_id)
        call = _CALL.get()
        if call is not None and call.call_id == call_id and call.goal_id == goal_id:
            call.is_over = True
        await self._end(folder)

    async def end_goal(self, goal_id: str) -> None:
        """End the forks of all steps of a goal.

        Raises: Unavailable as `end`.
        """
        for folder in sorted(self._folder(goal_id, "any").parent.glob("*.forks")):
            await self._end(folder)

    async def _end(self, folder: Path) -> None:
        try:
            left = await _end_all(folder, self._home)
            _remove_stale(folder)
        except OSError as error:
            raise Unavailable(f"The forks noted in {folder} cannot be read: {error}.") from error
        if left:
            raise Unavailable(f"Processes {left}, which a step forked, do not end. End them by hand.")

    def _folder(self, goal_id: str, call_id: str) -> Path:
        folder = _notes_of(self._run_dir, goal_id, call_id)
        self._folders.use(folder.parent)
        return folder


def _notes_of(run_dir: Path, goal_id: str, call_id: str) -> Path:
    return note_path(run_dir, goal_id, call_id).with_suffix(".forks")


def sweep_forks(run_dir: Path) -> None:
    """Remove the notes of forks that have ended."""
    for folder in run_dir.glob("*/*.forks"):
        with suppress(OSError):
            _remove_stale(folder)
            folder.parent.rmdir()


def _note_that_it_forks() -> None:
    """Remember, in the process that forks, that the call may have notes."""
    call = _CALL.get()
    if call is not None:
        call.has_forked = True


def _note_fork() -> None:
    """Note a fork of a step, in the forked child, before it returns from the fork.

    The child ends here if its call is over, or if the worker died before the note was written: the next worker may have
    read the notes already.
    """
    call = _CALL.get()
    if call is None:
        return
    if call.is_over:  # the notes of the call were removed, and a new one would stay
        os._exit(1)
    with suppress(Exception):  # user code runs next, and must not see an internal error
        signal.set_wakeup_fd(-1)  # it is shared with the worker, whose event loop would receive signals of this process
    with suppress(Exception):
        failpoints.hit("tools.forks.note.before")
        _write(call)
    is_worker_gone = call.process == call.worker and os.getppid() not in (call.worker, 0)
    if is_worker_gone:
        os._exit(1)
    call.process = os.getpid()


os.register_at_fork(before=_note_that_it_forks, after_in_child=_note_fork)


def _write(call: _Call) -> None:
    pid = os.getpid()
    identity = identity_of(pid)
    if identity is not None:
        part = call.folder / f"{pid}.part"
        write_note(part, Note(identity, call.home))
        part.replace(call.folder / f"{pid}.json")


def _remove_stale(folder: Path) -> None:
    """Remove the notes of processes that have ended, and the folder if it is empty then."""
    try:
        paths = list(folder.iterdir())
    except FileNotFoundError:
        return
    for path in paths:
        note = read_note(path)
        is_living = (
            _is_living(note.identity) if note else path.stem.isdecimal() and state_of(int(path.stem)) is not None
        )
        if not is_living:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


async def _end_all(folder: Path, home: Home) -> list[int]:
    """End the noted processes and their descendants by TERM, then by KILL; return the pids of those that do not end.

    The notes and the descendants are read again each time, because a process that is being ended may still fork.
    """
    found: set[ProcessIdentity] = set()
    try:
        for kind, wait_s in ((signal.SIGTERM, _KILL_AFTER_S), (signal.SIGKILL, _UNKILLABLE_AFTER_S)):
            signalled: set[ProcessIdentity] = set()
            for _ in range(round(wait_s / _PAUSE_S)):
                found = _living(found | set(_noted(folder, home)))
                if not found:
                    return []
                _signal(found - signalled, kind)
                signalled |= found
                await asyncio.sleep(_PAUSE_S)
    except asyncio.CancelledError:
        _signal(found, signal.SIGKILL)
        raise
    return sorted(each.pid for each in found)


def _noted(folder: Path, home: Home) -> Iterator[ProcessIdentity]:
    """Return the processes that this home noted since the machine started."""
    for path in folder.glob("*.json"):
        note = read_note(path)
        if note is not None and note.home == home and note.identity.boot_id == (boot_id() or None):
            yield note.identity


def _living(found: Iterable[ProcessIdentity]) -> set[ProcessIdentity]:
    """Return those of some processes that live, with their descendants, but without this process and its ancestors."""
    lineages = {pid: each for pid in pids() if (each := lineage_of(pid))} if HAS_PROC else {}
    living = {each.pid for each in found if _is_living(each)}
    size = 0
    while len(living) > size:
        size = len(living)
        living |= {pid for pid, each in lineages.items() if each.parent in living and each.is_living}
    pid = os.getpid()
    while pid:
        living.discard(pid)
        pid = lineages[pid].parent if pid in lineages else 0
    return {identity for pid in living if (identity := identity_of(pid))}


def _signal(processes: Iterable[ProcessIdentity], kind: signal.Signals) -> None:
    for each in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(each.pid, kind)


def _is_living(process: ProcessIdentity) -> bool:
    seen = state_of(process.pid)
    return seen is not None and seen[1] == process.started and seen[0] not in "ZX"
