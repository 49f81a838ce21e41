"""Files that a command reads and writes for somebody: written wholly or not at all, and never read without a bound."""

import os
from pathlib import Path

from perdure.errors import Conflict, Denied, Invalid, NotFound, Unavailable, from_os_error
from perdure.store.backup.durable import fsync, new_file


def write_file(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file that is there wholly or not at all.

    Raises: Conflict when it is there and not to be replaced; Denied; Unavailable.
    """
    if path.is_dir():
        raise Conflict(f"{path} is a folder; a file was expected.")
    if path.exists() and not force:
        raise Conflict(f"{path} is there already and was left as it is. Choose another name, or give --force.")
    target = path if not force else path.with_name(f".{path.name}.new-{os.getpid()}")
    try:
        with new_file(target) as part:
            part.write_bytes(data)
        if force:
            target.replace(path)
            fsync(path.parent)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}.") from error


def read_file(path: Path, largest: int) -> bytes:
    """Read a file, or what a shell hands over as one.

    Raises: NotFound; Invalid when it is larger, or nothing that has an end; Denied
    """
    try:
        with os.fdopen(_opened(path), "rb") as file:
            data = file.read(largest + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except ValueError as error:
        raise Denied(f"{path} cannot be read: {error}.") from error
    except OSError as error:
        raise from_os_error(f"{path} cannot be read", error) from error
    if len(data) > largest:
        raise Invalid(f"{path} is larger than {largest >> 10:,} KiB.")
    return data


def _opened(path: Path) -> int:
    """Open a file; a pipe that nobody writes to is empty, instead of being waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    os.set_blocking(fd, True)
    return fd
