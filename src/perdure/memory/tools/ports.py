"""The port of the tools of a bot to the memory."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Unpack

from perdure.memory.query.parameters import RelatedTo


class BotRecords(Protocol):
    """Adds and finds records. If the memory is switched off, results are empty and have `disabled`."""

    async def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> Mapping[str, Any]:
        """Store a record durably, unless a duplicate is stored: `{"added", "id" | "existing_id", "reason"}`.

        Raises: Invalid; Conflict when its id is taken by another record; Unavailable; Denied; Damaged.
        """
        ...

    async def get_exact(self, record_id: str) -> Mapping[str, Any]:
        """Return the record with an id.

        Raises: NotFound
        """
        ...

    async def related(
        self, *, limit: int | None = None, budget_ms: float = 50.0, **asked: Unpack[RelatedTo]
    ) -> Mapping[str, Any]:
        """Return records related to paths, a fingerprint and a text: `{"matches", "truncated"}`."""
        ...

    async def search(self, text: str, *, limit: int = 10, budget_ms: float = 50.0) -> Mapping[str, Any]:
        """Return records by words, best match first: `{"matches", "truncated"}`."""
        ...

    async def pins(self, bot: str) -> Sequence[Mapping[str, Any]]:
        """Return the records that are pinned for a bot, oldest first."""
        ...
