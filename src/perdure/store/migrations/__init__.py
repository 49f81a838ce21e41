"""The chain of migrations. Revisions are 0001, 0002, …; a released one is never changed."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Chain:
    """A folder of migrations and the number of the newest one, available without importing Alembic."""

    folder: Path
    head: int

    def is_known(self, revision: str) -> bool:
        """Return whether a revision of a database is known, and so not newer than this program."""
        return revision.isascii() and revision.isdecimal() and int(revision) <= self.head

    def refusal(self, location: str, version: str) -> str:
        """Return the message for a database of a newer Perdure."""
        return (
            f"{location} has version {version}, and this Perdure knows versions up to {self.head:04d}."
            " It was not changed. Install the newer Perdure that wrote it, or restore an older backup."
        )

    def outdated(self, location: str, version: str) -> str:
        """Return the message for an open database that a newer Perdure has migrated."""
        return (
            f"{location} was migrated to version {version} by a newer Perdure while this process was running, which"
            f" knows versions up to {self.head:04d}. Nothing was written. Restart this process with the newer Perdure."
        )


CHAIN = Chain(Path(__file__).parent, head=13)
"""The chain of Perdure. A test compares its head with that of Alembic."""
