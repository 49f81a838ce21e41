"""What tables are made of: the columns and rules that mean the same on SQLite and PostgreSQL."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from perdure.store.schema.types import Integer, Text

LARGEST_REAL = "1.7976931348623157e308"
"""Refuses infinity on both databases, and NaN on PostgreSQL, where NaN is larger than everything."""

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    """Make a table that takes only what its columns say."""
    return sa.Table(name, metadata, *items, sqlite_strict=True)


def column(name: str, type_: Any, default: str | None = None, *, optional: bool = False) -> sa.Column[Any]:
    """Make a column; unless it is optional, every row has a value there."""
    return sa.Column(name, type_, nullable=optional, server_default=None if default is None else sa.text(default))


def id_column() -> sa.Column[str]:
    """A key that the creator of the row provides."""
    return sa.Column("id", Text, primary_key=True, nullable=False)


def number(name: str) -> sa.Column[int]:
    """A number that the database gives out in the order of creation."""
    return sa.Column(name, Integer, sa.Identity(always=False), primary_key=True, nullable=False)


def one_of(name: str, words: Iterable[str]) -> sa.CheckConstraint:
    """Refuse words in a column that are not of its vocabulary."""
    return sa.CheckConstraint(f"{name} IN ({', '.join(repr(str(word)) for word in words)})", name=name)


def index_where(condition: sa.ColumnElement[bool], name: str, *columns: sa.Column[Any], unique: bool = False) -> None:
    """Add an index of only those rows that a condition holds for."""
    sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def check(name: str, condition: str) -> sa.CheckConstraint:
    """Refuse rows for which a condition does not hold."""
    return sa.CheckConstraint(condition, name=name)


def json_check(name: str) -> tuple[sa.CheckConstraint, sa.CheckConstraint]:
    """Refuse a text that is not JSON; PostgreSQL does it by the cast."""
    return (
        sa.CheckConstraint(f"{name} IS NULL OR json_valid({name})", name=f"{name}_json").ddl_if(dialect="sqlite"),
        sa.CheckConstraint(f"{name} IS NULL OR CAST({name} AS JSON) IS NOT NULL", name=f"{name}_json").ddl_if(
            dialect="postgresql"
        ),
    )
