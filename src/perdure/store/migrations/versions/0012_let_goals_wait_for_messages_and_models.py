"""Let goals wait for the next message of a conversation, and for a model that has not answered.

SQLite cannot change a CHECK, so there the table is made again by its own statement; its rows and indexes stay.
"""

import sqlalchemy as sa
from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0012"
down_revision = "0011"

BEFORE = "waiting_for IN ('person', 'signal', 'timer', 'limit', 'child', 'hold')"
AFTER = "waiting_for IN ('person', 'signal', 'timer', 'limit', 'child', 'hold', 'message', 'model')"


def upgrade() -> None:
    by_dialect(sqlite=_make_again, postgresql=_alter)()


def _make_again() -> None:
    query = "SELECT sql FROM sqlite_master WHERE tbl_name = 'goals' AND sql IS NOT NULL ORDER BY type = 'table' DESC"
    table, *others = op.get_bind().execute(sa.text(query)).scalars()
    op.execute("CREATE TABLE goals_before AS SELECT * FROM goals")
    op.execute("DROP TABLE goals")
    op.get_bind().exec_driver_sql(table.replace(BEFORE, AFTER))
    op.execute("INSERT INTO goals SELECT * FROM goals_before")
    op.execute("DROP TABLE goals_before")
    for statement in others:
        op.get_bind().exec_driver_sql(statement)


def _alter() -> None:
    op.execute("ALTER TABLE goals DROP CONSTRAINT ck_goals_waiting_for")
    op.execute(f"ALTER TABLE goals ADD CONSTRAINT ck_goals_waiting_for CHECK ({AFTER})")
