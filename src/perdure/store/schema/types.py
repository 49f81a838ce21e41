"""Column types that mean the same on SQLite and PostgreSQL.

SQLite tables are STRICT, so a column accepts only values of its type, as on PostgreSQL. Conversions still differ:
PostgreSQL rounds 1.5 for an integer column, SQLite rejects it.
"""

from typing import Any

import sqlalchemy as sa

Text = sa.Text()
Slug = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""A name that lists are sorted by: in the order of code points, as on SQLite, regardless of the locale."""
Integer = sa.BigInteger().with_variant(sa.INTEGER(), "sqlite")
Micros = Integer
"""A moment: microseconds since 1970, UTC."""
Real: sa.Double[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
Bytes = sa.LargeBinary()
Json = sa.Text()
"""JSON as text; its column has a check that it is valid."""


class Flag(sa.types.TypeDecorator[bool]):
    """True or false: BOOLEAN on PostgreSQL, INTEGER (0 or 1) on SQLite, whose strict tables have no boolean."""

    impl = sa.Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        is_sqlite = dialect.name == "sqlite"
        return dialect.type_descriptor(sa.INTEGER() if is_sqlite else sa.Boolean())

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return int(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> bool | None:  # noqa: ARG002 (SQLAlchemy calls it)
        return None if value is None else bool(value)
