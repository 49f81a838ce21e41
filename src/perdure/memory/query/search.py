"""Full-text search with BM25.

The score of a record is the sum over its words of idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average)),
with the usual k1 and b; a word that occurs more than four times counts four times.
"""

import heapq
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from perdure.memory.index.rows import OutOfTime
from perdure.memory.index.terms import MOST_OFTEN
from perdure.memory.index.view import View
from perdure.memory.index.words import terms_of_query
from perdure.memory.query.filters import Filter
from perdure.memory.record import JsonObject

COUNTING = 0.4
"""The share of the time budget for counting how common the words are."""
GRACE = 0.3
"""The share of the time budget that is kept for reading the matches."""

_K1 = 1.2
_B = 0.75
_SMALL = 1000
_COMMON = 20
_MOST_WORDS = 64
_TEXTS_PER_MS = 200
"""The number of records that can be scored in a millisecond; more would exceed the time budget."""


@dataclass(frozen=True)
class SearchQuery:
    """The text, the limit and the filter of a search."""

    text: str
    limit: int
    record_filter: Filter


def affordable(budget_ms: float) -> int:
    """Return how many records can be scored within a time budget."""
    return max(1, int(min(budget_ms, 1e9) * _TEXTS_PER_MS))


def query_terms(text: str) -> dict[str, str]:
    """Return the terms of a query, each with the word that it comes from; a long text is cut."""
    return terms_of_query(text, _MOST_WORDS)


def significant_words(view: View, words: Iterable[str]) -> tuple[dict[str, int], bool]:
    """Return the significant words and the number of records with each, rarest first; and whether time ran out.

    In a log of more than 1,000 records, words in more than 5 % of them are dropped, unless all words are that common.
    A word that could not be counted in time counts as common.
    """
    most = view.records if view.records <= _SMALL else view.records // _COMMON
    counts = dict.fromkeys(words, most + 1)
    is_hasty = False
    for word in words:
        try:
            counts[word] = view.count_with([word], most + 1)
        except OutOfTime:
            is_hasty = True
    has_rare = any(0 < count <= most for count in counts.values())
    kept = {word: count for word, count in counts.items() if count <= most or not has_rare}
    return dict(sorted(kept.items(), key=lambda each: (each[1], each[0]))), is_hasty


def search(view: View, query: SearchQuery, budget_ms: float) -> JsonObject:
    """Return the records that have at least one of the words, best match first, then newest first."""
    scores: dict[int, float] = {}
    matches: list[JsonObject] = []
    start_s, budget_s = time.monotonic(), budget_ms / 1000
    view.set_deadline(start_s + COUNTING * budget_s)
    words, is_hasty = significant_words(view, query_terms(query.text))
    view.set_deadline(start_s + (1 - GRACE) * budget_s)
    try:
        is_truncated = _score(view, words, affordable(budget_ms), scores) or is_hasty
    except OutOfTime:
        is_truncated = True
    view.set_deadline(max(start_s + budget_s, time.monotonic() + GRACE * budget_s))
    try:
        for each in islice(_best(view, query, scores), query.limit):
            matches.append(each)  # noqa: PERF402  one by one, so that those found stay when the time is over
    except OutOfTime:
        is_truncated = True
    finally:
        view.set_deadline(None)
    return {"matches": matches, "truncated": is_truncated}


def _score(view: View, words: Mapping[str, int], left: int, scores: dict[int, float]) -> bool:
    """Add up the scores, rarest word first; return whether more records have the words than were affordable."""
    average = view.words / max(view.records, 1) or 1.0
    for word, count in words.items():
        if left <= 0:
            return True
        weight = idf(view.records, count)
        frequencies: dict[int, int] = {}
        lengths: dict[int, int] = {}
        try:
            _count(view, word, left, frequencies, lengths)
        finally:
            for n, times in frequencies.items():
                scores[n] = scores.get(n, 0.0) + weight * saturation(times, lengths[n] / average)
        if len(frequencies) < count:
            return True
        left -= len(frequencies)
    return False


def _count(view: View, word: str, newest: int, frequencies: dict[int, int], lengths: dict[int, int]) -> None:
    """Count how often the last records have a word, and note the length of each."""
    for n, length in view.texts_with(word, 1, newest):
        lengths[n] = length
        frequencies[n] = 1
    for times in range(2, MOST_OFTEN + 1):
        more = [n for n, _length in view.texts_with(word, times, newest) if n in frequencies]
        if not more:
            return
        frequencies.update(dict.fromkeys(more, times))


def _best(view: View, query: SearchQuery, scores: Mapping[int, float]) -> Iterator[JsonObject]:
    heap = [(-score, -n) for n, score in scores.items()]
    heapq.heapify(heap)
    while heap:
        score, n = heapq.heappop(heap)
        if (record := _record_if_matching(view, query, -n)) is not None:
            yield {"record": record, "score": round(-score, 6)}


def idf(records: int, having: int) -> float:
    """Return the inverse document frequency of a word."""
    return math.log(1 + (records - having + 0.5) / (having + 0.5))


def saturation(times: int, relative_length: float) -> float:
    """Return the BM25 weight of a term frequency, for a length relative to the average."""
    return times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * relative_length))


def _record_if_matching(view: View, query: SearchQuery, n: int) -> JsonObject | None:
    row, record_filter = view.row(n), query.record_filter
    if (
        row is None
        or (record_filter.repo and row.repo not in ("", record_filter.repo))
        or (record_filter.type and row.type != record_filter.type)
    ):
        return None
    if not view.is_current(row):
        return None
    result = view.read(row)
    return result[0].record if result is not None and record_filter.matches(result[0]) else None
