"""Related history: which records match a query, why, in which order, and how many more match."""

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perdure.memory.arguments import fingerprint_of, number_of, paths_of, word_of
from perdure.memory.index.rows import OutOfTime, Row
from perdure.memory.index.terms import IndexEntry, directories, is_same_commit, place, term, term_of_commit
from perdure.memory.index.view import View
from perdure.memory.index.words import terms_of
from perdure.memory.normalise import INGESTED_TYPES, repository_path
from perdure.memory.query.search import COUNTING, GRACE, affordable, query_terms, significant_words
from perdure.memory.record import JsonObject

_FEW = 300
"""Up to this many records with the words are read one by one; with more, the other criteria select first."""
_COUNTED = 40
"""This many matches are read only to count equal ones and those beyond the limit; each takes 20 µs."""
_HASTY = 20
"""When time is too short for all affordable records, one in this many is read."""


@dataclass(frozen=True)
class RelatedQuery:
    """The criteria of a query; empty values are not used."""

    paths: tuple[str, ...] = ()
    fingerprint: str = ""
    text: str = ""
    repo: str = ""
    sha: str = ""
    pr_number: int | None = None
    limit: int = 3
    since_ms: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no criterion, so that nothing matches."""
        return not any((self.paths, self.fingerprint, self.text, self.sha, self.pr_number is not None))

    @property
    def oldest(self) -> int:
        """The last place in a band that is within retention."""
        return place(0, self.since_ms)

    def terms(self) -> dict[int, int]:
        """Return the terms to look up, each with the overlap of paths that it means."""
        found: dict[int, int] = {}
        for path in self.paths:
            found[term("path", path)] = 2
            for other in (term("directory", path), *(term("path", folder) for folder in directories(path))):
                found.setdefault(other, 1)
        if self.fingerprint:
            found[term("fingerprint", self.fingerprint)] = 0
        if self.sha:
            found[term_of_commit(self.sha)] = 0
        if self.pr_number is not None:
            found[term("pr", str(self.pr_number))] = 0
        return found


@dataclass(frozen=True)
class Match:
    """A record that matches a query."""

    record: JsonObject
    why: list[JsonObject]
    order: tuple[int, int, str, int]
    count: int = 1
    """How many records report the same, including this one."""


@dataclass
class Collected:
    """The matches within the limit, and the number of those beyond it."""

    limit: int
    matches: list[Match] = field(default_factory=list)
    further: int = 0
    """How many other matches were seen; equal ones count once."""
    is_complete: bool = True
    """Whether all matches were seen."""
    _places: dict[tuple[object, ...], int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.matches) == self.limit

    def take(self, match: Match, said: Sequence[tuple[object, ...]]) -> None:
        """Put a match into the slot of an equal one, else the next one; those beyond the limit are only counted."""
        end = len(self.matches) + self.further
        at = next((self._places[key] for key in said if key in self._places), end)
        if at < len(self.matches):
            self.matches[at] = replace(self.matches[at], count=self.matches[at].count + 1)
        elif not self.is_full:
            self.matches.append(match)
        elif at == end:
            self.further += 1
        for key in said:
            self._places.setdefault(key, at)


def related_query(
    *,
    paths: Any = (),
    fingerprint: Any = None,
    text: Any = None,
    repo: Any = None,
    sha: Any = None,
    pr_number: Any = None,
) -> RelatedQuery:
    """Return the query of some criteria, see RelatedTo, without its limit and its time.

    Raises: Invalid, naming the value, also for a path that leads out of the repository.
    """
    return RelatedQuery(
        paths=tuple(dict.fromkeys(filter(None, map(repository_path, paths_of(paths))))),
        fingerprint=fingerprint_of(fingerprint),
        text=word_of(text, "text"),
        repo=word_of(repo, "repo"),
        sha=word_of(sha, "sha"),
        pr_number=number_of(pr_number, "pr_number"),
    )


def related(view: View, asked: RelatedQuery, budget_ms: float) -> JsonObject:
    """Return the matching records, sorted by severity, then newest first, then by overlap, then by id."""
    into = Collected(asked.limit)
    begun_s, budget_s = time.monotonic(), budget_ms / 1000
    view.until(begun_s + COUNTING * budget_s)
    shown = query_terms(asked.text)
    words, is_hasty = significant_words(view, shown)
    match = _Matcher(view, asked, list(words), " ".join(dict.fromkeys(shown[word] for word in words)))
    view.until(begun_s + (1 - GRACE) * budget_s)
    try:
        is_truncated = _collect(view, match, affordable(budget_ms), into) or is_hasty
    except OutOfTime:
        is_truncated = True
        if not into.matches:
            view.until(time.monotonic() + GRACE * budget_s)
            _collect_hastily(view, match, affordable(budget_ms) // _HASTY, into)
    finally:
        view.until(None)
    found = [{"record": each.record, "why": each.why, "count": each.count} for each in into.matches]
    return {"matches": found, "truncated": is_truncated, **_more(into, is_truncated=is_truncated)}


def _more(into: Collected, *, is_truncated: bool) -> JsonObject:
    """Return `more` with what is known of matches beyond the limit; nothing when there are none."""
    if into.is_complete and not into.further:
        return {}
    return {"more": {"count": into.further, "is_exact": into.is_complete and not is_truncated}}


def _collect(view: View, match: "_Matcher", most: int, into: Collected) -> bool:
    """Collect matches in order; return whether more records may match than were affordable."""
    asked, words = match.asked, match.words
    if not asked.terms():
        if not words:
            return False
        match.collect(view.with_words(words, most, asked.oldest, asked.repo), into)
        return view.count_with(words, most + 1) > most
    having = view.count_with(words, most + 1) if words else 0
    if words and having <= _FEW:
        rows = view.with_words(words, _FEW, asked.oldest, asked.repo)
        match.choose(sorted(match.all(rows), key=lambda each: each.order), into)
    elif words and having <= most:
        allowed = set(view.numbers_with(words))
        match.collect((row for row in _in_order(view, asked) if row.n in allowed), into)
    else:
        match.collect(_in_order(view, asked), into)
    return False


def _collect_hastily(view: View, match: "_Matcher", most: int, into: Collected) -> None:
    """Collect a few matches, when there was not enough time for the first ones in order."""
    asked = match.asked
    try:
        if asked.terms():
            match.collect(_in_order(view, asked, is_hasty=True), into)
        elif match.words:
            match.collect(view.with_words(match.words, most, asked.oldest, asked.repo), into)
    except OutOfTime:
        return


def _in_order(view: View, asked: RelatedQuery, *, is_hasty: bool = False) -> Iterator[Row]:
    """Yield the records of all terms; a record with several terms is sorted by its best overlap."""
    streams = [
        _with_overlap(view.with_term(each, asked.oldest, asked.repo, is_hasty=is_hasty), overlap)
        for each, overlap in asked.terms().items()
    ]
    seen: set[int] = set()
    for _order, row in heapq.merge(*streams, key=lambda each: each[0]):
        if row.n not in seen:
            seen.add(row.n)
            yield row


def _with_overlap(rows: Iterator[Row], overlap: int) -> Iterator[tuple[tuple[int, int, str, int], Row]]:
    for row in rows:
        yield (row.place, -overlap, row.id, row.n), row


@dataclass(frozen=True)
class _Matcher:
    """Reads candidates from the log, and keeps those that match."""

    view: View
    asked: RelatedQuery
    words: Sequence[str]
    shown: str
    """The words of the query, as they were typed."""

    def collect(self, rows: Iterable[Row], into: Collected) -> None:
        """Collect the first matches one by one, so that those found stay when the time is over."""
        self.choose(self.all(rows), into)

    def choose(self, found: Iterable[Match], into: Collected) -> None:
        """Collect the first matches; equal ones take one slot and are counted.

        When all slots are taken, a few more records are read only to count equal ones; if the time for that is over,
        the answer is complete nevertheless.
        """
        try:
            for number, each in enumerate(found if into.limit else ()):
                if into.is_full and number >= _COUNTED:
                    into.is_complete = False
                    return
                into.take(each, list(self._said(each.record)))
        except OutOfTime:
            if not into.is_full:
                raise
            into.is_complete = False

    def _said(self, record: JsonObject) -> Iterator[tuple[object, ...]]:
        """Yield values that are equal for records that report the same.

        Reports of tools are equal by cause, unless the query asks for the cause: then all of its records are wanted.
        All records are equal by words. See also `dedupe_key`.
        """
        about = (str(record.get("type")), str(record.get("repo") or ""))
        cause = record.get("fingerprint")
        if about[0] in INGESTED_TYPES and isinstance(cause, str) and cause and not self.asked.fingerprint:
            yield *about, "fingerprint", cause
        words = (record.get("title"), record.get("summary"))
        if all(isinstance(each, str | None) for each in words) and any(words):
            yield *about, "words", *words

    def all(self, rows: Iterable[Row]) -> Iterator[Match]:
        for row in rows:
            if not self.view.is_current(row) or (found := self.view.read(row)) is None:
                continue
            line, entry = found
            overlap, why = reasons(entry, self.asked)
            if not why and self.asked.terms():
                continue
            if self.words:
                if not set(self.words) <= set(terms_of(line.content or {})):
                    continue
                why.append({"kind": "text", "value": self.shown})
            yield Match(line.record, why, (row.place, -overlap, row.id, row.n))


def reasons(entry: IndexEntry, asked: RelatedQuery) -> tuple[int, list[JsonObject]]:
    """Return the best overlap of paths, and each criterion that a record meets, except words."""
    why: list[JsonObject] = []
    best = 0
    if asked.fingerprint and entry.fingerprint == asked.fingerprint:
        why.append({"kind": "fingerprint", "value": entry.fingerprint})
    for path in entry.paths:
        overlap = max((overlap_of(path, wanted) for wanted in asked.paths), default=0)
        best = max(best, overlap)
        if overlap:
            why.append({"kind": "path", "value": path})
    if asked.sha and entry.sha and is_same_commit(entry.sha, asked.sha):
        why.append({"kind": "sha", "value": entry.sha})
    if asked.pr_number is not None and entry.pr_number == asked.pr_number:
        why.append({"kind": "pr", "value": str(entry.pr_number)})
    return best, why


def overlap_of(one: str, other: str) -> int:
    """Return 2 for equal paths, 1 when one lies within the other, 0 otherwise."""
    if one == other:
        return 2
    return int(one in directories(other) or other in directories(one))
