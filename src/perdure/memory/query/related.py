"""Related history: which records have to do with something, why, in which order, and how many more there are."""

import heapq
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from perdure.memory.index.rows import OutOfTime, Row
from perdure.memory.index.terms import Facts, directories, place, term
from perdure.memory.index.view import View
from perdure.memory.index.words import terms_of
from perdure.memory.normalise import INGESTED_TYPES
from perdure.memory.query.search import COUNTING, GRACE, affordable, asked_words, weighty
from perdure.memory.record import Plain

_FEW = 300
"""So many records with the words are looked at one by one; where there are more, the other reasons lead."""
_COUNTED = 40
"""This many matches are read for the counts alone (those that say the same, those beyond the limit): 20 µs each."""
_HASTY = 20
"""Where time was too short for all that is affordable, one in so many is looked at."""


@dataclass(frozen=True)
class Asked:
    """What history is asked for; blank values ask for nothing."""

    paths: tuple[str, ...] = ()
    fingerprint: str = ""
    text: str = ""
    repo: str = ""
    sha: str = ""
    pr_number: int | None = None
    limit: int = 3
    since_ms: int = 0

    @property
    def oldest(self) -> int:
        """The last place in a band that is not too old."""
        return place(0, self.since_ms)

    def terms(self) -> dict[int, int]:
        """Return what records may be filed under, each with the overlap of paths that it means."""
        found: dict[int, int] = {}
        for path in self.paths:
            found[term("path", path)] = 2
            for other in (term("directory", path), *(term("path", folder) for folder in directories(path))):
                found.setdefault(other, 1)
        if self.fingerprint:
            found[term("fingerprint", self.fingerprint)] = 0
        if self.sha:
            found[term("sha", self.sha)] = 0
        if self.pr_number is not None:
            found[term("pr", str(self.pr_number))] = 0
        return found


@dataclass(frozen=True)
class Match:
    """A record that has to do with what was asked."""

    record: Plain
    why: list[Plain]
    order: tuple[int, int, str, int]
    count: int = 1
    """How many records say the same, this one included."""


@dataclass
class Collected:
    """The matches within the limit, and what is known of those beyond it."""

    limit: int
    matches: list[Match] = field(default_factory=list)
    further: int = 0
    """How many other matches were seen, those that say the same counted once."""
    is_complete: bool = True
    """Whether all matches were seen."""
    _places: dict[tuple[object, ...], int] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether there are as many matches as were asked for."""
        return len(self.matches) == self.limit

    def take(self, match: Match, said: Sequence[tuple[object, ...]]) -> None:
        """Give a match the place of those that say the same, else the next one; places beyond the limit are counted."""
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


def related(view: View, asked: Asked, budget_ms: float) -> Plain:
    """Return the records that have to do with what is asked: the worst, of those the newest, by overlap, by id."""
    into = Collected(asked.limit)
    begun_s, budget_s = time.monotonic(), budget_ms / 1000
    view.until(begun_s + COUNTING * budget_s)
    shown = asked_words(asked.text)
    words, is_hasty = weighty(view, shown)
    match = _Matcher(view, asked, list(words), " ".join(dict.fromkeys(shown[word] for word in words)))
    view.until(begun_s + (1 - GRACE) * budget_s)
    try:
        is_truncated = _collect(view, match, affordable(budget_ms), into) or is_hasty
    except OutOfTime:
        is_truncated = True
        if not into.matches:
            view.until(time.monotonic() + GRACE * budget_s)
            _hurry(view, match, affordable(budget_ms) // _HASTY, into)
    finally:
        view.until(None)
    found = [{"record": each.record, "why": each.why, "count": each.count} for each in into.matches]
    return {"matches": found, "truncated": is_truncated, **_more(into, is_truncated=is_truncated)}


def _more(into: Collected, *, is_truncated: bool) -> Plain:
    """Return `more` with what is known of matches beyond the limit; nothing when there are none."""
    if into.is_complete and not into.further:
        return {}
    return {"more": {"count": into.further, "is_exact": into.is_complete and not is_truncated}}


def _collect(view: View, match: "_Matcher", most: int, into: Collected) -> bool:
    """Collect what matches in its order; tell whether there may be more than was affordable."""
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


def _hurry(view: View, match: "_Matcher", most: int, into: Collected) -> None:
    """Collect a few records that match, when there was no time for the first ones."""
    asked = match.asked
    try:
        if asked.terms():
            match.collect(_in_order(view, asked, is_hasty=True), into)
        elif match.words:
            match.collect(view.with_words(match.words, most, asked.oldest, asked.repo), into)
    except OutOfTime:
        return


def _in_order(view: View, asked: Asked, *, is_hasty: bool = False) -> Iterator[Row]:
    """Give the records of all terms; one that has several comes where its best overlap puts it."""
    streams = [
        _with_overlap(view.filed(each, asked.oldest, asked.repo, is_hasty=is_hasty), overlap)
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
    """Reads records again, and keeps those that match."""

    view: View
    asked: Asked
    words: Sequence[str]
    shown: str
    """The words as they were asked for."""

    def collect(self, rows: Iterable[Row], into: Collected) -> None:
        """Collect the first that match, one by one: what is there stays when the time is over."""
        self.choose(self.all(rows), into)

    def choose(self, found: Iterable[Match], into: Collected) -> None:
        """Collect the first matches; those that say the same take one place, and are counted.

        When all places are taken, a few more are read for the sake of the counts alone; if the time for that is over,
        the answer is whole all the same.
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

    def _said(self, record: Plain) -> Iterator[tuple[object, ...]]:
        """Give what is equal for records that say the same.

        For what tools report that is the cause, unless it was asked for: then all that have it are wanted. For all
        records it is the words. See also `dedupe_key`.
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
            line, facts = found
            overlap, why = reasons(facts, self.asked)
            if not why and self.asked.terms():
                continue
            if self.words:
                if not set(self.words) <= set(terms_of(line.content or {})):
                    continue
                why.append({"kind": "text", "value": self.shown})
            yield Match(line.record, why, (row.place, -overlap, row.id, row.n))


def reasons(facts: Facts, asked: Asked) -> tuple[int, list[Plain]]:
    """Return how well the paths overlap, and all that a record has in common with what is asked, apart from words."""
    why: list[Plain] = []
    best = 0
    if asked.fingerprint and facts.fingerprint == asked.fingerprint:
        why.append({"kind": "fingerprint", "value": facts.fingerprint})
    for path in facts.paths:
        overlap = max((overlap_of(path, wanted) for wanted in asked.paths), default=0)
        best = max(best, overlap)
        if overlap:
            why.append({"kind": "path", "value": path})
    if asked.sha and facts.sha == asked.sha:
        why.append({"kind": "sha", "value": facts.sha})
    if asked.pr_number is not None and facts.pr_number == asked.pr_number:
        why.append({"kind": "pr", "value": str(facts.pr_number)})
    return best, why


def overlap_of(one: str, other: str) -> int:
    """Return 2 for equal paths, 1 when one lies within the other, 0 otherwise."""
    if one == other:
        return 2
    return int(one in directories(other) or other in directories(one))
