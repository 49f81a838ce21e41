"""Index the goals that something was posted to by who owns them: each worker asks for its own twice a second."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.execute("CREATE INDEX idx_goals_posted ON goals (worker) WHERE inbox_count > 0")
