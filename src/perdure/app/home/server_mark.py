"""Lock files that tell other processes of this machine which servers run on a home, and their URLs."""

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
    """Hold a lock file in the home inside the block; the lock is free as soon as the process has ended.

    Yields a function that publishes the URL of the server.
    """
    folder = home / "run"
    ensure_folder(folder)
    while True:
        lock = FileLock(folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}.lock", kind="lasting")
        if lock.try_acquire():
            break
        lock.close()  # another process held it while it removed the files of dead servers

    def publish(url: str) -> None:
        os.pwrite(lock.fd, f"{url}\n".encode(), 0)

    try:
        yield publish
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()
        lock.close()


def is_served(home: Path) -> bool:
    """Return whether a server of this machine runs on a home."""
    return next(_held(home), None) is not None


def server_urls(home: Path) -> list[str]:
    """Return the URLs of the running servers of a home on this machine, without servers that are starting."""
    found = []
    for path in _held(home):
        with suppress(OSError):
            url, newline, _ = path.read_bytes()[:_LONGEST_URL].decode("ascii", "replace").partition("\n")
            found += [url] if newline else []
    return sorted(set(found))


def _held(home: Path) -> Iterator[Path]:
    """Yield the lock files of live servers."""
    for path in (home / "run").glob(f"{_PREFIX}*.lock"):
        with suppress(OSError), shared_now(path) as is_free:
            if not is_free:
                yield path
