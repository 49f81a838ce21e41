"""The terms that a record is found by. Extraction accepts any record and never fails."""

import re
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from perdure.errors import Invalid
from perdure.memory.log.lines import Line
from perdure.memory.normalise import SEVERITIES, fingerprint, moment_ms, repository_path, severity
from perdure.memory.record import TOMBSTONE, JsonObject

Kind = Literal["fingerprint", "path", "directory", "sha", "pr", "key"]

BAND = 1 << 50
"""The width of a band: the range of places of one severity.

A place is the sort position of a record as one integer, so that the index can store the records of a term in the order
of answers: the worst severity first, and the newest first within a severity. A place is `severity * BAND + offset`. The
offset grows with the age of the record, relative to a fixed moment, so it does not depend on the current time and never
has to be rewritten.

Within a band, "not older than a moment" is a range of places. So a query with a maximum age reads one range for each
severity, and never touches older records, however many there are. It cannot read all bands as one range, because old
records of one severity lie between the new ones of two severities. See `Database.with_term`.
"""
UNDATED = BAND - 1
"""The last offset in a band, for records without a date, which are never too old: queries read it separately."""
MOST_OFTEN = 4
"""A word that occurs more often in a record counts as if it occurred this often."""

_MIDDLE = 1 << 49
_FARTHEST_MS = 1 << 48
_RANKS = {name: rank for rank, name in enumerate(SEVERITIES)}
_TEXTS = ("id", "type", "repo", "sha", "key")
_MOST_PATHS = 1000
_DEEPEST = 1024
"""The directories of a longer path are not indexed; it is found as a whole."""
_CACHED = 512
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_BEGINNING = 7
"""Commits are indexed by this many characters, so that a short id finds a whole one, and the other way round."""


class IndexEntry(NamedTuple):
    """The indexed fields of a record; an empty text stands for a missing or invalid value."""

    id: str
    type: str
    place: int
    repo: str
    fingerprint: str
    sha: str
    pr_number: int | None
    paths: tuple[str, ...]
    key: str

    def terms(self) -> set[int]:
        """Return the terms of the record, without its words."""
        terms: set[int] = set()
        for path in self.paths:
            terms.update(_terms_of_path(path) if len(path) <= _CACHED else _path_terms(path))
        if self.fingerprint:
            terms.add(term("fingerprint", self.fingerprint))
        if self.sha:
            terms.add(term_of_commit(self.sha))
        if self.key:
            terms.add(term("key", self.key))
        if self.pr_number is not None:
            terms.add(_term_of_number(self.pr_number))
        return terms


def index_entry(line: Line) -> IndexEntry:
    """Read a record."""
    content = line.content or {}
    moment = moment_ms(content["timestamp"]) if "timestamp" in content else None
    worst = content.get("severity")
    rank = _RANKS[worst if type(worst) is str and worst in _RANKS else severity(worst)]
    number = content.get("pr_number")
    ranked_ms = line.arrival_ms if moment is None else moment
    name, kind, repo, sha, key = [value if type(value) is str else "" for value in map(content.get, _TEXTS)]
    return IndexEntry(
        name,
        kind,
        place(rank, ranked_ms),
        repo.strip(),
        _fingerprint(content.get("fingerprint")),
        sha.strip(),
        number if type(number) is int else None,
        _paths(content.get("paths")),
        key,
    )


def place(rank: int, moment: int | None) -> int:
    """Return the sort position of a record: by severity, then newest first, then records without a date."""
    if moment is None:
        return rank * BAND + UNDATED
    if not -_FARTHEST_MS <= moment <= _FARTHEST_MS:
        moment = _FARTHEST_MS if moment > 0 else -_FARTHEST_MS
    return rank * BAND + _MIDDLE - moment


def target_of(content: JsonObject) -> str:
    """Return the id that a tombstone hides; an empty text for any other record."""
    return _text(content.get("target")) if content.get("type") == TOMBSTONE else ""


def superseded_by(content: JsonObject) -> list[str]:
    """Return the ids of the records that a record supersedes."""
    listed = content.get("supersedes")
    return [each for each in listed if isinstance(each, str) and each] if isinstance(listed, list) else []


def is_internal(kind: str) -> bool:
    """Return whether lines of a type belong to the log itself, such as tombstones, and are not found by queries."""
    return kind.startswith("_")


def directories(path: str) -> Iterator[str]:
    """Yield every directory of a path, within its repository."""
    if len(path) > _DEEPEST:
        return
    end = path.rfind("/")
    while end > 0:
        yield path[:end]
        end = path.rfind("/", 0, end)


def term(kind: Kind, value: str) -> int:
    """Return the digest that a value is indexed by. Collisions are rare, and are noticed when the record is read."""
    return int.from_bytes(blake2b(f"{kind}\0{value}".encode(), digest_size=8).digest(), signed=True)


def term_of_commit(sha: str) -> int:
    """Return the term of a commit: that of the beginning of its id, else of the whole text."""
    name = sha.lower()
    return term("sha", name[:_BEGINNING] if _COMMIT.fullmatch(name) else sha)


def is_same_commit(one: str, other: str) -> bool:
    """Return whether two texts are equal, or ids of a commit of which one is the beginning of the other."""
    if one == other:
        return True
    short, long = sorted((one.lower(), other.lower()), key=len)
    return _COMMIT.fullmatch(short) is not None and _COMMIT.fullmatch(long) is not None and long.startswith(short)


def _path_terms(path: str) -> tuple[int, ...]:
    return (term("path", path), *(term("directory", folder) for folder in directories(path)))


def _number_term(number: int) -> int:
    return term("pr", str(number))


_term_of_number = lru_cache(maxsize=1 << 12)(_number_term)
_terms_of_path = lru_cache(maxsize=1 << 14)(_path_terms)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _fingerprint(value: Any) -> str:
    try:
        return fingerprint(value) if value is not None else ""
    except Invalid:
        return ""


def _paths(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else []
    if isinstance(value, str):
        listed = [value]
    paths = [
        _short_path(each) if len(each) <= _CACHED else _path(each) for each in listed[:_MOST_PATHS] if type(each) is str
    ]
    return (paths[0],) if len(paths) == 1 and paths[0] else tuple(dict.fromkeys(filter(None, paths)))


def _path(value: str) -> str:
    try:
        return repository_path(value)
    except Invalid:
        return ""


_short_path = lru_cache(maxsize=1 << 14)(_path)
