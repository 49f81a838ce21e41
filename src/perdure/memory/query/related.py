"""Related history: the records that match a query, sorted, each with its reasons, and the number of further matches."""

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
_MOST_COUNTED = 40
"""This many matches are read only to count equal ones and those beyond the limit; each takes 20 µs."""
_HASTY_SHARE = 20
"""When time is too short for all affordable records, one in this many is read."""


@dataclass(frozen=True)
class RelatedQuery:
    """The criteria of a query; an empty value is not a criterion."""

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
        terms: dict[int, int] = {}
        for path in self.paths:
            terms[term("path", path)] = 2
            for other in (term("directory", path), *(term("path", folder) for folder in directories(path))):
                terms.setdefault(other, 1)
        if self.fingerprint:
            terms[term("fingerprint", self.fingerprint)] = 0
        if self.sha:
            terms[term_of_commit(self.sha)] = 0
        if self.pr_number is not None:
            terms[term("pr", str(self.pr_number))] = 0
        return terms


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

    def take(self, match: Match, keys: Sequence[tuple[object, ...]]) -> None:
        """Put a match into the slot of an equal one, else the next one; those beyond the limit are only counted."""
        end = len(self.matches) + self.further
        at = next((self._places[key] for key in keys if key in self._places), end)
        if at < len(self.matches):
            self.matches[at] = replace(self.matches[at], count=self.matches[at].count + 1)
        elif not self.is_full:
            self.matches.append(match)
        elif at == end:
            self.further += 1
        for key in keys:
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


def related(view: View, query: RelatedQuery, budget_ms: float) -> JsonObject:
    """Return the matching records, sorted by severity, then newest first, then by overlap, then by id."""
    collected = Collected(query.limit)
    start_s, budget_s = time.monotonic(), budget_ms / 1000
    view.set_deadline(start_s + COUNTING * budget_s)
    shown = query_terms(query.text)
    words, is_hasty = significant_words(view, shown)
    match = _Matcher(view, query, list(words), " ".join(dict.fromkeys(shown[word] for word in words)))
    view.set_deadline(start_s + (1 - GRACE) * budget_s)
    try:
        is_truncated = _collect(view, match, affordable(budget_ms), collected) or is_hasty
    except OutOfTime:
        is_truncated = True
        if not collected.matches:
            view.set_deadline(time.monotonic() + GRACE * budget_s)
            _collect_hastily(view, match, affordable(budget_ms) // _HASTY_SHARE, collected)
    finally:
        view.set_deadline(None)
    matches = [{"record": each.record, "why": each.why, "count": each.count} for each in collected.matches]
    return {"matches": matches, "truncated": is_truncated, **_more(collected, is_truncated=is_truncated)}


def _more(collected: Collected, *, is_truncated: bool) -> JsonObject:
    """Return `more`, the number of matches beyond the limit; an empty object when there are none."""
    if collected.is_complete and not collected.further:
        return {}
    return {"more": {"count": collected.further, "is_exact": collected.is_complete and not is_truncated}}


def _collect(view: View, match: "_Matcher", most: int, collected: Collected) -> bool:
    """Collect matches in order; return whether more records may match than were affordable."""
    query, words = match.query, match.words
    if not query.terms():
        if not words:
            return False
        match.collect(view.with_words(words, most, query.oldest, query.repo), collected)
        return view.count_with(words, most + 1) > most
    having = view.count_with(words, most + 1) if words else 0
    if words and having <= _FEW:
        rows = view.with_words(words, _FEW, query.oldest, query.repo)
        match.choose(sorted(match.all(rows), key=lambda each: each.order), collected)
    elif words and having <= most:
        allowed = set(view.numbers_with(words))
        match.collect((row for row in _in_order(view, query) if row.n in allowed), collected)
    else:
        match.collect(_in_order(view, query), collected)
    return False


def _collect_hastily(view: View, match: "_Matcher", most: int, collected: Collected) -> None:
    """Collect a few matches, when there was not enough time for the first ones in order."""
    query = match.query
    try:
        if query.terms():
            match.collect(_in_order(view, query, is_hasty=True), collected)
        elif match.words:
            match.collect(view.with_words(match.words, most, query.oldest, query.repo), collected)
    except OutOfTime:
        return


def _in_order(view: View, query: RelatedQuery, *, is_hasty: bool = False) -> Iterator[Row]:
    """Yield the records of all terms; a record with several terms is sorted by its best overlap."""
    streams = [
        _with_overlap(view.with_term(each, query.oldest, query.repo, is_hasty=is_hasty), overlap)
        for each, overlap in query.terms().items()
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
    query: RelatedQuery
    words: Sequence[str]
    shown: str
    """The words of the query, as they were typed."""

    def collect(self, rows: Iterable[Row], collected: Collected) -> None:
        """Collect the first matches one by one, so that those found stay when the time is over."""
        self.choose(self.all(rows), collected)

    def choose(self, matches: Iterable[Match], collected: Collected) -> None:
        """Collect the first matches; equal ones take one slot and are counted.

        When all slots are taken, a few more records are read only to count equal ones; if the time for that is over,
        the answer is complete nevertheless.
        """
        try:
            for number, each in enumerate(matches if collected.limit else ()):
                if collected.is_full and number >= _MOST_COUNTED:
                    collected.is_complete = False
                    return
                collected.take(each, list(self._equality_keys(each.record)))
        except OutOfTime:
            if not collected.is_full:
                raise
            collected.is_complete = False

    def _equality_keys(self, record: JsonObject) -> Iterator[tuple[object, ...]]:
        """Yield values that are equal for records that report the same.

        Reports of tools with the same cause are equal, unless the query names a cause: then each record is a match.
        Records with the same words are equal. See also `dedupe_key`.
        """
        about = (str(record.get("type")), str(record.get("repo") or ""))
        cause = record.get("fingerprint")
        if about[0] in INGESTED_TYPES and isinstance(cause, str) and cause and not self.query.fingerprint:
            yield *about, "fingerprint", cause
        words = (record.get("title"), record.get("summary"))
        if all(isinstance(each, str | None) for each in words) and any(words):
            yield *about, "words", *words

    def all(self, rows: Iterable[Row]) -> Iterator[Match]:
        for row in rows:
            if not self.view.is_current(row) or (result := self.view.read(row)) is None:
                continue
            line, entry = result
            overlap, why = reasons(entry, self.query)
            if not why and self.query.terms():
                continue
            if self.words:
                if not set(self.words) <= set(terms_of(line.content or {})):
                    continue
                why.append({"kind": "text", "value": self.shown})
            yield Match(line.record, why, (row.place, -overlap, row.id, row.n))


def reasons(entry: IndexEntry, query: RelatedQuery) -> tuple[int, list[JsonObject]]:
    """Return the best overlap of paths, and each criterion that a record meets, except words."""
    why: list[JsonObject] = []
    best = 0
    if query.fingerprint and entry.fingerprint == query.fingerprint:
        why.append({"kind": "fingerprint", "value": entry.fingerprint})
    for path in entry.paths:
        overlap = max((overlap_of(path, wanted) for wanted in query.paths), default=0)
        best = max(best, overlap)
        if overlap:
            why.append({"kind": "path", "value": path})
    if query.sha and entry.sha and is_same_commit(entry.sha, query.sha):
        why.append({"kind": "sha", "value": entry.sha})
    if query.pr_number is not None and entry.pr_number == query.pr_number:
        why.append({"kind": "pr", "value": str(entry.pr_number)})
    return best, why


def overlap_of(one: str, other: str) -> int:
    """Return 2 for equal paths, 1 when one lies within the other, 0 otherwise."""
    if one == other:
        return 2
    return int(one in directories(other) or other in directories(one))
