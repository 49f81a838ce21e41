"""Where a database is: paths and URLs."""

from pathlib import Path

import pytest

from perdure import Invalid
from perdure.store.target import PostgresTarget, SqliteTarget, parse_target


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (":memory:", None),
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("/a/b.db", Path("/a/b.db")),
        ("sqlite:////a/b.db", Path("/a/b.db")),
        ("/a/../b.db", Path("/b.db")),
        (Path("/a/b.db"), Path("/a/b.db")),
    ],
)
def test_sqlite_is_named_by_a_path_or_a_url(text: str | Path, path: Path | None) -> None:
    assert parse_target(text) == SqliteTarget(path)


def test_a_relative_path_is_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_target("a.db") == parse_target("sqlite:///a.db") == SqliteTarget(tmp_path / "a.db")


def test_a_tilde_is_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert parse_target("~/a.db") == SqliteTarget(Path("/somebody/a.db"))


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgresql_has_several_spellings(scheme: str) -> None:
    assert parse_target(f"{scheme}://u:secret@h/d?sslmode=require") == PostgresTarget(
        "postgresql://u:secret@h/d?sslmode=require"
    )


def test_a_password_is_never_shown() -> None:
    assert "secret" not in PostgresTarget("postgresql://u:secret@h/d?password=secret").shown


@pytest.mark.parametrize(
    "text", ["", "mysql://u:secret@h/d", "sqlite://host/file", "sqlite:///a.db?mode=ro", "a\0b", "redis://h", "://x"]
)
def test_what_cannot_be_understood_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as failure:
        parse_target(text)
    assert "secret" not in str(failure.value)
