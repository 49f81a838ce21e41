"""Three texts become one: what we wrote before, what we would write now, and what a person made of it.

Front matter is merged key by key, text line by line, the list of skills table by table. Where both changed the same,
the person's stays, and that is said.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise
from typing import Any

from perdure.bots.bot import SKILLS, USER
from perdure.bots.documents import Document, dumped, read_document
from perdure.bots.skills import read_tables
from perdure.errors import Invalid

_ABSENT = object()
_LONG = 1_000
"""Maximum number of lines for a merge: this many equal lines are compared within a second."""
_TABLE = re.compile(r"\s*\[\s*([a-z0-9-]+)\s*\]\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged text; where it clashes, not all of ours is in it."""

    text: str
    is_clash: bool = False


def merge_file(path: str, *, base: str, ours: str, theirs: str) -> Merged:
    """Merge one file of a bot, by its path within the folder. The person's lines are all kept.

    Raises: Invalid when the person's text cannot be read.
    """
    if ours in (base, theirs):
        return Merged(theirs)
    if theirs == base:
        return Merged(ours)
    if path == SKILLS:
        return _merge_tables(path, base, ours, theirs)
    return _merge_lines(base, ours, theirs) if path == USER else _merge_document(path, base, ours, theirs)


def diff(path: str, before: str, after: str, *, names: tuple[str, str] = ("before", "after")) -> str:
    """Return a unified diff of two texts, empty when they are the same."""
    lines = unified_diff(
        before.split("\n"), after.split("\n"), f"{path} ({names[0]})", f"{path} ({names[1]})", lineterm=""
    )
    text = "\n".join(lines)
    return f"{text}\n" if text else ""


def _merge_lines(base: str, ours: str, theirs: str) -> Merged:
    before, now, person = base.split("\n"), ours.split("\n"), theirs.split("\n")
    text, is_clash = list[str](), False
    at = (0, 0, 0)
    for kept in [*_kept_by_both(before, now, person), (len(before), len(now), len(person))]:
        was, our, their = (lines[begin:end] for lines, begin, end in zip((before, now, person), at, kept, strict=True))
        is_clash |= was not in (our, their) and our != their
        text += our if their == was else their
        text += before[kept[0] : kept[0] + 1]
        at = (kept[0] + 1, kept[1] + 1, kept[2] + 1)
    return Merged("\n".join(text), is_clash)


def _kept_by_both(before: list[str], now: list[str], person: list[str]) -> Iterator[tuple[int, int, int]]:
    """Give the lines that neither has changed, by where each stands in the three texts."""
    ours, theirs = _matches(before, now), _matches(before, person)
    return ((line, ours[line], theirs[line]) for line in sorted(ours.keys() & theirs.keys()))


def _matches(before: list[str], after: list[str]) -> dict[int, int]:
    """Find the lines that two texts share; of long ones, lines that stand in them all over are no places to begin."""
    blocks = SequenceMatcher(None, before, after, autojunk=len(after) > _LONG).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}


def _merge_document(path: str, base: str, ours: str, theirs: str) -> Merged:
    before, now, person = (read_document(text, path) for text in (base, ours, theirs))
    changes, front_clash = _changes(before.front, now.front, person.front)
    if any(_has_remark(key, (before, base), (person, theirs)) for key in changes):
        return Merged(theirs, is_clash=True)
    fence = "\n".join(theirs.split("\n")[: -person.body.count("\n") - 1])
    front = _with_keys(fence, person, changes)
    body = _merge_lines(before.body, now.body, person.body)
    text = f"{front}\n{body.text}"
    try:
        is_as_meant = read_document(text, path).front == _applied(person.front, changes)
    except Invalid:
        is_as_meant = False
    if not is_as_meant:
        return Merged(theirs, is_clash=True)
    return Merged(text, front_clash or body.is_clash)


def _changes(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return what we have to change of the person's values, and whether they changed something that we did, too."""
    changes, is_clash = {}, False
    for key in (*base, *(key for key in ours if key not in base)):
        before, now, person = (values.get(key, _ABSENT) for values in (base, ours, theirs))
        if now in (before, person):
            continue
        if person == before:
            changes[key] = now
        else:
            is_clash = True
    return changes, is_clash


def _applied(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**values, **changes}.items() if value is not _ABSENT}


def _with_keys(fence: str, document: Document, changes: Mapping[str, Any]) -> str:
    """Return the person's front matter with some keys replaced, their comments and the order kept."""
    lines = fence.split("\n")
    new = [key for key, value in changes.items() if key not in document.lines and value is not _ABSENT]
    lines[-1:-1] = _key_lines({key: changes[key] for key in new})
    for key, (first, last) in sorted(document.lines.items(), key=lambda item: -item[1][0]):
        if key in changes:
            lines[first - 1 : last] = [] if changes[key] is _ABSENT else _key_lines({key: changes[key]})
    return "\n".join(lines)


def _key_lines(values: Mapping[str, Any]) -> list[str]:
    return dumped(values).removesuffix("\n").split("\n") if values else []


def _has_remark(key: str, before: tuple[Document, str], person: tuple[Document, str]) -> bool:
    """Tell whether a person wrote a comment into the lines of a key, which would be lost with them."""

    def lines_of(document: Document, text: str) -> list[str]:
        first, last = document.lines.get(key, (1, 0))
        return text.split("\n")[first - 1 : last]

    theirs = lines_of(*person)
    return theirs != lines_of(*before) and _has_comment(theirs)


def _merge_tables(path: str, base: str, ours: str, theirs: str) -> Merged:
    before, now = tomllib.loads(base), tomllib.loads(ours)
    person = read_tables(theirs, path)
    changes, is_clash = _changes(before, now, person)
    lines, ours_lines, base_lines = theirs.split("\n"), ours.split("\n"), base.split("\n")
    places, ours_places, base_places = (_tables(each) for each in (lines, ours_lines, base_lines))
    for key, (first, last) in sorted(places.items(), key=lambda item: -item[1][0]):
        if key in changes:
            if _has_comment(lines[first:last]) and lines[first:last] != base_lines[slice(*base_places[key])]:
                return Merged(theirs, is_clash=True)
            lines[first:last] = [] if changes[key] is _ABSENT else ours_lines[slice(*ours_places[key])]
    for key in (key for key in changes if key not in places and key in now):
        lines = [*"\n".join(lines).rstrip("\n").split("\n"), "", *ours_lines[slice(*ours_places[key])], ""]
    text = "\n".join(lines)
    try:
        is_as_meant = tomllib.loads(text) == _applied(person, changes)
    except tomllib.TOMLDecodeError:
        is_as_meant = False
    return Merged(text, is_clash) if is_as_meant else Merged(theirs, is_clash=True)


def _tables(lines: list[str]) -> dict[str, tuple[int, int]]:
    """Return where each table begins and ends; comments in front of the next one belong to that."""
    starts = [(found[1], at) for at, line in enumerate(lines) if (found := _TABLE.fullmatch(line))]
    places = {}
    for (name, start), (_, after) in pairwise([*starts, ("", len(lines))]):
        end = after
        while end > start + 1 and lines[end - 1].strip()[:1] in ("", "#"):
            end -= 1
        places[name] = (start, end)
    return places


def _has_comment(lines: list[str]) -> bool:
    return any("#" in line for line in lines)
