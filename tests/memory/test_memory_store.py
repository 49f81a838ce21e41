"""The log of the memory: what is appended is read, whatever happened to the file in between."""

import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid, append_record, get_memory_state_dir, iter_records, read_records
from perdure.memory.log.lines import line_of, read_line
from perdure.memory.log.reading import iter_lines, lines_backwards
from perdure.settings import load_settings
from tests.memory.jobs import opened


class Mute:
    """An object without a text."""

    def __str__(self) -> str:
        raise ValueError("nothing to say")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "state" / "memory.jsonl"


def titles(log: Path) -> list[Any]:
    return [record["title"] for record in read_records(log)]


def test_state_dir_uses_env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORY_STATE_DIR", str(tmp_path / "elsewhere"))
    assert get_memory_state_dir() == tmp_path / "elsewhere"
    monkeypatch.setenv("MEMORY_STATE_DIR", "~/mine")
    assert get_memory_state_dir() == Path(os.environ["HOME"]) / "mine"
    assert get_memory_state_dir(tmp_path / "explicit") == tmp_path / "explicit"


def test_state_dir_without_env(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert get_memory_state_dir() == tmp_path / "home" / "state"
    monkeypatch.delenv("PERDURE_HOME")
    assert get_memory_state_dir() == tmp_path / "user" / ".perdure" / "state"
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    assert get_memory_state_dir() == tmp_path / ".perdure" / "state"
    assert load_settings().memory_state_dir == get_memory_state_dir()


def test_the_state_dir_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    found = get_memory_state_dir(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (found, found.parent)] == [0o700, 0o700]
    (tmp_path / "file").write_text("")
    with pytest.raises(Invalid, match="must be a folder, but is another file"):
        get_memory_state_dir(tmp_path / "file")


def test_reading_makes_no_state_dir(tmp_path: Path) -> None:
    log = load_settings().memory_state_dir / "memory.jsonl"
    with opened(log.parent) as memory:
        assert read_records(log) == memory.list()["records"] == list(memory.iter()) == []
        assert memory.search("x")["matches"] == memory.related(text="x")["matches"] == []
        assert memory.status()["records"] == memory.verify()["records"] == 0
        assert memory.compact(dry_run=True)["kept"] == 0
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("last", [line_of({"title": "last"}, 1)[:-1], b'{"title":"last"}', b' {"title": "last"} '])
def test_a_last_line_without_its_end_is_read_when_it_is_a_record(log: Path, last: bytes) -> None:
    append_record(log, {"id": "a", "title": "whole"})
    with log.open("ab") as file:
        file.write(last)
    size = log.stat().st_size
    with opened(log.parent) as memory:
        assert [record["title"] for record in memory.iter()] == titles(log) == ["whole", "last"]
        assert [record["title"] for record in memory.list()["records"]] == ["whole", "last"]
        found = memory.verify()
        assert (found["records"], found["torn_tail"], found["bad"]) == (2, 0, [])
        assert memory.search("last")["matches"] == [], "the index takes it in with its end"
        assert log.stat().st_size == size
        append_record(log, {"title": "next"})
        assert titles(log) == ["whole", "last", "next"]
        assert [match["record"]["title"] for match in memory.search("last")["matches"]] == ["last"]


@pytest.mark.parametrize(
    "last",
    [
        line_of({"title": "last"}, 1)[:-2],
        line_of({"title": "last"}, 1)[:-1].replace(b"last", b"lost"),
        b'{"title": "last"} {"title": "more"}',
        b"[1]",
        b"7",
        b"{}{",
        b'{"title":"last","_c":"00000000"}',
    ],
)
def test_a_last_line_that_is_no_whole_record_is_not_read(log: Path, last: bytes) -> None:
    append_record(log, {"title": "whole"})
    with log.open("ab") as file:
        file.write(last)
    assert titles(log) == ["whole"]
    with opened(log.parent) as memory:
        assert memory.verify()["torn_tail"] == len(last)


def test_append_then_read(log: Path) -> None:
    append_record(log, {"type": "lesson", "title": "flush before you answer"})
    assert read_records(log) == [{"type": "lesson", "title": "flush before you answer", "v": 1}]


def test_partial_last_line_is_skipped(log: Path) -> None:
    append_record(log, {"title": "whole"})
    with log.open("ab") as file:
        file.write(line_of({"title": "torn"}, 1)[:-9])
    assert titles(log) == ["whole"]
    append_record(log, {"title": "next"})
    assert titles(log) == ["whole", "next"]
    assert [line.kind for line in iter_lines(log)] == ["checked", "torn", "checked"]


def test_append_creates_parent(log: Path) -> None:
    append_record(log, {"title": "first"})
    assert titles(log) == ["first"]
    assert log.parent.stat().st_mode & 0o777 == 0o700
    assert log.stat().st_mode & 0o777 == 0o600


def test_appends_keep_order(log: Path) -> None:
    for number in range(50):
        append_record(log, {"title": number})
    assert titles(log) == list(range(50))


def test_a_missing_file_has_no_records(log: Path) -> None:
    assert read_records(log) == []
    assert list(iter_records(log)) == []
    assert not log.parent.exists()


def test_the_file_is_cut_at_every_byte_of_its_last_three_records(log: Path) -> None:
    for number in range(5):
        append_record(log, {"title": number})
    whole = log.read_bytes()
    ends = [end for end, byte in enumerate(whole, 1) if byte == ord("\n")]
    for cut in range(ends[1], len(whole) + 1):
        log.write_bytes(whole[:cut])
        append_record(log, {"title": "new"})
        kept = sum(end - 1 <= cut for end in ends)  # a record that lacks only its line end is whole
        assert titles(log) == [*range(kept), "new"]
        damaged = [line for line in iter_lines(log) if not line.is_served]
        assert len(damaged) == (cut not in ends and cut + 1 not in ends)
    assert len(ends) == 5


def test_our_own_keys_are_shown_only_when_asked_for(log: Path) -> None:
    append_record(log, {})
    assert read_records(log) == [{"v": 1}]
    [raw] = iter_records(log, raw=True)
    assert set(raw) == {"v", "_t", "_c"}
    assert log.read_bytes().endswith(b',"_c":"%s"}\n' % raw["_c"].encode())


def test_dates_and_paths_become_text(log: Path) -> None:
    record = {
        "moment": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "name": UUID(int=7),
        "file": PurePosixPath("a/b"),
        "both": (1, 2.5),
    }
    append_record(log, record)
    [found] = read_records(log)
    assert found == {
        "moment": "2026-01-02T03:00:00+00:00",
        "day": "2026-01-02",
        "name": str(UUID(int=7)),
        "file": "a/b",
        "both": [1, 2.5],
        "v": 1,
    }


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({"metadata": {"x": float("nan")}}, "metadata.x is nan"),
        ({"metadata": [float("inf")]}, r"metadata\[0\] is inf"),
        ({"title": "\ud800"}, "title contains a lone surrogate"),
        ({"metadata": {"\udfff": 1}}, "key in metadata contains a lone surrogate"),
        ({"metadata": {1: 1}}, "key in metadata is 1"),
        ({1: 1}, "key in the record is 1"),
        ({"title": Mute()}, "title has the type Mute, whose str"),
        ({"metadata": {"x": [1, float("-inf")]}}, r"metadata.x\[1\] is -inf"),
        ({"title": 1 << 70}, "title is an integer of more than 64 bits"),
        ({"title": "x" * (1 << 21)}, "maximum is 1,048,576"),
        ({"_t": 1}, "'_t'"),
        ({"_c": "x"}, "'_c'"),
        ([], "must be an object"),
    ],
)
def test_what_has_no_json_is_refused_by_name(log: Path, record: Any, named: str) -> None:
    with pytest.raises(Invalid, match=named):
        append_record(log, record)
    assert not log.exists()


def test_values_that_json_does_not_have_are_stored_as_their_text(log: Path) -> None:
    given = {"cost": Decimal("1.50"), "bytes": b"x", "many": {7}, "odd": {"deep": [Decimal("NaN"), type(None)]}}
    append_record(log, {"metadata": given})
    [record] = read_records(log)
    assert record["metadata"] == {
        "cost": "1.50",
        "bytes": "b'x'",
        "many": "{7}",
        "odd": {"deep": ["NaN", "<class 'NoneType'>"]},
    }
    with opened(log.parent) as memory, pytest.raises(Invalid, match=r"metadata.cost has the type Decimal"):
        memory.add({"type": "fact", "title": "x", "metadata": given})


def test_endless_nesting_is_refused(log: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"x": deep}
    with pytest.raises(Invalid, match="nested"):
        append_record(log, deep)
    circle: dict[str, Any] = {}
    circle["x"] = circle
    with pytest.raises(Invalid, match="nested"):
        append_record(log, circle)


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u0085", "\0", "\r\n", "\n", '"\\', "é🦀", '","_c":"00000000"}'])
def test_odd_characters_are_stored_equal(log: Path, text: str) -> None:
    for _ in range(3):
        append_record(log, {"title": text, text: [text]})
    assert read_records(log) == [{"title": text, text: [text], "v": 1}] * 3


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text().filter(lambda key: key not in ("v", "_t", "_c")), json, max_size=5))
def test_any_json_comes_back_as_it_was(record: dict[str, Any]) -> None:
    line = read_line(0, line_of(record, 5)[:-1])
    assert line.kind == "checked"
    assert line.record == {**record, "v": 1}
    assert line.arrival_ms == 5


@given(st.data())
def test_one_changed_byte_is_noticed(data: st.DataObject) -> None:
    text = line_of({"type": "lesson", "title": "what was written"}, 1_700_000_000_000)[:-1]
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[at]))
    assert read_line(0, text[:at] + bytes([byte]) + text[at + 1 :]).kind in ("altered", "unreadable")


@given(st.lists(st.binary(max_size=40), max_size=12), st.binary(max_size=20))
def test_backwards_is_forwards_the_other_way_round(tmp_path_factory: Any, parts: list[bytes], rest: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "memory.jsonl"
    path.write_bytes(b"\n".join([*(part for part in parts), rest]))
    fd = os.open(path, os.O_RDONLY)
    try:
        assert list(lines_backwards(fd, path, end=path.stat().st_size)) == list(iter_lines(path))[::-1]
    finally:
        os.close(fd)
