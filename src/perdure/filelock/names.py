"""Names in a folder: given to a file only while they are free, and kept while what has them is made or replaced."""

import errno
import os
from pathlib import Path
from types import TracebackType

from perdure.filelock.lock import WAIT_S, FileLock


class NameLock(FileLock):
    """A lock on a name in a folder, also when nothing has the name; its file is beside, and removed on release."""

    def __init__(self, path: Path, wait_s: float = WAIT_S) -> None:
        super().__init__(path.with_name(f".{path.name}.lock"), wait_s)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.fd >= 0:  # not in a forked child
                self.path.unlink(missing_ok=True)  # those who wait for it see that it is gone, and make a new one
        finally:
            self.release()
            self.close()


def publish(part: Path, target: Path) -> None:
    """Give a complete file its name, unless the name is taken.

    Without hard links, a rename does it under a lock, so that of several processes of ours one gives the name.

    Raises: FileExistsError when the name is taken; OSError; Unavailable.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:
        with NameLock(target):
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            part.rename(target)
