"""One schema: what the migrations make equals what the code believes, on both databases alike."""

from enum import StrEnum
from typing import Any

import pytest
import sqlalchemy as sa

from perdure.forge.vocabulary import BuilderMode, BuilderPhase
from perdure.projects import vocabulary
from perdure.store.schema import metadata

NINE = {
    "projects",
    "features",
    "sub_features",
    "tasks",
    "agents",
    "checkpoints",
    "requirements",
    "metrics",
    "sessions",
}

TYPE_NAMES = {
    # what PostgreSQL calls it: what SQLite calls it
    "TEXT": "TEXT",
    'TEXT COLLATE "C"': "TEXT",
    "BIGINT": "INTEGER",
    "DOUBLE PRECISION": "REAL",
    "BOOLEAN": "INTEGER",
    "BYTEA": "BLOB",
}


@pytest.fixture(scope="session")
def engines(migrated_sqlite: str, migrated_postgresql: str) -> dict[str, sa.Engine]:
    postgresql = migrated_postgresql.replace("postgresql://", "postgresql+psycopg://")
    return {
        "sqlite": sa.create_engine(f"sqlite:///{migrated_sqlite}", poolclass=sa.NullPool),
        "postgresql": sa.create_engine(postgresql, poolclass=sa.NullPool),
    }


@pytest.fixture(scope="session")
def inspectors(engines: dict[str, sa.Engine]) -> dict[str, sa.Inspector]:
    return {name: sa.inspect(engine) for name, engine in engines.items()}


def shape(inspector: sa.Inspector, table: str) -> dict[str, Any]:
    """Everything that a table promises, in words that both databases share."""
    return {
        "columns": {
            column["name"]: (
                TYPE_NAMES.get(str(column["type"]), str(column["type"])),
                column["nullable"],
                _default(column["default"]),
            )
            for column in inspector.get_columns(table)
        },
        "primary key": inspector.get_pk_constraint(table),
        "unique": {item["name"]: item["column_names"] for item in inspector.get_unique_constraints(table)},
        "foreign keys": {
            item["name"]: (
                item["constrained_columns"],
                item["referred_table"],
                item["referred_columns"],
                item["options"].get("ondelete", "NO ACTION"),
            )
            for item in inspector.get_foreign_keys(table)
        },
        "indexes": {
            item["name"]: (item["column_names"], bool(item["unique"]), _where(item))
            for item in inspector.get_indexes(table)
            if not item.get("duplicates_constraint")
        },
    }


def _default(value: str | None) -> str | None:
    if value is None or "nextval" in value:
        return None
    return value.removesuffix("::text").strip("'()")


def _where(index: Any) -> bool:
    options = index.get("dialect_options", {})
    return any(key.endswith("_where") for key in options)


def checks(inspector: sa.Inspector, table: str) -> set[str]:
    return {
        str(item["name"])
        for item in inspector.get_check_constraints(table)
        if not any(mark in item["sqltext"] for mark in ("IN (0, 1)",))
    }


def primary_key_without_details(found: dict[str, Any]) -> dict[str, Any]:
    key = found["primary key"]
    return {**found, "primary key": (key["name"], key["constrained_columns"])}


def test_both_databases_have_the_same_tables(inspectors: dict[str, sa.Inspector]) -> None:
    names = {name: set(inspector.get_table_names()) for name, inspector in inspectors.items()}
    assert names["sqlite"] == names["postgresql"] == set(metadata.tables) | {"alembic_version"}
    assert names["sqlite"] > NINE


@pytest.mark.parametrize("table", sorted(metadata.tables))
def test_a_table_is_the_same_on_both_databases(inspectors: dict[str, sa.Inspector], table: str) -> None:
    sqlite, postgresql = (primary_key_without_details(shape(i, table)) for i in inspectors.values())
    assert sqlite == postgresql
    assert checks(inspectors["sqlite"], table) == checks(inspectors["postgresql"], table)


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
def test_the_migrations_make_what_the_code_believes(
    engines: dict[str, sa.Engine], request: pytest.FixtureRequest, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A second database is made straight from the metadata, and the two are compared."""
    if name == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('metadata')}/direct.db"
    else:
        url = (
            request.getfixturevalue("postgres").new_database("direct").replace("postgresql://", "postgresql+psycopg://")
        )
    direct = sa.create_engine(url, poolclass=sa.NullPool)
    metadata.create_all(direct)
    by_code, by_migrations = sa.inspect(direct), sa.inspect(engines[name])
    for table in metadata.tables:
        assert shape(by_code, table) == shape(by_migrations, table)
        assert _texts(by_code, table) == _texts(by_migrations, table)


def _texts(inspector: sa.Inspector, table: str) -> dict[str, str]:
    return {str(item["name"]): " ".join(item["sqltext"].split()) for item in inspector.get_check_constraints(table)}


def test_sqlite_tables_are_strict(engines: dict[str, sa.Engine]) -> None:
    with engines["sqlite"].connect() as connection:
        rows = connection.exec_driver_sql("PRAGMA table_list").mappings().all()
    assert {row["name"] for row in rows if row["type"] == "table" and not row["strict"]} == {
        "alembic_version",
        "sqlite_schema",
        "sqlite_temp_schema",
    }


def test_the_index_names_of_the_specification_are_kept(inspectors: dict[str, sa.Inspector]) -> None:
    names = {index["name"] for table in metadata.tables for index in inspectors["sqlite"].get_indexes(table)}
    assert names >= {
        "idx_features_project",
        "idx_tasks_project",
        "idx_tasks_status",
        "idx_agents_status",
        "idx_checkpoints_project",
    }


def test_the_vocabulary_is_the_one_of_the_specification() -> None:
    said = {
        name: [str(word) for word in words]
        for name, words in vars(vocabulary).items()
        if isinstance(words, type) and issubclass(words, StrEnum) and words is not StrEnum
    }
    assert said == {
        "ProjectMode": ["genesis", "evolution"],
        "ProjectStatus": ["created", "interviewing", "planning", "executing", "paused", "completed", "failed"],
        "FeatureStatus": ["backlog", "planning", "in_progress", "ai_review", "human_review", "done"],
        "TaskStatus": [
            *("pending", "queued", "assigned", "in_progress", "qa_loop", "escalated"),
            *("approved", "merging", "completed", "failed", "blocked", "cancelled"),
        ],
        "AgentType": ["planner", "coder", "tester", "reviewer", "merger"],
        "AgentStatus": ["idle", "assigned", "working", "waiting", "error", "terminated"],
        "SessionType": ["interview", "planning", "execution", "review"],
        "SessionStatus": ["active", "paused", "completed"],
        "Priority": ["must", "should", "could", "wont"],
        "TaskSize": ["atomic", "small"],
        "MetricType": ["token_usage", "task_duration", "qa_iterations", "cost_usd"],
    }
    assert list(BuilderMode) == ["bot", "reconfigure", "skill", "batch"]
    assert list(BuilderPhase) == ["basics", "personality", "model", "skills", "review"]
