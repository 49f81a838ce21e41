"""The repositories that records are about: paths that people type, and the name of a repository."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.memory.ingest.checkout import in_repository, is_shallow, repository_root

__all__ = ["in_repository", "is_shallow", "with_repository"]


def with_repository(record: Mapping[str, Any], path: Path | None) -> dict[str, Any]:
    """Return a record that names paths, a commit or a pull request with its repository: that of `origin`, if any.

    It is the repository of a path, which may be another than that of the current folder.
    """
    from perdure.memory.ingest.git import Repository

    needs_one = "repo" not in record and any(key in record for key in ("paths", "sha", "pr_number"))
    folder = None if path is None else repository_root(path)
    name = Repository(folder).name() if needs_one else None
    return {**record} if name is None else {**record, "repo": name}
