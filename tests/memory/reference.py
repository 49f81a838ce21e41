"""Look-ups as one would write them in ten minutes: read everything, compare everything, sort everything."""

import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from perdure import iter_records
from perdure.memory.index.words import terms_of, terms_of_query
from perdure.memory.normalise import INGESTED_TYPES

Record = dict[str, Any]

RANKS = {"critical": 0, "high": 1, "medium": 2, "low": 3}
DAY_MS = 86_400_000


def visible(log: Path) -> list[Record]:
    """All records that may be found, with their arrival; a tombstone hides what stands before it, and nothing after."""
    records = list(iter_records(log, raw=True))
    hidden = {record.get("target"): n for n, record in enumerate(records) if record.get("type") == "_tombstone"}
    for n, record in enumerate(records):
        if not str(record.get("type", "")).startswith("_"):
            hidden |= {name: max(n, hidden.get(name, -1)) for name in record.get("supersedes", [])}
    shown = [(n, record) for n, record in enumerate(records) if not str(record.get("type", "")).startswith("_")]
    return [record for n, record in shown if not text(record.get("id")) or hidden.get(record["id"], -1) <= n]


def related(log: Path, now_ms: int, limit: int = 3, retention_days: int = 90, **asked: Any) -> list[tuple[Record, Any]]:
    found = []
    words = kept_words(log, asked.get("text") or "")
    shown = terms_of_query(asked.get("text") or "", 64)
    has_terms = any(asked.get(key) for key in ("paths", "fingerprint", "sha")) or asked.get("pr_number") is not None
    for n, record in enumerate(visible(log)):
        why, overlap = reasons(record, asked)
        moment = moment_of(record)
        if moment is not None and moment < now_ms - retention_days * DAY_MS:
            continue
        if asked.get("repo") and text(record.get("repo")) not in ("", asked["repo"]):
            continue
        if (has_terms and not why) or not (has_terms or words) or not set(words) <= set(words_of(record)):
            continue
        if words:
            why.append({"kind": "text", "value": " ".join(dict.fromkeys(shown[word] for word in words))})
        rank = RANKS.get(str(record.get("severity")), 4)
        age = math.inf if moment is None else -moment
        found.append(((rank, age, -overlap, text(record.get("id")), n), plain(record), why))
    found.sort(key=lambda each: each[0])
    groups: list[tuple[Record, Any, set[Any]]] = []
    for _order, record, why in found:
        said = sayings(record, asked)
        if not any(said & known for _record, _why, known in groups):
            groups.append((record, why, set()))
            groups[-1][2].update(said)
        else:
            next(known for _record, _why, known in groups if said & known).update(said)
    return [(record, why) for record, why, _said in groups[:limit]]


def sayings(record: Record, asked: Record) -> set[Any]:
    """What is equal for records that say the same."""
    about = (str(record.get("type")), str(record.get("repo") or ""))
    words, cause = (record.get("title"), record.get("summary")), record.get("fingerprint")
    has_cause = about[0] in INGESTED_TYPES and isinstance(cause, str) and cause and not asked.get("fingerprint")
    has_words = any(words) and all(isinstance(word, str | None) for word in words)
    return ({(*about, "cause", cause)} if has_cause else set()) | ({(*about, *words)} if has_words else set())


def reasons(record: Record, asked: Record) -> tuple[list[Record], int]:
    why, best = [], 0
    mark = record.get("fingerprint")
    if isinstance(mark, list):
        is_plain = all(isinstance(each, str) for each in mark)
        mark = (mark[0] if len(mark) == 1 else orjson.dumps(mark).decode()) if is_plain and mark else ""
    if asked.get("fingerprint") and mark == asked["fingerprint"]:
        why.append({"kind": "fingerprint", "value": mark})
    listed = record.get("paths")
    for path in dict.fromkeys(each for each in (listed if isinstance(listed, list) else []) if isinstance(each, str)):
        overlap = max((overlap_of(path, other) for other in asked.get("paths", ())), default=0)
        best = max(best, overlap)
        if overlap:
            why.append({"kind": "path", "value": path})
    if asked.get("sha") and is_of_commit(text(record.get("sha")), asked["sha"]):
        why.append({"kind": "sha", "value": record["sha"]})
    number = asked.get("pr_number")
    if number is not None and type(record.get("pr_number")) is int and record["pr_number"] == number:
        why.append({"kind": "pr", "value": str(number)})
    return why, best


def is_of_commit(one: str, other: str) -> bool:
    """Equal, or hexadecimal, with at least seven characters each and one the beginning of the other."""
    is_hex = all(len(each) >= 7 and all(char in "0123456789abcdef" for char in each.lower()) for each in (one, other))
    return one == other or (is_hex and (one.lower().startswith(other.lower()) or other.lower().startswith(one.lower())))


def overlap_of(one: str, other: str) -> int:
    return 2 if one == other else int(f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/"))


def search(log: Path, question: str, limit: int = 10, repo: str = "", kind: str = "") -> list[tuple[Record, float]]:
    """BM25 over all that is in the log; tombstones hide, but do not change the weight of a word."""
    everything = [each for each in iter_records(log, raw=True) if not str(each.get("type", "")).startswith("_")]
    shown = visible(log)
    lengths = [min(len(words_of(record)), 255) for record in everything]
    average = sum(lengths) / max(len(everything), 1) or 1.0
    words = kept_words(log, question)
    found = []
    for n, record in enumerate(everything):
        counts = Counter(words_of(record))
        score = 0.0
        for word in words:
            having = sum(word in words_of(other) for other in everything)
            tf = min(counts[word], 4)
            weight = math.log(1 + (len(everything) - having + 0.5) / (having + 0.5))
            score += weight * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * lengths[n] / average)) if tf else 0.0
        is_wanted = (not repo or text(record.get("repo")) in ("", repo)) and (not kind or record.get("type") == kind)
        if any(counts[word] for word in words) and is_wanted and record in shown:
            found.append((-score, -n, plain(record)))
    found.sort(key=lambda each: each[:2])
    return [(record, round(-score, 6)) for score, _n, record in found[:limit]]


def kept_words(log: Path, question: str) -> list[str]:
    everything = [set(words_of(each)) for each in iter_records(log) if not str(each.get("type", "")).startswith("_")]
    counts = {word: sum(word in each for each in everything) for word in terms_of_query(question, 64)}
    limit = len(everything) if len(everything) <= 1000 else len(everything) / 20
    if any(0 < count <= limit for count in counts.values()):
        counts = {word: count for word, count in counts.items() if count <= limit}
    return sorted(counts, key=lambda word: (counts[word], word))


def words_of(record: Record) -> list[str]:
    return terms_of(record)


def moment_of(record: Record) -> float | None:
    try:
        found = datetime.fromisoformat(record["timestamp"])
    except (KeyError, TypeError, ValueError):
        arrival = record.get("_t")
        return arrival if type(arrival) is int else None
    return math.floor((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def plain(record: Record) -> Record:
    return {key: value for key, value in record.items() if key not in ("_t", "_c")}
