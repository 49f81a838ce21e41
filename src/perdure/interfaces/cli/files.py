"""Reads files of the user with a size limit, and writes files atomically."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import Conflict, Denied, Invalid, NotFound, from_os_error
from perdure.files.atomic import PartFile, part_file
from perdure.files.opening import read_input_file


def write_file(path: Path, data: bytes, *, force: bool) -> None:
    """Write a file completely or not at all.

    Raises: Conflict when it is there and not to be replaced; Denied; Unavailable.
    """
    with new_file(path, force=force) as part:
        part.write(data)


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[PartFile]:
    """Yield a temporary file to write to; it gets its name when the block ends, and replaces a file with `force`.

    Raises: Conflict when the file exists and `force` is not set; Denied; Unavailable.
    """
    if path.is_dir():
        raise Conflict(f"{path} is a folder, not a file.")
    if path.exists() and not force:
        raise _taken(path)
    try:
        with part_file(path) as part:
            yield part
            if force:
                part.replace()
            else:
                part.publish()
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        raise from_os_error(f"{path} cannot be written", error) from error


def read_file(path: Path, largest: int) -> bytes:
    """Read a file, or a pipe that a shell passes as a file.

    Raises: NotFound; Invalid when it is larger, or not a regular file; Denied
    """
    try:
        data = read_input_file(path, largest + 1)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except ValueError as error:
        raise Denied(f"{path} cannot be read: {error}.") from error
    except OSError as error:
        raise from_os_error(f"{path} cannot be read", error) from error
    if len(data) > largest:
        raise Invalid(f"{path} is larger than {largest >> 10:,} KiB.")
    return data


def _taken(path: Path) -> Conflict:
    """Return the error for an existing file without --force."""
    return Conflict(f"{path} already exists and was not changed. Choose another name, or use --force.")
