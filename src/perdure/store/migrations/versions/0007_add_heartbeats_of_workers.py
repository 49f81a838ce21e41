"""Count the renewals of each lease, and keep how long it lasts: an observer times them by its own clock."""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    integer = by_dialect(sqlite="INTEGER", postgresql="BIGINT")
    op.execute(f"ALTER TABLE leases ADD COLUMN beat {integer} DEFAULT 0 NOT NULL")
    op.execute(f"ALTER TABLE leases ADD COLUMN ttl_us {integer} DEFAULT 30000000 NOT NULL")
