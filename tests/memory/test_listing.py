"""Listing: the newest first, narrowed down by type, source, repository and time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Invalid
from perdure.memory.log.lines import line_of
from perdure.memory.memory import Memory
from perdure.memory.record import JsonObject

RECORDS: list[JsonObject] = [
    {"id": "a", "type": "lesson", "source": "ann", "timestamp": "2026-01-03T00:00:00.000Z", "repo": "r"},
    {"id": "b", "type": "fact", "source": "junit", "timestamp": "2026-01-01T00:00:00.000Z"},
    {"id": "c", "type": "lesson", "source": "junit", "timestamp": "2026-01-02T00:00:00.000Z", "repo": "s"},
    {"id": "d", "type": "lesson", "timestamp": "2026-01-02T00:00:00.000Z"},
    {"id": "e", "type": "fact"},
    {"id": "gone", "type": "fact", "timestamp": "2026-02-01T00:00:00.000Z"},
    {"id": "t", "type": "_tombstone", "target": "gone"},
]
ARRIVAL_MS = 1_700_000_000_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(b"".join(line_of({"title": "word", **each}, ARRIVAL_MS) for each in RECORDS))
    yield memory
    memory.close()


@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        ({}, "adcbe"),
        ({"type": "lesson"}, "adc"),
        ({"source": "junit"}, "cb"),
        ({"type": "lesson", "source": "junit"}, "c"),
        ({"repo": "r"}, "adbe"),
        ({"since": "2026-01-02"}, "adc"),
        ({"until": "2026-01-02"}, "be"),
        ({"since": "2026-01-02T00:00:00Z", "until": 1767398400}, "dc"),
        ({"source": "nobody"}, ""),
    ],
)
def test_a_list_is_narrowed_down_and_so_is_a_search(memory: Memory, filters: Any, ids: str) -> None:
    found = memory.list(**filters)
    assert "".join(record["id"] for record in found["records"]) == ids
    matches = memory.search("words", budget_ms=60_000, **filters)["matches"]
    assert sorted(match["record"]["id"] for match in matches) == sorted(ids)


def test_a_limit_says_whether_there_are_more(memory: Memory) -> None:
    for limit, expected in (
        (
            0,
            "",
        ),
        (2, "ad"),
        (5, "adcbe"),
        (9, "adcbe"),
    ):
        found = memory.list(limit=limit)
        assert ("".join(each["id"] for each in found["records"]), found["has_more"]) == (expected, limit < 5)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"limit": -1}, "limit is -1"),
        ({"limit": "2"}, "limit is '2'"),
        ({"type": "Not A Type"}, "type is 'Not A Type'"),
        ({"source": 5}, "source must be text"),
        ({"since": "soon"}, "since is 'soon'"),
        ({"until": "later"}, "until is 'later'"),
    ],
)
def test_what_is_invalid_is_refused_by_name(memory: Memory, asked: Any, named: str) -> None:
    with pytest.raises(Invalid, match=named):
        memory.list(**asked)
    with pytest.raises(Invalid, match=named):
        memory.search("word", **asked)


def test_a_negative_limit_is_refused_by_related_too(memory: Memory) -> None:
    with pytest.raises(Invalid, match="limit is -1"):
        memory.related(text="word", limit=-1)
