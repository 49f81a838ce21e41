"""Locks names in a folder while their files are created or replaced."""

from pathlib import Path
from types import TracebackType

from perdure.filelock.lock import WAIT_S, FileLock


class NameLock(FileLock):
    """A lock on a name in a folder, even if no file has it; the lock file is beside it, and removed on release."""

    def __init__(self, path: Path, wait_s: float = WAIT_S) -> None:
        super().__init__(path.with_name(f".{path.name}.lock"), wait_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.fd >= 0:  # not in a forked child
                self.path.unlink(missing_ok=True)  # waiting processes notice that it was removed, and create a new one
        finally:
            self.release()
            self.close()
