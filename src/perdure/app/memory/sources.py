"""Sources of records: reverts in a git history, and reports of tests; see `goal_ingest` for goals."""

from collections.abc import Sequence
from pathlib import Path

from perdure.memory.ingest.git import Repository
from perdure.memory.ingest.junit import junit
from perdure.memory.ingest.report import SourceRecords, store
from perdure.memory.ingest.revert import reverts

__all__ = ["SourceRecords", "read_reports", "reverts", "store"]


def read_reports(
    paths: Sequence[Path], *, root: Path, repo: str | None, sha: str | None, pr: int | None
) -> SourceRecords:
    """Read reports in the XML of JUnit; without a name, the repository is that of `root`."""
    collected = SourceRecords()
    repository = Repository(root)
    name = repo or repository.name()
    commit = repository.commit_or_id(sha) if sha is not None else None
    for path in paths:
        collected.extend(junit(path, root=root.absolute(), repo=name, sha=commit, pr=pr))
    return collected
