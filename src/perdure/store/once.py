"""The calls that were made under a key, in the database: kept for a day, in the transaction of what they changed."""

import time
from collections.abc import Callable

import sqlalchemy as sa

from perdure.errors import Conflict
from perdure.kernel.ports import Once
from perdure.store.client import DatabaseClient
from perdure.store.schema.once import idempotency_keys
from perdure.store.transaction import Transaction

KEPT_US = 24 * 3600 * 1_000_000


class SqlIdempotencyKeys:
    """The calls that were made under a key, in a SQL database. See IdempotencyKeys."""

    def __init__(self, client: DatabaseClient, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._client = client
        self._now_us = now_us

    async def find(self, key: str) -> Once | None:
        """See IdempotencyKeys.find."""
        return await self._client.read(lambda tx: _find(tx, key, self._now_us()))

    async def keep(self, once: Once) -> Once:
        """See IdempotencyKeys.keep."""
        try:
            return await self._client.transaction(lambda tx: _kept(tx, once, self._now_us()))
        except Conflict:  # another process was quicker, between our look and our insert
            known = await self.find(once.key)
            if known is None:
                raise
            return known


def keep_once(tx: Transaction, once: Once, now_us: int) -> None:
    """Note a call in the transaction of what it changes; those of yesterday are forgotten.

    Raises: Conflict when its key was used.
    """
    c = idempotency_keys.c
    tx.execute(sa.delete(idempotency_keys).where(c.created_at <= now_us - KEPT_US))
    if _find(tx, once.key, now_us) is not None:
        raise Conflict(f"The key {once.key!r} was used already.")
    row = {"key": once.key, "route": once.route, "body_sha256": once.body_sha256, "subject": once.subject}
    tx.execute(sa.insert(idempotency_keys).values(created_at=now_us, **row))


def _kept(tx: Transaction, once: Once, now_us: int) -> Once:
    known = _find(tx, once.key, now_us)
    if known is None:
        keep_once(tx, once, now_us)
    return known or once


def _find(tx: Transaction, key: str, now_us: int) -> Once | None:
    c = idempotency_keys.c
    query = sa.select(c.key, c.route, c.body_sha256, c.subject).where(c.key == key, c.created_at > now_us - KEPT_US)
    row = tx.execute(query).first()
    return None if row is None else Once(row.key, row.route, bytes(row.body_sha256), row.subject)
