"""Creates a new file of a backup or restore atomically: it is complete and durable, or it does not exist."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, from_os_error
from perdure.files.atomic import part_file


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield the path of an empty private file; after the block it is durable under the name `target`.

    Raises: Conflict when the name is taken; Denied; Unavailable when the disk is full. After an error, no file is left.
    """
    if target.exists():
        raise _taken(target)
    try:
        with part_file(target) as part:
            part.close()
            yield part.path
            part.fsync()
            failpoints.hit("store.backup.before")
            part.publish()
    except FileExistsError:
        raise _taken(target) from None
    except OSError as error:
        raise from_os_error(f"{target} cannot be written", error) from error
    failpoints.hit("store.backup.after")


def _taken(target: Path) -> Conflict:
    return Conflict(f"{target} already exists and was not changed. Choose another name.")
