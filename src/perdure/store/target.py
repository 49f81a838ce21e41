"""The location of a database: a SQLite file, SQLite in memory, or a PostgreSQL URL."""

import os
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import Invalid, Unavailable
from perdure.settings import shown_location

MEMORY = ":memory:"
_POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


@dataclass(frozen=True)
class SqliteTarget:
    """A SQLite file, or a private database in memory when there is no path."""

    path: Path | None

    @property
    def shown(self) -> str:
        return str(self.path or MEMORY)


@dataclass(frozen=True)
class PostgresTarget:
    """A PostgreSQL database, named by a URL that libpq understands."""

    url: str

    @property
    def shown(self) -> str:
        return shown_location(self.url)


def parse_target(url_or_path: str | os.PathLike[str]) -> SqliteTarget | PostgresTarget:
    """Parse a path, `:memory:`, a `sqlite:` URL or a PostgreSQL URL.

    Raises: Invalid
    """
    text = os.fspath(url_or_path)
    if not text or "\0" in text:
        raise Invalid("A database path or URL must not be empty or contain NUL.")
    if text == MEMORY:
        return SqliteTarget(None)
    scheme, separator, rest = text.partition("://")
    if shown_location(text) == "***":
        raise Invalid(
            "The database is named like a PostgreSQL connection, but not by a URL: postgresql://USER@HOST/NAME."
        )
    if not separator:
        return SqliteTarget(_path(text))
    if scheme == "sqlite":
        return _sqlite(rest, text)
    if scheme in _POSTGRES_SCHEMES:
        return PostgresTarget(f"postgresql://{rest}")
    raise Invalid(
        f"{shown_location(text)}: unknown kind of database {scheme!r}."
        " Give a file, sqlite:///FILE or postgresql://USER@HOST/NAME."
    )


def _sqlite(rest: str, text: str) -> SqliteTarget:
    if rest in ("", "/", f"/{MEMORY}"):
        return SqliteTarget(None)
    if not rest.startswith("/") or "?" in rest:
        raise Invalid(
            f"{shown_location(text)} must have the form sqlite:///relative/file or sqlite:////absolute/file,"
            " without options."
        )
    return SqliteTarget(_path(rest[1:]))


def _path(text: str) -> Path:
    """Return the path with links resolved: SQLite keeps its log beside the file, and renames must not replace links."""
    try:
        path = Path(os.path.abspath(Path(text).expanduser()))
        if path.is_symlink() and not path.exists():
            raise Unavailable(f"{path} is a link to a missing file. Is a disk not mounted?")
        return Path(os.path.realpath(path))
    except (RuntimeError, OSError) as error:
        raise Invalid(f"{text!r} is not a valid path: {error}.") from error
