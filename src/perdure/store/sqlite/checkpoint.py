"""When to move the write-ahead log back into the database file."""

import os
from pathlib import Path

PAGES = 1000
PAGE_BYTES = 4096
COMMITS_PER_LOOK = 8
"""How often the size of the log is looked at: a look costs as much as a statement."""


class CheckpointPlan:
    """Tells when about 1,000 pages have gathered in the log, without asking SQLite at each commit.

    The log's size shows it while the file grows. Once the file has been written over from its beginning, the size
    stays, and the pages that a commit took on average since the last checkpoint tell instead.
    """

    def __init__(self) -> None:
        self._commits = 0
        self._pages_per_commit = 4.0
        self._size_at_last = 0

    def is_due(self, wal: Path) -> bool:
        """Count one commit, and tell whether it is time."""
        self._commits += 1
        if self._commits * self._pages_per_commit >= PAGES:
            return True
        return self._commits % COMMITS_PER_LOOK == 0 and self._growth(wal) >= PAGES * PAGE_BYTES

    def done(self, wal: Path, pages: int) -> None:
        """Adapt to the number of pages that a checkpoint found in the log."""
        self._pages_per_commit = max(pages / max(self._commits, 1), 1.0)
        self._commits = 0
        self._size_at_last = _size(wal)

    def _growth(self, wal: Path) -> int:
        return _size(wal) - self._size_at_last


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
