"""Index open goals by queue and owner, and posted goals by owner and queue: a worker finds its next goal by them."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.execute("DROP INDEX idx_goals_posted")
    op.execute("CREATE INDEX idx_goals_posted ON goals (worker, queue, goal_no) WHERE inbox_count > 0")
    op.execute(
        "CREATE INDEX idx_goals_queue ON goals (queue, worker, goal_no)"
        " WHERE status NOT IN ('waiting', 'done', 'failed', 'cancelled') AND deleted_at IS NULL"
    )
