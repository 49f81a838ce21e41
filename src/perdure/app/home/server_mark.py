"""Lets other processes of this machine see that a server runs on a home, and where it listens."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.filelock.lock import FileLock, shared_now
from perdure.files.folders import ensure_folder

_PREFIX = "server-"
_LONGEST_URL = 1024


@contextmanager
def marked_as_server(home: Path) -> Iterator[Callable[[str], None]]:
    """Hold a lock file in the home for the time of the block; it is free as soon as the process has ended.

    The block gets a function that publishes the URL of the server.
    """
    folder = home / "run"
    ensure_folder(folder)
    while True:
        lock = FileLock(folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}.lock", kind="lasting")
        if lock.try_acquire():
            break
        lock.close()  # a process that removes files of dead ones had it at this moment

    def publish(url: str) -> None:
        os.pwrite(lock.fd, f"{url}\n".encode(), 0)

    try:
        yield publish
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()
        lock.close()


def is_served(home: Path) -> bool:
    """Tell whether a server of this machine runs on a home now."""
    return next(_held(home), None) is not None


def server_urls(home: Path) -> list[str]:
    """Return where the running servers of a home listen on this machine; one that is starting is left out."""
    found = []
    for path in _held(home):
        with suppress(OSError):
            url, newline, _ = path.read_bytes()[:_LONGEST_URL].decode("ascii", "replace").partition("\n")
            found += [url] if newline else []
    return sorted(set(found))


def _held(home: Path) -> Iterator[Path]:
    """Give the lock files of servers that are alive."""
    for path in (home / "run").glob(f"{_PREFIX}*.lock"):
        with suppress(OSError), shared_now(path) as is_free:
            if not is_free:
                yield path
