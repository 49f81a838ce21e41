"""Compares a database with the expected schema."""

import sqlalchemy as sa

from perdure.store.schema import VIEWS, metadata


def schema_problems(core: sa.Connection) -> list[str]:
    """Return a message for every missing table, column, index and view."""
    inspector = sa.inspect(core)
    tables = set(inspector.get_table_names())
    found = [f"the view {view} is missing" for view in VIEWS if view not in inspector.get_view_names()]
    for table in metadata.sorted_tables:
        if table.name not in tables:
            found.append(f"the table {table.name} is missing")
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        indexes = {index["name"] for index in inspector.get_indexes(table.name)}
        found += [f"the column {table.name}.{c.name} is missing" for c in table.columns if c.name not in columns]
        found += [f"the index {i.name} is missing" for i in _sorted(table.indexes) if i.name not in indexes]
    return found


def _sorted(indexes: set[sa.Index]) -> list[sa.Index]:
    return sorted(indexes, key=lambda index: str(index.name))
