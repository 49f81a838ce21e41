"""Arguments of the memory, resolved before anything is read or stored: commits, paths, limits and records."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import Invalid
from perdure.memory.normalise import normalised, paths_inside
from perdure.memory.query.further import MOST_SHOWN, further_matches

__all__ = [
    "MOST_SHOWN",
    "commit_id",
    "commit_with_paths",
    "differing_fields",
    "find_invalid",
    "further_matches",
    "paths_inside",
]


def commit_id(text: str) -> str:
    """Return the full id of a commit of the repository here; an id of another repository is returned unchanged.

    Raises: Invalid; NotFound, for a name that is not an id; Unavailable when git cannot be run.
    """
    from perdure.memory.ingest.git import Repository

    return Repository().commit_or_id(text)


def commit_with_paths(name: str) -> tuple[str, list[str]]:
    """Return the id of a commit of the repository here, and the paths that it changed.

    Raises: NotFound; Unavailable when git cannot be run.
    """
    from perdure.memory.ingest.git import Repository

    repository = Repository()
    sha = repository.commit(name)
    return sha, paths_inside(repository.changed_paths(sha))


def find_invalid(records: Sequence[Mapping[str, Any]]) -> tuple[int, Invalid] | None:
    """Return the number of the first record that cannot be stored, and why; None when all can be."""
    now_ms = time.time_ns() // 1_000_000
    for number, record in enumerate(records, start=1):
        try:
            normalised(record, now_ms)
        except Invalid as found:
            return number, found
    return None


def differing_fields(record: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields of a valid record that differ from those of a stored one.

    An id and a time that the record does not have are not compared.
    """
    given = normalised(record, time.time_ns() // 1_000_000)
    names = (name for name in given if record.get(name) is not None or name not in ("id", "timestamp", "v"))
    return [name for name in names if given[name] != stored.get(name)]
