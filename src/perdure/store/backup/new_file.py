"""A new file of a backup or a restore: durable under its name when it is complete, or not there at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, from_os_error
from perdure.files.atomic import part_file


@contextlib.contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Give the block an empty private file to fill by its path; afterwards it is durable under the name `target`.

    Raises: Conflict when the name is taken; Denied; Unavailable when there is no room. An error leaves nothing.
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
    return Conflict(f"{target} is there already and was not changed. Choose another name.")
