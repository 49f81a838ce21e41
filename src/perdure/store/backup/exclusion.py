"""Excludes every writer of a home while its parts are swapped: writers of the database, the bots and the memory.

Locks of folders are taken before that of the database, because a writer of a bot holds the lock of the bots while it
waits for the database. The other order could deadlock.
"""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from perdure.errors import Conflict, Unavailable
from perdure.filelock.lock import FileLock
from perdure.filelock.names import NameLock
from perdure.files.folders import ensure_folder
from perdure.store.backup.places import Places
from perdure.store.backup.restore_plan import Plan
from perdure.store.sqlite import files
from perdure.store.target import SqliteTarget

_PATIENCE_S = 3.0


class Exclusion:
    """Takes the locks of a home in order, and releases all at the end of a block."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._stack = contextlib.ExitStack()
        self._are_folders_locked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def lock_database(self) -> None:
        """Lock a SQLite file against writers; a database server needs no lock here.

        Raises: Conflict when it is in use.
        """
        database = self._places.database
        if not isinstance(database, SqliteTarget) or database.path is None:
            return
        ensure_folder(database.path.parent)
        lock = FileLock(files.lock_path(database.path))
        self._stack.callback(lock.close)
        try:
            lock.acquire(_PATIENCE_S)
        except Unavailable as error:
            raise Conflict(f"{database.path} is in use. {error.detail}") from error
        self._stack.callback(lock.release)

    def lock_folders(self, plan: Plan) -> None:
        """Lock all folders against writers, if the plan swaps any; a second call does nothing.

        A writer that waits for the lock in an old folder notices that the folder was replaced, and opens the new one,
        which is locked too until all folders are swapped. While a folder is moved, its name is locked, so that no
        writer creates it again.

        Raises: Unavailable when a writer does not end.
        """
        swapped = {swap.place for swap in plan.swaps}
        if self._are_folders_locked or not any(str(place) in swapped for place in self._places.folders.values()):
            return
        self._are_folders_locked = True
        for name, place in self._places.folders.items():
            ensure_folder(place.parent)
            self._stack.enter_context(NameLock(place))
            for lock_name in self._places.locks.get(name, ()):
                self._lock_inside(place, lock_name)
                staged = self._lock_inside(files.staged_path(place), lock_name)
                self._stack.callback(_remove, place / lock_name, staged)

    def _lock_inside(self, folder: Path, name: str) -> FileLock | None:
        if not folder.is_dir():
            return None
        lock = FileLock(folder / name)
        self._stack.callback(lock.close)
        lock.acquire()
        self._stack.callback(lock.release)
        return lock


def _remove(path: Path, lock: FileLock | None) -> None:
    """Remove the lock file that was created in a new folder, which is in place now. The lock is still held."""
    with contextlib.suppress(OSError):
        if lock is not None and os.path.samestat(os.stat(path), os.fstat(lock.fd)):
            path.unlink()


def in_use(path: Path) -> Conflict:
    """Return the error for a database that other processes use."""
    return Conflict(f"{path} is in use. Stop the programs that use it, then restore again.")
