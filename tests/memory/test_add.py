"""Adding to the memory: normalised, and the same thing only once a day."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Invalid, read_records
from perdure.memory.dedupe import WINDOW_MS
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.normalise import INGESTED_TYPES, moment_ms


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


def test_an_id_and_a_moment_are_filled_in(memory: Memory) -> None:
    added = memory.add({"type": "lesson", "title": "x"})
    [record] = memory.iter()
    assert added == {"added": True, "id": record["id"]}
    assert record["timestamp"].endswith("Z")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"severity": "Fatal"}, {"severity": "critical"}),
        ({"severity": "error"}, {"severity": "high"}),
        ({"severity": "warning"}, {"severity": "medium"}),
        ({"severity": "debug"}, {"severity": "low"}),
        ({"severity": " UNKNOWN "}, {"severity": "unknown"}),
        ({"timestamp": 0}, {"timestamp": "1970-01-01T00:00:00.000Z"}),
        ({"timestamp": 1_700_000_000_123}, {"timestamp": "2023-11-14T22:13:20.123Z"}),
        ({"timestamp": "1700000000"}, {"timestamp": "2023-11-14T22:13:20.000Z"}),
        ({"timestamp": "2026-01-02T03:04:05"}, {"timestamp": "2026-01-02T03:04:05.000Z"}),
        ({"timestamp": "2026-01-02T03:04:05+02:00"}, {"timestamp": "2026-01-02T01:04:05.000Z"}),
        ({"timestamp": "2026-01-02"}, {"timestamp": "2026-01-02T00:00:00.000Z"}),
        ({"fingerprint": ["a", "b"]}, {"fingerprint": '["a","b"]'}),
        ({"fingerprint": ["a"]}, {"fingerprint": "a"}),
        ({"paths": ["./src\\a.py", ".env", "src//a.py", "/etc/x"]}, {"paths": ["src/a.py", ".env", "etc/x"]}),
        ({"paths": "a.py"}, {"paths": ["a.py"]}),
        ({"links": ["https://x"]}, {"links": [{"url": "https://x"}]}),
        ({"pr_number": "#12"}, {"pr_number": 12}),
        ({"title": "  x "}, {"title": "x"}),
    ],
)
def test_values_get_one_form(memory: Memory, given: dict[str, Any], stored: dict[str, Any]) -> None:
    memory.add({"type": "lesson", "summary": "s", **given})
    [record] = memory.iter()
    assert {key: record[key] for key in stored} == stored


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "needs a type"),
        ({"type": "Not A Word"}, "type is 'Not A Word'"),
        ({"type": "_tombstone"}, "type is '_tombstone'"),
        ({"type": "lesson", "paths": ["a/../../x"]}, "paths has 'a/../../x'"),
        ({"type": "lesson", "paths": [1]}, "paths"),
        ({"type": "lesson", "timestamp": "soon"}, "timestamp is 'soon'"),
        ({"type": "lesson", "timestamp": True}, "timestamp is True"),
        ({"type": "lesson", "timestamp": 1e300}, "timestamp"),
        ({"type": "lesson", "id": ""}, "id must be text"),
        ({"type": "lesson", "id": "x" * 201}, "id must be text"),
        ({"type": "lesson", "pr_number": -1}, "pr_number"),
        ({"type": "lesson", "links": [{"href": "x"}]}, "links"),
        ({"type": "lesson", "title": 5}, "title must be text"),
        ({"type": "lesson", "metadata": []}, "metadata"),
        ({"type": "lesson", "fingerprint": [None]}, "fingerprint"),
        ({"type": "lesson", "title": "x", "severity": "dunno"}, "severity is 'dunno'"),
        ({"type": "lesson", "title": "x", "severity": 3}, "severity is 3"),
        ({"type": "lesson"}, "needs content"),
        ({"type": "lesson", "id": "x", "repo": "r", "source": "s", "severity": "low"}, "needs content"),
        ({"type": "lesson", "title": " ", "summary": "", "paths": [], "links": []}, "needs content"),
        ({"type": "lesson", "metadata": {"pinned": True}}, "needs content"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(memory: Memory, given: dict[str, Any], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        memory.add(given)
    assert not memory.files.log.exists()


def test_the_same_is_stored_once_a_day(memory: Memory) -> None:
    first = memory.add({"type": "incident", "fingerprint": "f", "title": "one"})
    again = memory.add({"type": "incident", "fingerprint": "f", "title": "another title"})
    assert again == {"added": False, "reason": "duplicate", "existing_id": first["id"]}
    assert memory.add({"type": "incident", "fingerprint": "f", "repo": "r"})["added"]
    assert len(read_records(memory.files.log)) == 2


def test_another_process_knows_what_this_one_added(memory: Memory) -> None:
    first = memory.add({"type": "lesson", "title": "x"})
    other = Memory(memory.files.log.parent)
    assert other.add({"type": "lesson", "title": "x"})["existing_id"] == first["id"]
    assert other.add({"type": "lesson", "title": "y"})["added"]
    assert not memory.add({"type": "lesson", "title": "y"})["added"]
    other.close()


def test_a_day_later_it_is_stored_again(memory: Memory) -> None:
    memory.files.log.parent.mkdir()
    record = {"id": "old", "type": "lesson", "title": "x"}
    memory.files.log.write_bytes(line_of(record, now_ms() - WINDOW_MS - 1))
    assert memory.add({"type": "lesson", "title": "x"})["added"]
    assert not memory.add({"type": "lesson", "title": "x"})["added"]


def test_the_title_counts_where_nothing_else_tells_records_apart(memory: Memory) -> None:
    assert memory.add({"type": "lesson", "title": "x"})["added"]
    assert memory.add({"type": "lesson", "title": "y"})["added"]
    assert memory.add({"type": "deploy_failure", "sha": "s", "metadata": {"conclusion": "failure"}})["added"]
    assert memory.add({"type": "deploy_failure", "sha": "s", "metadata": {"conclusion": "timed_out"}})["added"]
    assert not memory.add({"type": "deploy_failure", "sha": "s", "metadata": {"conclusion": "failure"}})["added"]


@pytest.mark.parametrize("kind", ["lesson", "decision", "preference", "fact", "my_own"])
def test_what_people_write_is_the_same_only_in_the_same_words(memory: Memory, kind: str) -> None:
    first = {"type": kind, "sha": "s", "fingerprint": "f", "title": "x", "summary": "y"}
    assert memory.add(first)["added"]
    assert memory.add({**first, "summary": "z"})["added"]
    assert memory.add({**first, "title": "z"})["added"]
    assert not memory.add({**first, "severity": "high", "paths": ["a.py"]})["added"]


@pytest.mark.parametrize("kind", INGESTED_TYPES)
def test_what_tools_report_of_one_commit_is_the_same_in_any_words(memory: Memory, kind: str) -> None:
    first = {"type": kind, "sha": "s", "title": "x", "summary": "y"}
    assert memory.add(first)["added"]
    assert not memory.add({**first, "title": "other", "summary": "words"})["added"]
    assert memory.add({"type": kind, "title": "x", "summary": "one"})["added"]
    assert not memory.add({"type": kind, "title": "x", "summary": "two"})["added"]
    assert memory.add({"type": kind, "title": "y"})["added"]


def test_a_batch_is_checked_against_itself_too(memory: Memory) -> None:
    answers = memory.add_many([{"type": "lesson", "title": title} for title in "aba"])
    assert [answer["added"] for answer in answers] == [True, True, False]
    assert answers[2]["existing_id"] == answers[0]["id"]


def test_a_batch_with_an_invalid_record_stores_nothing(memory: Memory) -> None:
    with pytest.raises(Invalid):
        memory.add_many([{"type": "lesson", "title": "a"}, {"title": "no type"}])
    assert not memory.files.log.exists()


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1970-01-01T00:00:01.005Z", 1005), ("1969-12-31T23:59:59.999Z", -1), (1.5, 1500), ("soon", None), (None, None)],
)
def test_a_moment_is_read_to_the_millisecond(text: Any, ms: int | None) -> None:
    assert moment_ms(text) == ms
