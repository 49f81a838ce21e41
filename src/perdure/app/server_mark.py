"""Lets other processes of this machine see that a server runs on a home."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.filelock.lock import FileLock, shared_now
from perdure.settings import ensure_folder

_PREFIX = "server-"


@contextmanager
def marked_as_server(home: Path) -> Iterator[None]:
    """Hold a lock file in the home for the time of the block; it is free as soon as the process has ended."""
    folder = home / "run"
    ensure_folder(folder)
    while True:
        lock = FileLock(folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}.lock", kind="lasting")
        if lock.try_acquire():
            break
        lock.close()  # a process that removes files of dead ones had it at this moment
    try:
        yield
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()
        lock.close()


def is_served(home: Path) -> bool:
    """Tell whether a server of this machine runs on a home now."""
    for path in (home / "run").glob(f"{_PREFIX}*.lock"):
        with suppress(OSError), shared_now(path) as is_free:
            if not is_free:
                return True
    return False
