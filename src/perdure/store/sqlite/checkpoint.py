"""Decides when to transfer the write-ahead log to the database file."""

import os
from pathlib import Path

PAGES = 1000
PAGE_BYTES = 4096
COMMITS_PER_CHECK = 8
"""The number of commits between checks of the size of the log; a check costs as much as a statement."""


class CheckpointPlan:
    """Estimates when the log has about 1,000 pages, without a query at each commit.

    While the file of the log grows, its size is the measure. After SQLite restarts the log at the beginning of the
    file, the size does not change; then the average number of pages per commit since the last checkpoint is the
    measure.
    """

    def __init__(self) -> None:
        self._commits = 0
        self._pages_per_commit = 4.0
        self._size_at_last = 0

    def is_due(self, wal: Path) -> bool:
        """Count one commit, and return whether a checkpoint is due."""
        self._commits += 1
        if self._commits * self._pages_per_commit >= PAGES:
            return True
        return self._commits % COMMITS_PER_CHECK == 0 and self._growth(wal) >= PAGES * PAGE_BYTES

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
