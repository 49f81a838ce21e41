"""Keep the calls that were made under a key, so that a repeated one is done once."""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    integer = by_dialect(sqlite="INTEGER", postgresql="BIGINT")
    octets = by_dialect(sqlite="BLOB", postgresql="BYTEA")
    strict = by_dialect(sqlite=" STRICT", postgresql="")
    op.execute(
        "CREATE TABLE idempotency_keys ("
        "key TEXT NOT NULL, route TEXT NOT NULL,"
        f" body_sha256 {octets} NOT NULL, subject TEXT NOT NULL, created_at {integer} NOT NULL,"
        " CONSTRAINT pk_idempotency_keys PRIMARY KEY (key),"
        f" CONSTRAINT ck_idempotency_keys_body_sha256 CHECK (length(body_sha256) = 32)){strict}"
    )
    op.execute("CREATE INDEX idx_idempotency_keys_created ON idempotency_keys (created_at)")
