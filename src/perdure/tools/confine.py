"""Paths confined to the goal's folder, even when another process swaps links meanwhile."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import Invalid
from perdure.files.folders import make_folder, open_folder

_LONGEST_BYTES = 4096
_FOLDER_MODE = 0o777
"""Folders of a goal have the permissions that its umask leaves, as those that its commands make."""


def require_path(path: object) -> str:
    """Return a path that could be one, wherever it leads.

    Raises: Invalid
    """
    if not isinstance(path, str) or not path:
        raise Invalid("A path must be a text that is not empty.")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        raise Invalid(f"{path!r:.80} cannot be a path: {error}.") from error
    if b"\0" in encoded:
        raise Invalid(f"{path!r:.80} cannot be a path: it holds a zero byte.")
    if len(encoded) > _LONGEST_BYTES:
        raise Invalid(f"A path of {len(path)} characters is too long; at most {_LONGEST_BYTES} bytes were expected.")
    return path


def confined(workdir: str, path: object) -> Path:
    """Return the place that a path leads to, all links followed.

    Raises: Invalid when it is not a path, or leads out of the goal's folder.
    """
    name = require_path(path)
    try:
        root = Path(workdir).resolve()
        place = (root / name).resolve()
    except (ValueError, RuntimeError, OSError) as error:  # a circle of links, a name that is too long
        raise Invalid(f"{name!r:.80} cannot be a path: {error}.") from error
    if not place.is_relative_to(root):
        raise Invalid(f"{name!r:.80} leads out of the goal's folder {root}. Use a path inside of it.")
    return place


@contextmanager
def opened_folder(workdir: str, path: object, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Give the block the open folder that a confined path lies in, and the last part of the path.

    With `make`, folders that are not there are made, durably.

    Raises: Invalid when the path leads out, or is the goal's folder itself; OSError.
    """
    root = Path(workdir).resolve()
    parts = confined(workdir, path).relative_to(root).parts
    if not parts:
        raise Invalid(f"{path!r} is the goal's folder; a file in it was expected.")
    folder = descend(root, parts[:-1], make=make)
    try:
        yield folder, parts[-1]
    finally:
        os.close(folder)


def descend(root: Path, parts: Sequence[str], *, make: bool = False) -> int:
    """Open a folder in a folder, each on the way without following a link: nothing swapped in leads outside.

    Raises: OSError
    """
    folder = open_folder(root)
    try:
        for part in parts:
            if make:
                make_folder(part, folder, _FOLDER_MODE)
            inner = open_folder(part, folder=folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder
