"""Finds the removed records of a log: forgotten, or superseded by a later record."""

from dataclasses import dataclass, field

from perdure.memory.index.terms import superseded_by, target_of
from perdure.memory.log.lines import Line, read_line
from perdure.memory.log.reading import texts_of
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import TOMBSTONE

_MARKS = (TOMBSTONE.encode(), b'"supersedes"')


@dataclass
class RemovedRecords:
    """The offset, for each id, before which its records are forgotten or superseded."""

    forgotten: dict[str, int] = field(default_factory=dict)
    superseded: dict[str, int] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        """Note the records that a line forgets or supersedes."""
        if line.content is None or not line.is_served:
            return
        if target := target_of(line.content):
            self.forgotten[target] = line.offset
        for name in superseded_by(line.content):
            self.superseded[name] = line.offset

    def is_forgotten(self, line: Line) -> bool:
        return line.offset < self.forgotten.get(_name(line), -1)

    def is_superseded(self, line: Line) -> bool:
        return line.offset < self.superseded.get(_name(line), -1)


def find_removed(fd: int, files: MemoryFiles, end: int | None = None) -> RemovedRecords:
    """Find the removed records of an open log; a forgotten record no longer supersedes others."""
    named = RemovedRecords()
    lines = [
        read_line(offset, text)
        for offset, _, text in texts_of(fd, files.log, end=end)
        if text is not None and any(mark in text for mark in _MARKS)
    ]
    for line in lines:
        named.take(line)
    removed = RemovedRecords(named.forgotten)
    for line in lines:
        if not named.is_forgotten(line):
            removed.take(line)
    return removed


def _name(line: Line) -> str:
    name = (line.content or {}).get("id")
    return name if isinstance(name, str) else ""
