"""The part of the benchmarks that is about the memory, and its section of the page."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench import beside, memory_append, memory_lookup
from bench.compared import Ahead, Case, Comparison, comparison_table, who_is_ahead
from bench.memory_beside import MEMORY
from bench.table import Counted, Timed, counted_table, timed_table

RECORDS = 100_000
CHECKED = 10_000
"""So many records are read where only what must hold is counted."""

REASONS: dict[str, str] = {
    "append, median": (
        "Beside the write and the flush, an append takes and releases the lock, checks that lock and log were not"
        " replaced and that no failed flush was noted, and reads the last byte: seven system calls and about 30 µs of"
        " processor time."
    ),
    f"{memory_append.WRITERS} processes append, beside those that flush inside the lock, disk": (
        "Where a flush takes a fraction of a millisecond there is little to share, and the processor is the limit;"
        " the next line shows the same with slow flushes."
    ),
    "search for six common words": (
        "The clock is read between rows; the rows read until then are still ranked and sorted, which takes a few"
        " milliseconds more when other processes use the processor."
    ),
    "make the index": (
        "More than half of it is Python: reading a record, its words and its eight kinds of index terms; the rest is"
        " SQLite, which sorts the terms. Parsing records in compiled code would be faster."
    ),
    "the same, processor time": "As above.",
}
"""Why a target is not met, by the beginning of the line that names it; said only when it is not."""

CHANGES: dict[str, str] = {
    "adds, one writer": (
        "An add is one write and one flush, and a check for duplicates of the last day; `add_many` shares the flush."
    ),
    "lost of 400 adds by four writers": "An acknowledged record must not be lost; this would be a bug of Perdure.",
    "not acknowledged of these": "Writers wait for each other for up to ten seconds; a longer wait would reject fewer.",
    "look-up by fingerprint among 1,000": (
        "A look-up first checks whether log and index have changed, and reads its hits from the log again."
    ),
}
"""What would change it that a peer is ahead of us, by the case; said only when one is."""


@dataclass(frozen=True)
class Remembered:
    """What one run has found about the memory; nothing of others when they were not asked for."""

    records: int
    held: Sequence[Counted]
    timed: Sequence[Timed]
    comparison: Comparison | None = None


def count() -> list[Counted]:
    """Count what must hold, whatever the machine does meanwhile."""
    return memory_append.count(CHECKED)


def measure(records: int = RECORDS, *, with_peers: bool = False) -> Remembered:
    """Count and measure all there is about a memory of so many records."""
    held = memory_append.count(records)
    timed = memory_append.measure(records)
    found, more = memory_lookup.measure(records)
    comparison = beside.measure(MEMORY) if with_peers else None
    return Remembered(records, [*held, *more], [*timed, *found], comparison)


def section(found: Remembered) -> str:
    """Write the section of the page."""
    missed = "\n".join(map(_missed, (row for row in found.timed if not row.is_met))) or "- none"
    return f"""
## Memory

A log of {found.records:,} records of about 640 bytes, one every seven seconds until now; `make bench MEMORY=1000000`
measures with another number. Counted:

{counted_table(found.held)}

Timed, as above beside a floor in the same run:

{timed_table(found.timed)}

Targets that were not met in this run:

{missed}

- For an **append** the floor is `write` and `fdatasync` of the same bytes to a separate file, record by record in
  turn. **{memory_append.WRITERS} processes** append to one log for a second; their floor holds the lock until the
  bytes are on the disk. With a **flush of 4 ms** the log is on tmpfs, and all processes sleep before the flush.
- An **add** also normalises the record. The **check for duplicates** reads the records of the last day through an
  up-to-date index.
- A **scan** reads the log and parses every line with orjson. Look-ups use the values of the first 200 records again
  and again, so the files are in memory. A target of 1,000 scans is for a million records.
- **make the index** is `perdure memory rebuild` in a separate process, from a log that is in memory.
{_beside(found.comparison) if found.comparison else ""}"""


def _missed(row: Timed) -> str:
    reason = next((why for what, why in REASONS.items() if row.what.startswith(what)), "")
    return f"- {row.shortfall}. {reason}".strip()


def _ahead(case: Case, each: Sequence[Ahead]) -> str:
    return f"- {case.name}: {'; '.join(one.sentence for one in each)}. {CHANGES[case.name]}"


def _beside(comparison: Comparison) -> str:
    ahead = "\n".join(_ahead(*each) for each in who_is_ahead(comparison, MEMORY)) or "- none"
    versions = ", ".join(f"{who.name} {comparison.versions.get(who.name, 'not run')}" for who in MEMORY.peers)
    return f"""
### Beside others

All store the same records, one process at a time, in turn; the comparison took {comparison.seconds / 60:.0f} minutes.
Each is installed in a separate environment and uses no network and no model: {versions}.

{comparison_table(comparison, MEMORY)}

By the medians of this run, another project is faster or loses less in these lines:

{ahead}

- **adds** is one process that adds records one by one, each acknowledged before the next. Perdure and SqliteStore
  flush each record; the MCP memory server rewrites its whole file for each add and never flushes; mem0 stores a
  vector and a history for each.
- **four writers** are processes that add 100 records each to one store at the same time. **Lost** records were
  acknowledged and are missing afterwards; mem0 accepts one process and rejects the others.
- A **look-up** is by a fingerprint that exactly one record has: `related`, `search_nodes`, and searches with a
  filter.
- **mem0** adds with `infer=False` to its local Qdrant; a word count replaces its embedding model and costs less than
  a real one. **SqliteStore** has no vectors.
"""
