"""The chain of migrations. Revisions are 0001, 0002, …; a released one is never changed."""

HEAD = 1
"""The newest revision, known without importing Alembic; a test keeps it equal to Alembic's head."""


def newer_than_head(location: str, version: str) -> str:
    """Say that a database was made by a newer Perdure, which is why it is refused."""
    return (
        f"{location} has version {version}, and this Perdure knows versions up to {HEAD:04d}. It was left as it is."
        " Install the newer Perdure that wrote it, or restore an older backup."
    )
