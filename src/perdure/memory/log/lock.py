"""The lock that orders all who write a log, between processes and between threads."""

import os
from pathlib import Path

from perdure.errors import Unavailable
from perdure.filelock.holders import holder_of
from perdure.filelock.lock import FileLock, Kind
from perdure.memory.log.files import FolderGone, open_file, told

WAIT_S = 10.0


class LogLock(FileLock):
    """A lock whose file also carries a mark: that the names in its folder may not be durable yet."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, *, kind: Kind = "inner") -> None:
        super().__init__(path, wait_s, kind=kind)

    @property
    def is_marked(self) -> bool:
        """Whether a process that held the lock before died between `mark` and `unmark`."""
        return self.size > 0

    def mark(self) -> None:
        """Note, for whoever takes the lock next, that the names in the folder may not be durable yet."""
        with told(self.path):
            os.pwrite(self.fd, b"~", 0)

    def unmark(self) -> None:
        """Take the note back."""
        with told(self.path):
            os.ftruncate(self.fd, 0)
        self.size = 0

    def open_file(self) -> int:
        """See FileLock.open_file; the folder is made too, and errors are told as those of the log are."""
        try:
            return open_file(self.path, os.O_RDWR | os.O_CREAT)
        except FolderGone:
            return -1  # a restore is just replacing it

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
