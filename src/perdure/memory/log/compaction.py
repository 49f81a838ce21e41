"""Keeping a log small: what is old goes to the archive, what is to be forgotten goes for good."""

import os
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

import orjson
from uuid_utils import uuid7

from perdure.errors import Invalid, NotFound, PerdureError
from perdure.memory.arguments import days_of
from perdure.memory.callers import writing
from perdure.memory.index.terms import target_of
from perdure.memory.log.archive import archive, archive_files, count, named, purge, sameness, without
from perdure.memory.log.departed import Departed, departed
from perdure.memory.log.files import OpenFile, open_file, read_at
from perdure.memory.log.lines import Line, line_of, read_line
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import iter_lines, lines_of
from perdure.memory.log.rewriting import WAIT_S, Draft, rewrite, rewriting
from perdure.memory.normalise import moment
from perdure.memory.paths import Places
from perdure.memory.record import TOMBSTONE, Plain

DAY_MS = 24 * 60 * 60 * 1000
_NORMAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")

RetentionAction = Literal["keep", "archive", "forget", "drop"]


@dataclass
class Survey:
    """What has to be known of all lines before one can be judged."""

    since: str
    """What happened since then is kept."""
    departed: Departed = field(default_factory=Departed)
    """Which records are to be forgotten, or superseded."""
    newest: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """For a fingerprint when its newest record happened, and where that is."""
    reused: set[str] = field(default_factory=set)
    """Forgotten ids that another program has stored a record under since."""

    def take(self, line: Line) -> None:
        """Take note of a record's id and fingerprint."""
        if line.is_served and line.offset > self.departed.forgotten.get(named(line) or "", line.offset):
            self.reused.add(named(line) or "")
        is_gone = self.departed.is_forgotten(line) or self.departed.is_superseded(line)
        if line.is_served and not is_gone and (mark := _fingerprint(line)) is not None:
            found = (happened(line) or "", line.offset)
            self.newest[mark] = max(found, self.newest.get(mark, found))

    def action_for(self, line: Line) -> RetentionAction:
        """Decide what becomes of a line. What is damaged stays; nothing is thrown away because it cannot be read."""
        if self.departed.is_forgotten(line):
            return "forget"
        if line.content is None or not line.is_served:
            return "keep"
        if is_tombstone(line):
            return "keep" if self._is_needed(line) else "drop"
        when = happened(line)
        if self.since and when is not None and self.departed.is_superseded(line):
            return "archive"
        if when is None or when >= self.since or _is_pinned(line.content):
            return "keep"
        mark = _fingerprint(line)
        return "keep" if mark is not None and self.newest[mark][1] == line.offset else "archive"

    def _is_needed(self, tombstone: Line) -> bool:
        """Tell whether a tombstone is the last one of its id: it stays, so that no import brings the record back."""
        target = target_of(tombstone.content or {})
        return target not in self.reused and self.departed.forgotten.get(target) == tombstone.offset


@dataclass
class Removal:
    """Which lines leave the log, in their order; and those that go to the archive, by year."""

    kept: int = 0
    forgotten: int = 0
    gone: "array[int]" = field(default_factory=lambda: array("Q"))
    archived: "dict[str, array[int]]" = field(default_factory=lambda: defaultdict(lambda: array("Q")))

    def take(self, line: Line, action: RetentionAction) -> None:
        """Record what happens to a line."""
        if action == "keep":
            self.kept += line.is_served and not is_tombstone(line)
            return
        self.forgotten += action == "forget"
        self.gone.extend((line.offset, line.length))
        if action == "archive":
            self.archived[(happened(line) or "")[:4]].extend((line.offset, line.length))

    def parts(self) -> Iterator[range]:
        """Give what leaves the log, as offsets."""
        return (range(offset, offset + length + 1) for offset, length in _pairs(self.gone))


def compact(
    log: Log, *, retention_days: int = 90, now: int | None = None, wait_s: float = 0, dry_run: bool = False
) -> Plain:
    """Archive what is superseded, or old, not pinned and not the newest of its fingerprint; forget what is to be.

    A dry run returns the same numbers, takes no lock and writes nothing.

    Raises: Conflict when somebody else rewrites the log; what `Log.append` raises.
    """
    since_ms = (now_ms() if now is None else now) - days_of(retention_days) * DAY_MS
    since = moment(since_ms / 1000)
    return _planned(log, since) if dry_run else _compact(log, since, wait_s=wait_s)


def forget(log: Log, record_id: str) -> Plain:
    """Forget all records with an id, in the log and in the archive, at once. What is in quarantine stays there.

    A tombstone with the id stays in the log: by it an import, an adapter or an add does not bring the record back.

    Raises: NotFound; Conflict when somebody else rewrites the log for too long: the next compaction does it then.
    """
    if not _is_known(log.places, record_id):
        raise NotFound(f"There is no record with the id {record_id!r}.")
    now = now_ms()
    tombstone = {"id": str(uuid7()), "type": TOMBSTONE, "timestamp": moment(now / 1000), "target": record_id}
    log.append([line_of(tombstone, now)])
    return {"forgotten": purge_forgotten(log, record_id)}


def purge_forgotten(log: Log, what: str) -> int:
    """Take what tombstones name out of the log and the archive; return how many records that were.

    Raises: what `forget` raises; `what` names the records in the message.
    """
    try:
        return int(_compact(log, "", wait_s=WAIT_S)["forgotten"])
    except PerdureError as error:
        raise type(error)(
            f"{what} is forgotten and no longer found, but still in the file: {error.detail}"
            " The next `perdure memory compact` takes it out."
        ) from error


def is_tombstone(line: Line) -> bool:
    """Tell whether a line says that others are to be forgotten."""
    return line.is_served and (line.content or {}).get("type") == TOMBSTONE


def happened(line: Line) -> str | None:
    """Return when a record happened, in the one form that can be compared; else when it arrived; None: nobody knows."""
    content = line.content or {}
    given = content.get("timestamp")
    if isinstance(given, str) and _NORMAL.fullmatch(given):
        return given
    for value in (given, None if line.arrival_ms is None else line.arrival_ms / 1000):
        try:
            return moment(value)
        except Invalid:
            continue
    return None


def _compact(log: Log, since: str, *, wait_s: float) -> Plain:
    if not log.places.log.exists():
        return {"kept": 0, "archived": 0, "forgotten": 0, "bytes_before": 0, "bytes_after": 0}
    with rewriting(log, wait_s=wait_s) as draft:
        source, size = log.look()
        survey = _survey(source, size, since, log.places)
        removal = _removal(source, size, survey, log.places)
        with writing():
            removal.forgotten += purge(log.places, survey.departed.forgotten.keys())
            archived = sum(_archive(log.places, source, year, spans) for year, spans in removal.archived.items())
        return {
            "kept": removal.kept + _rewrite(log, draft, source, size, removal),
            "archived": archived,
            "forgotten": removal.forgotten,
            "bytes_before": size,
            "bytes_after": draft.size if removal.gone else size,
        }


def _planned(log: Log, since: str) -> Plain:
    """Return what a compaction would do now."""
    try:
        source = OpenFile(open_file(log.places.log, os.O_RDONLY))
    except FileNotFoundError:
        return {"kept": 0, "archived": 0, "forgotten": 0, "bytes_before": 0, "bytes_after": 0}
    size = os.fstat(source.fd).st_size
    survey = _survey(source, size, since, log.places)
    removal = _removal(source, size, survey, log.places)
    return {
        "kept": removal.kept,
        "archived": sum(len(spans) // 2 for spans in removal.archived.values()),
        "forgotten": removal.forgotten + count(log.places, survey.departed.forgotten.keys()),
        "bytes_before": size,
        "bytes_after": size - sum(len(part) for part in removal.parts()),
    }


def _removal(source: OpenFile, size: int, survey: Survey, places: Places) -> Removal:
    removal = Removal()
    for line in lines_of(source.fd, places.log, end=size):
        removal.take(line, survey.action_for(line))
    return removal


def _survey(source: OpenFile, size: int, since: str, places: Places) -> Survey:
    survey = Survey(since, departed(source.fd, places, size))
    if since or survey.departed.forgotten:
        for line in lines_of(source.fd, places.log, end=size):
            survey.take(line)
    return survey


def _rewrite(log: Log, draft: Draft, source: OpenFile, size: int, removal: Removal) -> int:
    """Rewrite the log without what is removed, if anything is; return how many records came in the meantime."""
    if not removal.gone:
        return 0
    news = rewrite(log, draft, source, size, without(removal.parts(), size))
    later = lines_of(draft.fd, log.places.log, start=news, end=draft.size)
    return sum(line.is_served and not is_tombstone(line) for line in later)


def _archive(places: Places, source: OpenFile, year: str, spans: "array[int]") -> int:
    """Copy lines of the log to a year of the archive, unless it has them; return how many lines there were."""

    def texts() -> Iterator[tuple[bytes, bytes]]:
        for offset, length in _pairs(spans):
            text = read_at(source.fd, places.log, offset, length)
            yield sameness(read_line(offset, text), text), text

    archive(places, year, texts)
    return len(spans) // 2


def _is_known(places: Places, record_id: str) -> bool:
    files = [places.log, *archive_files(places)]
    return any(named(line) == record_id for path in files for line in iter_lines(path))


def _fingerprint(line: Line) -> bytes | None:
    value = (line.content or {}).get("fingerprint")
    if value is None or value in ("", []):
        return None
    return blake2b(orjson.dumps(value), digest_size=16).digest()


def _is_pinned(content: Plain) -> bool:
    metadata = content.get("metadata")
    return isinstance(metadata, dict) and metadata.get("pinned") is True


def _pairs(flat: Iterable[int]) -> Iterator[tuple[int, int]]:
    numbers = iter(flat)
    return zip(numbers, numbers, strict=True)
