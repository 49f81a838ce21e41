"""Which records of a log are gone: to be forgotten, or superseded by a later record."""

from dataclasses import dataclass, field

from perdure.memory.index.terms import superseded_by, target_of
from perdure.memory.log.lines import Line, read_line
from perdure.memory.log.reading import texts_of
from perdure.memory.paths import Places
from perdure.memory.record import TOMBSTONE

_MAY_SAY_SO = (TOMBSTONE.encode(), b'"supersedes"')


@dataclass
class Departed:
    """For an id the offset up to which its records are gone, and why."""

    forgotten: dict[str, int] = field(default_factory=dict)
    superseded: dict[str, int] = field(default_factory=dict)

    def take(self, line: Line) -> None:
        """Take note of what a line says about others."""
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


def departed(fd: int, places: Places, end: int | None = None) -> Departed:
    """Find which records of an open log are gone; a record that is to be forgotten supersedes nothing any more."""
    found = Departed()
    lines = [
        read_line(offset, text)
        for offset, _, text in texts_of(fd, places.log, end=end)
        if text is not None and any(mark in text for mark in _MAY_SAY_SO)
    ]
    for line in lines:
        found.take(line)
    left = Departed(found.forgotten)
    for line in lines:
        if not found.is_forgotten(line):
            left.take(line)
    return left


def _name(line: Line) -> str:
    name = (line.content or {}).get("id")
    return name if isinstance(name, str) else ""
