"""Three-way merge of the files of a bot: the old generated text (base), the new one (ours), the person's (theirs).

With only the new generated text and the text on disk, a difference has two explanations: a person edited the line, or
Forge generates it differently now. The base decides: a side that differs from the base has changed the line. Therefore
the base must be the text as Forge generated it, without any edits; see `forge.assembly.changes.plan_changes`.

Front matter is merged by key, text by line, and the list of skills by table. If only one side changed a part, its
change is taken. If both changed it differently, theirs is kept and the result is a clash. A merged text that does not
parse to the intended values is a clash too, with theirs unchanged.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import pairwise
from typing import Any

from perdure.bots.bot import SKILLS, USER
from perdure.bots.documents import Document, dump_yaml, read_document
from perdure.bots.skills import read_tables
from perdure.errors import Invalid

_ABSENT = object()
_LONG = 1_000
"""Longer texts are compared with difflib's heuristic for frequent lines; this many equal lines take about a second."""
_ITEM = "- "
"""How an item of a list begins."""
_TABLE = re.compile(r"\s*\[\s*([a-z0-9-]+)\s*\]\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A merged text; with a clash, it lacks some of our changes."""

    text: str
    is_clash: bool = False


def merge_file(path: str, *, base: str, ours: str, theirs: str) -> MergeResult:
    """Merge one file of a bot, by its path within the folder. Every line that the person changed is kept.

    Raises: Invalid when the person's text cannot be parsed.
    """
    if ours in (base, theirs):
        return MergeResult(theirs)
    if theirs == base:
        return MergeResult(ours)
    if path == SKILLS:
        return _merge_tables(path, base, ours, theirs)
    return _merge_lines(base, ours, theirs) if path == USER else _merge_document(path, base, ours, theirs)


def diff(path: str, before: str, after: str, *, names: tuple[str, str] = ("before", "after")) -> str:
    """Return a unified diff of two texts; empty if they are equal."""
    lines = unified_diff(
        before.split("\n"), after.split("\n"), f"{path} ({names[0]})", f"{path} ({names[1]})", lineterm=""
    )
    text = "\n".join(lines)
    return f"{text}\n" if text else ""


def _merge_lines(base: str, ours: str, theirs: str) -> MergeResult:
    """Merge by line (diff3).

    Lines that neither side changed divide the texts into blocks. Of each block, one side's lines are taken: ours if the
    person did not change the block, else theirs. If both added to the same list, the items of both are taken. Any other
    block that both changed differently is a clash.
    """
    before, now, person = base.split("\n"), ours.split("\n"), theirs.split("\n")
    text, is_clash = list[str](), False
    position = (0, 0, 0)
    for unchanged in [*_unchanged_lines(before, now, person), (len(before), len(now), len(person))]:
        was, our, their = (
            lines[begin:end] for lines, begin, end in zip((before, now, person), position, unchanged, strict=True)
        )
        merged, is_conflict = _merge_block(was, our, their)
        is_clash |= is_conflict
        text += merged
        text += before[unchanged[0] : unchanged[0] + 1]
        position = (unchanged[0] + 1, unchanged[1] + 1, unchanged[2] + 1)
    return MergeResult("\n".join(text), is_clash)


def _merge_block(was: list[str], our: list[str], their: list[str]) -> tuple[list[str], bool]:
    """Return the merged lines of a block, and whether that is a clash."""
    if was == their:
        return our, False
    if our in (was, their):
        return their, False
    both = _items_of_both(was, our, their)
    return (their, True) if both is None else (both, False)


def _items_of_both(was: list[str], our: list[str], their: list[str]) -> list[str] | None:
    """Return our new items of a list, followed by what the person wrote there; None if that is not what both did."""
    ours = "\n".join(our).rstrip().split("\n")
    is_added = not any(map(str.strip, was))
    are_items = any(ours) and all(not line or line.startswith(_ITEM) for line in ours)
    is_apart = bool(their) and (not their[0].strip() or their[0].startswith(_ITEM))
    if not (is_added and are_items and is_apart):
        return None
    return [*(line for line in ours if not line or line not in their), *their]


def _unchanged_lines(before: list[str], now: list[str], person: list[str]) -> Iterator[tuple[int, int, int]]:
    """Return the lines that neither side changed, each by its index in the three texts."""
    ours, theirs = _matches(before, now), _matches(before, person)
    return ((line, ours[line], theirs[line]) for line in sorted(ours.keys() & theirs.keys()))


def _matches(before: list[str], after: list[str]) -> dict[int, int]:
    """Return the lines that two texts have in common, by their indexes."""
    blocks = SequenceMatcher(None, before, after, autojunk=len(after) > _LONG).get_matching_blocks()
    return {block.a + step: block.b + step for block in blocks for step in range(block.size)}


def _merge_document(path: str, base: str, ours: str, theirs: str) -> MergeResult:
    before, now, person = (read_document(text, path) for text in (base, ours, theirs))
    changes, front_clash = _changes(before.front, now.front, person.front)
    if any(_has_new_comment(key, (before, base), (person, theirs)) for key in changes):
        return MergeResult(theirs, is_clash=True)
    fence = "\n".join(theirs.split("\n")[: -person.body.count("\n") - 1])
    front = _with_keys(fence, person, changes)
    body = _merge_lines(before.body, now.body, person.body)
    text = f"{front}\n{body.text}"
    try:
        is_as_intended = read_document(text, path).front == _apply_changes(person.front, changes)
    except Invalid:
        is_as_intended = False
    if not is_as_intended:
        return MergeResult(theirs, is_clash=True)
    return MergeResult(text, front_clash or body.is_clash)


def _changes(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> tuple[dict[str, Any], bool]:
    """Return our changes that apply to the person's values, and whether both sides changed a key differently."""
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


def _apply_changes(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**values, **changes}.items() if value is not _ABSENT}


def _with_keys(fence: str, document: Document, changes: Mapping[str, Any]) -> str:
    """Return the person's front matter with some keys replaced; comments and order of the others are kept."""
    lines = fence.split("\n")
    new = [key for key, value in changes.items() if key not in document.lines and value is not _ABSENT]
    lines[-1:-1] = _key_lines({key: changes[key] for key in new})
    for key, (first, last) in sorted(document.lines.items(), key=lambda item: -item[1][0]):
        if key in changes:
            lines[first - 1 : last] = [] if changes[key] is _ABSENT else _key_lines({key: changes[key]})
    return "\n".join(lines)


def _key_lines(values: Mapping[str, Any]) -> list[str]:
    return dump_yaml(values).removesuffix("\n").split("\n") if values else []


def _has_new_comment(key: str, before: tuple[Document, str], person: tuple[Document, str]) -> bool:
    """Return whether a person added a comment to the lines of a key, which replacing them would delete."""

    def lines_of(document: Document, text: str) -> list[str]:
        first, last = document.lines.get(key, (1, 0))
        return text.split("\n")[first - 1 : last]

    person_lines = lines_of(*person)
    return person_lines != lines_of(*before) and _has_comment(person_lines)


def _merge_tables(path: str, base: str, ours: str, theirs: str) -> MergeResult:
    before, now = tomllib.loads(base), tomllib.loads(ours)
    person = read_tables(theirs, path)
    changes, is_clash = _changes(before, now, person)
    lines, ours_lines, base_lines = theirs.split("\n"), ours.split("\n"), base.split("\n")
    places, ours_places, base_places = (_tables(each) for each in (lines, ours_lines, base_lines))
    for key, (first, last) in sorted(places.items(), key=lambda item: -item[1][0]):
        if key in changes:
            if _has_comment(lines[first:last]) and lines[first:last] != base_lines[slice(*base_places[key])]:
                return MergeResult(theirs, is_clash=True)
            lines[first:last] = [] if changes[key] is _ABSENT else ours_lines[slice(*ours_places[key])]
    for key in (key for key in changes if key not in places and key in now):
        lines = [*"\n".join(lines).rstrip("\n").split("\n"), "", *ours_lines[slice(*ours_places[key])], ""]
    text = "\n".join(lines)
    try:
        is_as_intended = tomllib.loads(text) == _apply_changes(person, changes)
    except tomllib.TOMLDecodeError:
        is_as_intended = False
    return MergeResult(text, is_clash) if is_as_intended else MergeResult(theirs, is_clash=True)


def _tables(lines: list[str]) -> dict[str, tuple[int, int]]:
    """Return the range of lines of each table; comments before the next table belong to that one."""
    starts = [(match[1], at) for at, line in enumerate(lines) if (match := _TABLE.fullmatch(line))]
    places = {}
    for (name, start), (_, after) in pairwise([*starts, ("", len(lines))]):
        end = after
        while end > start + 1 and lines[end - 1].strip()[:1] in ("", "#"):
            end -= 1
        places[name] = (start, end)
    return places


def _has_comment(lines: list[str]) -> bool:
    return any("#" in line for line in lines)
