"""${message}"""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    ${upgrades if upgrades else "raise NotImplementedError"}
