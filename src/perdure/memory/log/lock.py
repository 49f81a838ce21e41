"""The lock for writers of a log, across processes and threads."""

import os
from pathlib import Path

from perdure.errors import Unavailable
from perdure.filelock.holders import holder_of
from perdure.filelock.lock import FileLock, Kind
from perdure.memory.log.files import FolderGone, open_file, translate_os_errors

WAIT_S = 10.0


class LogLock(FileLock):
    """A lock whose file also stores a mark: the names in its folder may not be durable yet."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, *, kind: Kind = "inner") -> None:
        super().__init__(path, wait_s, kind=kind)

    @property
    def is_marked(self) -> bool:
        """Whether a process that held the lock before died between `mark` and `unmark`."""
        return self.size > 0

    def mark(self) -> None:
        """Note for the next holder of the lock that the names in the folder may not be durable yet."""
        with translate_os_errors(self.path):
            os.pwrite(self.fd, b"~", 0)

    def unmark(self) -> None:
        """Remove the mark."""
        with translate_os_errors(self.path):
            os.ftruncate(self.fd, 0)
        self.size = 0

    def open_file(self) -> int:
        """See FileLock.open_file; the folder is created too, and errors are translated as those of the log."""
        try:
            return open_file(self.path, os.O_RDWR | os.O_CREAT)
        except FolderGone:
            return -1  # a restore is replacing it now

    def refusal(self, wait_s: float) -> Unavailable:
        """See FileLock.refusal."""
        holder = holder_of(self.path)
        if holder is not None and holder.is_stopped:
            return Unavailable(f"{holder.stopped_sentence(self.path)} Nothing was stored.")
        return self._locked_by(f"process {holder.pid} ({holder.name})" if holder else "another process", wait_s)

    def thread_refusal(self, wait_s: float) -> Unavailable:
        """See FileLock.thread_refusal."""
        return self._locked_by("another thread of this process", wait_s)

    def _locked_by(self, holder: str, wait_s: float) -> Unavailable:
        return Unavailable(f"{self.path} has been locked by {holder} for {wait_s:g} s; nothing was stored. Try again.")
