"""The repositories of records: resolves typed paths, and finds the name of a repository."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.memory.ingest.checkout import is_shallow, path_in_repository, repository_root

__all__ = ["is_shallow", "path_in_repository", "with_repository"]


def with_repository(record: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """Return a record with the name of its repository, if it has paths, a commit or a pull request but no repository.

    The name is that of the remote `origin` of the repository that contains `path` (default: the current folder).
    """
    from perdure.memory.ingest.git import Repository

    needs_one = "repo" not in record and any(key in record for key in ("paths", "sha", "pr_number"))
    folder = None if path is None else repository_root(path)
    name = Repository(folder).name() if needs_one else None
    return {**record} if name is None else {**record, "repo": name}
