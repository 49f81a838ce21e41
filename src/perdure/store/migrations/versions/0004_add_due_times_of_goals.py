"""Keep when a sleeping goal is due, so that waking goals is one index look-up."""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.execute(f"ALTER TABLE goals ADD COLUMN due_at {by_dialect(sqlite='INTEGER', postgresql='BIGINT')}")
    op.execute("CREATE INDEX idx_goals_due ON goals (due_at) WHERE due_at IS NOT NULL")
