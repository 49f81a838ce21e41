"""Finding records by their words: which words count, and how well a record fits (BM25).

The score of a record is the sum over its words of idf · tf · (k1 + 1) / (tf + k1 · (1 - b + b · length / average)),
with the usual k1 and b; a word that stands there more than four times counts four times.
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
from perdure.memory.index.words import asked_terms
from perdure.memory.query.filters import Filter
from perdure.memory.record import Plain

COUNTING = 0.4
"""So much of the time may be spent on finding out which words are common."""
GRACE = 0.3
"""This part of the time is kept to say what was found."""

_K1 = 1.2
_B = 0.75
_SMALL = 1000
_COMMON = 20
_MOST_WORDS = 64
_TEXTS_PER_MS = 200
"""So many records with a word are weighed in a millisecond; what is more would not fit into the time anyway."""


@dataclass(frozen=True)
class Search:
    """What is searched for."""

    text: str
    limit: int
    wanted: Filter


def affordable(budget_ms: float) -> int:
    """Return how many records with a word can be looked at in a time."""
    return max(1, int(min(budget_ms, 1e9) * _TEXTS_PER_MS))


def asked_words(text: str) -> dict[str, str]:
    """Return the terms of a question, each with the word that it stands for; the first ones of a long text."""
    return asked_terms(text, _MOST_WORDS)


def weighty(view: View, words: Iterable[str]) -> tuple[dict[str, int], bool]:
    """Return the words that tell something, and how many records have each, the rarest first.

    In a log of more than 1,000 records words in more than 5 % of them are dropped; but when all words are as common as
    that, all are kept. A word that there was no time to count is taken for common; tell whether that happened.
    """
    most = view.records if view.records <= _SMALL else view.records // _COMMON
    counts = dict.fromkeys(words, most + 1)
    is_hasty = False
    for word in words:
        try:
            counts[word] = view.count_with([word], most + 1)
        except OutOfTime:
            is_hasty = True
    is_telling = any(0 < count <= most for count in counts.values())
    kept = {word: count for word, count in counts.items() if count <= most or not is_telling}
    return dict(sorted(kept.items(), key=lambda each: (each[1], each[0]))), is_hasty


def search(view: View, asked: Search, budget_ms: float) -> Plain:
    """Return the records that have one of the words at least, the best first, then those that were written last."""
    scores: dict[int, float] = {}
    matches: list[Plain] = []
    begun_s, budget_s = time.monotonic(), budget_ms / 1000
    view.until(begun_s + COUNTING * budget_s)
    words, is_hasty = weighty(view, asked_words(asked.text))
    view.until(begun_s + (1 - GRACE) * budget_s)
    try:
        is_truncated = _weigh(view, words, affordable(budget_ms), scores) or is_hasty
    except OutOfTime:
        is_truncated = True
    view.until(max(begun_s + budget_s, time.monotonic() + GRACE * budget_s))
    try:
        for each in islice(_best(view, asked, scores), asked.limit):
            matches.append(each)  # noqa: PERF402  one by one: what is there stays when the time is over
    except OutOfTime:
        is_truncated = True
    finally:
        view.until(None)
    return {"matches": matches, "truncated": is_truncated}


def _weigh(view: View, words: Mapping[str, int], left: int, scores: dict[int, float]) -> bool:
    """Add up the scores, the rarest word first; tell whether there are more records with the words than can be had."""
    average = view.words / max(view.records, 1) or 1.0
    for word, count in words.items():
        if left <= 0:
            return True
        weight = idf(view.records, count)
        often: dict[int, int] = {}
        lengths: dict[int, int] = {}
        try:
            _count(view, word, left, often, lengths)
        finally:
            for n, times in often.items():
                scores[n] = scores.get(n, 0.0) + weight * saturation(times, lengths[n] / average)
        if len(often) < count:
            return True
        left -= len(often)
    return False


def _count(view: View, word: str, newest: int, often: dict[int, int], lengths: dict[int, int]) -> None:
    """Count how often the last records have a word, and how long each of them is."""
    for n, length in view.texts_with(word, 1, newest):
        lengths[n] = length
        often[n] = 1
    for times in range(2, MOST_OFTEN + 1):
        more = [n for n, _length in view.texts_with(word, times, newest) if n in often]
        if not more:
            return
        often.update(dict.fromkeys(more, times))


def _best(view: View, asked: Search, scores: Mapping[int, float]) -> Iterator[Plain]:
    heap = [(-score, -n) for n, score in scores.items()]
    heapq.heapify(heap)
    while heap:
        score, n = heapq.heappop(heap)
        if (record := _wanted(view, asked, -n)) is not None:
            yield {"record": record, "score": round(-score, 6)}


def idf(records: int, having: int) -> float:
    """Weigh a word by how few of the records have it."""
    return math.log(1 + (records - having + 0.5) / (having + 0.5))


def saturation(times: int, relative_length: float) -> float:
    """Weigh how often a word stands in a record of that length."""
    return times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * relative_length))


def _wanted(view: View, asked: Search, n: int) -> Plain | None:
    row, wanted = view.row(n), asked.wanted
    if row is None or (wanted.repo and row.repo not in ("", wanted.repo)) or (wanted.type and row.type != wanted.type):
        return None
    if not view.is_current(row):
        return None
    found = view.read(row)
    return found[0].record if found is not None and wanted.wants(found[0]) else None
