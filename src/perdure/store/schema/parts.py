"""Constructors of tables, columns, checks and indexes with the same meaning on SQLite and PostgreSQL."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from perdure.store.schema.types import Integer, Text

LARGEST_REAL = "1.7976931348623157e308"
"""An upper bound that rejects infinity on both databases, and NaN on PostgreSQL, where NaN is the largest number."""

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    """Return a table that accepts only values of the types of its columns."""
    return sa.Table(name, metadata, *items, sqlite_strict=True)


def column(name: str, type_: Any, default: str | None = None, *, optional: bool = False) -> sa.Column[Any]:
    """Return a column, NOT NULL unless it is optional."""
    return sa.Column(name, type_, nullable=optional, server_default=None if default is None else sa.text(default))


def id_column() -> sa.Column[str]:
    """Return a primary key that the creator of a row provides."""
    return sa.Column("id", Text, primary_key=True, nullable=False)


def number(name: str) -> sa.Column[int]:
    """Return a primary key that the database assigns in the order of creation."""
    return sa.Column(name, Integer, sa.Identity(always=False), primary_key=True, nullable=False)


def one_of(name: str, words: Iterable[str]) -> sa.CheckConstraint:
    """Return a check that a column has one of some words."""
    return sa.CheckConstraint(f"{name} IN ({', '.join(repr(str(word)) for word in words)})", name=name)


def index_where(condition: sa.ColumnElement[bool], name: str, *columns: sa.Column[Any], unique: bool = False) -> None:
    """Add a partial index."""
    sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def check(name: str, condition: str) -> sa.CheckConstraint:
    """Return a check constraint."""
    return sa.CheckConstraint(condition, name=name)


def json_check(name: str) -> tuple[sa.CheckConstraint, sa.CheckConstraint]:
    """Return the checks, one per database, that a text is JSON."""
    return (
        sa.CheckConstraint(f"{name} IS NULL OR json_valid({name})", name=f"{name}_json").ddl_if(dialect="sqlite"),
        sa.CheckConstraint(f"{name} IS NULL OR CAST({name} AS JSON) IS NOT NULL", name=f"{name}_json").ddl_if(
            dialect="postgresql"
        ),
    )
