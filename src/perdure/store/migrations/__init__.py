"""The chain of migrations. Revisions are 0001, 0002, …; a released one is never changed."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Chain:
    """A folder of migrations, and the number of its newest, which is known without importing Alembic."""

    folder: Path
    head: int

    def is_known(self, revision: str) -> bool:
        """Tell whether a revision that a database names is one of ours, and not newer."""
        return revision.isascii() and revision.isdecimal() and int(revision) <= self.head

    def refusal(self, location: str, version: str) -> str:
        """Say that a database was made by a newer Perdure."""
        return (
            f"{location} has version {version}, and this Perdure knows versions up to {self.head:04d}."
            " It was not changed. Install the newer Perdure that wrote it, or restore an older backup."
        )

    def outdated(self, location: str, version: str) -> str:
        """Say that a newer Perdure has migrated a database that this process has open."""
        return (
            f"{location} was migrated to version {version} by a newer Perdure while this process was running, which"
            f" knows versions up to {self.head:04d}. Nothing was written. Restart this process with the newer Perdure."
        )


CHAIN = Chain(Path(__file__).parent, head=12)
"""Ours. A test keeps its head equal to Alembic's."""
