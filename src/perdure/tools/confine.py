"""Opens paths inside the folder of a goal, safe against links that another process swaps meanwhile."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import Invalid
from perdure.files.folders import make_folder, open_folder

_LONGEST_BYTES = 4096
_FOLDER_MODE = 0o777
"""The mode of new folders in the folder of a goal, before the umask, like folders that commands create."""


def require_path(path: object) -> str:
    """Validate the syntax of a path.

    Raises: Invalid
    """
    if not isinstance(path, str) or not path:
        raise Invalid("A path must be a string that is not empty.")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        raise Invalid(f"{path!r:.80} is not a valid path: {error}.") from error
    if b"\0" in encoded:
        raise Invalid(f"{path!r:.80} is not a valid path: it contains a zero byte.")
    if len(encoded) > _LONGEST_BYTES:
        raise Invalid(f"A path of {len(path)} characters is too long; the maximum is {_LONGEST_BYTES} bytes.")
    return path


def confined(workdir: str, path: object) -> Path:
    """Return the target of a path with all links resolved.

    Raises: Invalid when it is not a path, or is outside of the folder of the goal.
    """
    name = require_path(path)
    try:
        root = Path(workdir).resolve()
        place = (root / name).resolve()
    except (ValueError, RuntimeError, OSError) as error:  # a cycle of links, a name that is too long
        raise Invalid(f"{name!r:.80} is not a valid path: {error}.") from error
    if not place.is_relative_to(root):
        raise Invalid(f"{name!r:.80} is outside of the folder of the goal, {root}. Use a path inside of it.")
    return place


def require_inside(workdir: str, path: object) -> None:
    """Check that a path is inside of the folder of the goal.

    Raises: Invalid
    """
    confined(workdir, path)


@contextmanager
def opened_folder(workdir: str, path: object, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the open parent folder of a path, and the last part of the path.

    With `make`, missing folders are created durably.

    Raises: Invalid when the path is outside of the folder of the goal, or that folder itself; OSError.
    """
    root = Path(workdir).resolve()
    parts = confined(workdir, path).relative_to(root).parts
    if not parts:
        raise Invalid(f"{path!r} is the folder of the goal. Use a file in it.")
    folder = descend(root, parts[:-1], make=make)
    try:
        yield folder, parts[-1]
    finally:
        os.close(folder)


def descend(root: Path, parts: Sequence[str], *, make: bool = False) -> int:
    """Open a subfolder, part by part without following links, so that a swapped link cannot lead outside.

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
