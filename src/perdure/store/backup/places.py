"""What a backup of a home holds and where a restore puts it. Opening a home imports this, and no more of a restore."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perdure.store.sqlite.files import staged_path
from perdure.store.target import PostgresTarget, SqliteTarget

PLAN = "restore.json"
DATABASE = "database"
"""The name of the database in an archive."""


@dataclass(frozen=True)
class Places:
    """Where the things of a home belong."""

    home: Path
    database: SqliteTarget | PostgresTarget
    folders: Mapping[str, Path]
    locks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a folder the files in it that its writers lock, in the order in which they are taken."""


def is_restore_pending(home: Path) -> bool:
    """Tell whether a restore was interrupted after its plan was written."""
    return os.path.lexists(home / PLAN)


def has_unfinished_restore(places: Places) -> bool:
    """Tell whether a restore was interrupted, before or after its plan was written."""
    return is_restore_pending(places.home) or any(os.path.lexists(staged_path(place)) for place in all_places(places))


def all_places(places: Places) -> list[Path]:
    """Return every path that a restore may put something into."""
    database = places.database.path if isinstance(places.database, SqliteTarget) else places.home / DATABASE
    return [*places.folders.values(), *([database] if database else [])]
