"""Idempotent calls in the database: kept for a day, and stored in the transaction of their changes."""

import time
from collections.abc import Callable
from dataclasses import replace

from perdure.errors import Conflict
from perdure.kernel.ports import IdempotentCall
from perdure.store.client import DatabaseClient
from perdure.store.raw import RawTransaction

KEPT_US = 24 * 3600 * 1_000_000
_FIND = "SELECT key, route, body_sha256, subject FROM idempotency_keys WHERE key = ? AND created_at > ?"
_FORGET = "DELETE FROM idempotency_keys WHERE created_at <= ?"
_FREE = "DELETE FROM idempotency_keys WHERE key = ? AND route = ? AND body_sha256 = ?"
_SETTLE = "UPDATE idempotency_keys SET subject = ? WHERE key = ? AND route = ? AND body_sha256 = ? AND subject = ?"
_KEEP = (
    "INSERT INTO idempotency_keys (key, route, body_sha256, subject, created_at) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (key) DO NOTHING RETURNING key"
)


class SqlIdempotencyKeys:
    """Idempotent calls in a SQL database. See IdempotencyKeys."""

    def __init__(self, client: DatabaseClient, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._client = client
        self._now_us = now_us

    async def find(self, key: str) -> IdempotentCall | None:
        """See IdempotencyKeys.find."""
        return await self._client.read_raw(lambda raw: _find(raw, key, self._now_us()))

    async def keep(self, call: IdempotentCall) -> IdempotentCall:
        """See IdempotencyKeys.keep."""
        try:
            await self._client.write_raw(lambda raw: keep_call(raw, call, self._now_us()))
        except Conflict:
            known = await self.find(call.key)
            if known is None:
                raise
            return known
        return call

    async def settle(self, call: IdempotentCall, subject: str) -> IdempotentCall:
        """See IdempotencyKeys.settle."""
        settled = await self._client.write_raw(lambda raw: _settle(raw, call, subject, self._now_us()))
        return replace(call, subject=subject) if settled is None else settled

    async def forget(self, call: IdempotentCall) -> None:
        """See IdempotencyKeys.forget."""
        await self._client.write_raw(lambda raw: raw.execute(_FREE, call.key, call.route, call.body_sha256) and None)


def keep_call(raw: RawTransaction, call: IdempotentCall, now_us: int) -> None:
    """Store a call in the transaction of its changes, and delete calls that are older than a day.

    Raises: Conflict when its key was used.
    """
    raw.execute(_FORGET, now_us - KEPT_US)
    if raw.first(_KEEP, call.key, call.route, call.body_sha256, call.subject, now_us) is None:
        raise Conflict(f"The key {call.key!r} was already used.")


def _settle(raw: RawTransaction, call: IdempotentCall, subject: str, now_us: int) -> IdempotentCall | None:
    raw.execute(_SETTLE, subject, call.key, call.route, call.body_sha256, call.subject)
    return _find(raw, call.key, now_us)


def _find(raw: RawTransaction, key: str, now_us: int) -> IdempotentCall | None:
    row = raw.first(_FIND, key, now_us - KEPT_US)
    return None if row is None else IdempotentCall(row[0], row[1], bytes(row[2]), row[3])
