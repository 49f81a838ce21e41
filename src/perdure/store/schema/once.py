"""The table of idempotent calls."""

import sqlalchemy as sa

from perdure.store.schema.parts import check, column, table
from perdure.store.schema.types import Bytes, Micros, Text

idempotency_keys = table(
    "idempotency_keys",
    sa.Column("key", Text, primary_key=True, nullable=False),
    column("route", Text),
    column("body_sha256", Bytes),
    column("subject", Text),
    column("created_at", Micros),
    check("body_sha256", "length(body_sha256) = 32"),
    sa.Index("idx_idempotency_keys_created", "created_at"),
)
