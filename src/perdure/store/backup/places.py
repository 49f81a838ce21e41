"""The parts of a home in a backup, and their paths. Opening a home imports only this module of the restore."""

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
    """The paths of the parts of a home."""

    home: Path
    database: SqliteTarget | PostgresTarget
    folders: Mapping[str, Path]
    locks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The lock files in each folder, in the order in which its writers take them."""


def is_restore_pending(home: Path) -> bool:
    """Return whether a restore was interrupted after its plan was written."""
    return os.path.lexists(home / PLAN)


def has_unfinished_restore(places: Places) -> bool:
    """Return whether a restore was interrupted, before or after its plan was written."""
    return is_restore_pending(places.home) or any(os.path.lexists(staged_path(place)) for place in all_places(places))


def all_places(places: Places) -> list[Path]:
    """Return every path that a restore may replace."""
    database = places.database.path if isinstance(places.database, SqliteTarget) else places.home / DATABASE
    return [*places.folders.values(), *([database] if database else [])]
