"""Paths that stay inside the goal's folder, also while somebody swaps links under our feet."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import Invalid

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_BYTES = 4096


def confined(workdir: str, path: object) -> Path:
    """Return the place that a path leads to, all links followed.

    Raises: Invalid when it is no path, or leads out of the goal's folder.
    """
    if not isinstance(path, str) or not path:
        raise Invalid("A path was expected to be a text that is not empty.")
    try:
        is_too_long = len(os.fsencode(path)) > _LONGEST_BYTES
        root = Path(workdir).resolve()
        place = (root / path).resolve()
    except (ValueError, RuntimeError, OSError) as error:  # a zero byte, a lone surrogate, a circle of links
        raise Invalid(f"{path!r} cannot be a path: {error}.") from error
    if is_too_long:
        raise Invalid(f"A path of {len(path)} characters is too long; at most {_LONGEST_BYTES} bytes were expected.")
    if not place.is_relative_to(root):
        raise Invalid(f"{path!r} leads out of the goal's folder {root}. Use a path inside of it.")
    return place


@contextmanager
def opened_folder(workdir: str, path: object, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Give the block the open folder that a confined path lies in, and the last part of the path.

    Each folder on the way is opened without following a link, so that nothing swapped in later leads outside.
    With `make`, folders that are not there are made, durably.

    Raises: Invalid when the path leads out, or is the goal's folder itself; OSError.
    """
    root = Path(workdir).resolve()
    parts = confined(workdir, path).relative_to(root).parts
    if not parts:
        raise Invalid(f"{path!r} is the goal's folder; a file in it was expected.")
    folder = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            if make:
                _make(part, folder)
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder, parts[-1]
    finally:
        os.close(folder)


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return
    os.fsync(folder)
