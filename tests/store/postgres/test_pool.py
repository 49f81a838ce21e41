"""The pool of databases that tests use one after the other: a test finds no rows and no changed schema of another."""

import secrets

import psycopg
import pytest

from tests.postgres import DatabasePool, PostgresServer

TABLES = """
CREATE TABLE alembic_version (version_num TEXT);
INSERT INTO alembic_version VALUES ('1');
CREATE TABLE parents (id INTEGER PRIMARY KEY);
CREATE TABLE children (parent INTEGER REFERENCES parents);
"""
ROWS = "INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1)"


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(statements.encode())


def rows(url: str) -> int:
    with psycopg.connect(url) as connection:
        ((count,),) = connection.execute("SELECT (SELECT count(*) FROM parents) + (SELECT count(*) FROM children)")
        return int(count)


@pytest.fixture
def pool(postgres: PostgresServer) -> DatabasePool:
    def create() -> str:
        url = postgres.new_database(f"pool_{secrets.token_hex(6)}")
        execute(url, TABLES)
        return url

    return DatabasePool(create)


def lend(pool: DatabasePool, statements: str) -> str:
    """Lend a database to a test that finds no rows, and executes statements."""
    with pool.database() as url:
        assert rows(url) == 0
        execute(url, statements)
    return url


def test_one_database_is_lent_again_and_again_without_rows(pool: DatabasePool) -> None:
    assert len({lend(pool, statements) for statements in (ROWS, "SELECT 1", ROWS, "TRUNCATE children", ROWS)}) == 1


def test_sessions_that_a_test_leaves_open_are_ended_and_what_they_wrote_is_deleted(pool: DatabasePool) -> None:
    with pool.database() as url:
        left = psycopg.connect(url, autocommit=True)
        left.execute(ROWS.encode())
    assert lend(pool, "SELECT 1") == url
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")


def test_rows_are_deleted_although_the_server_has_lost_count(pool: DatabasePool) -> None:
    with pool.database() as url:
        execute(url, ROWS)
        execute(url, "SELECT pg_stat_reset()")
    assert lend(pool, "SELECT 1") == url


def test_a_table_that_was_made_and_dropped_changes_nothing(pool: DatabasePool) -> None:
    url = lend(pool, "CREATE TABLE more (id INTEGER); DROP TABLE more")
    assert lend(pool, "SELECT 1") == url


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (id INTEGER)",
        "ALTER TABLE children ADD COLUMN age INTEGER",
        "CREATE INDEX of_parents ON children (parent)",
        "DROP TABLE children; CREATE TABLE children (parent INTEGER)",
        "CREATE VIEW both_ids AS SELECT id FROM parents",
        "UPDATE alembic_version SET version_num = '2'",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET statement_timeout = 1000', current_database()); END $$",
    ],
)
def test_a_database_whose_schema_was_changed_is_not_lent_again(pool: DatabasePool, change: str) -> None:
    assert lend(pool, change) != lend(pool, "SELECT 1")
