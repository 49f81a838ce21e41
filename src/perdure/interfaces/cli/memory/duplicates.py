"""Explains why a record was not added: which record exists, and in which fields it differs."""

from collections.abc import Mapping
from typing import Any

from perdure.app.memory.arguments import differing_fields
from perdure.errors import Conflict, NotFound
from perdure.interfaces.cli.remote.ports.records import RecordReader


def duplicates(count: int) -> str:
    """Return a number of duplicates in words."""
    return f"{count:,} duplicate{'' if count == 1 else 's'}"


async def duplicate_line(memory: RecordReader, record: Mapping[str, Any], existing_id: str) -> str:
    """Return the sentence about a record that was not added, because another one reports the same."""
    try:
        differing = differing_fields(record, await memory.get(existing_id))
    except (NotFound, Conflict):
        differing = []
    if not differing:
        return (
            f"Not added: the same record is stored already, as {existing_id}."
            f" `perdure memory update {existing_id}` changes it."
        )
    return (
        f"Not added: {existing_id} reports the same and was stored within a day; it differs in {', '.join(differing)}."
        f" `perdure memory update {existing_id} …` changes it; `--again` adds the new record, too."
    )
