"""Files that are wholly there or not at all: written under another name, flushed, then given their name."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, from_os_error
from perdure.filelock.names import publish
from perdure.settings import FILE_MODE


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give the block an empty private file to fill; afterwards it is durable under the name `target`.

    Raises: Conflict when the name is taken; Denied; Unavailable when there is no room. An error leaves nothing.
    """
    part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
    if target.exists():
        raise _taken(target)
    try:
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))
    except OSError as error:
        raise from_os_error(f"{target} cannot be written", error) from error
    try:
        yield part
        fsync(part)
        failpoints.hit("store.backup.before")
        _give_name(part, target)
        fsync(target.parent)
        failpoints.hit("store.backup.after")
    finally:
        part.unlink(missing_ok=True)


def unused(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, … that does not exist."""
    number, candidate = 1, path
    while os.path.lexists(candidate):
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def fsync(path: Path) -> None:
    """Bring a file or a folder to stable storage. Never call it on a database that is open in this process."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _give_name(part: Path, target: Path) -> None:
    try:
        publish(part, target)  # unlike a rename, it does not replace what came there in the meantime
    except FileExistsError:
        raise _taken(target) from None


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} is there already and was left as it is. Choose another name.")
