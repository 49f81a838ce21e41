"""Compacting and forgetting: what is kept, what goes to the archive, and what goes for good."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound, append_record, read_records
from perdure.failpoints import armed
from perdure.memory.log.lines import line_of
from perdure.memory.log.reading import iter_lines
from perdure.memory.memory import Memory
from tests import children
from tests.crash.goals import rest_of
from tests.memory import jobs
from tests.memory.jobs import DAY_MS, NOW_MS, old_and_new, record_of, stamp


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    memory.files.log.parent.mkdir()
    yield memory
    memory.close()


def ids(path: Path) -> list[Any]:
    return [record.get("id") for record in read_records(path)]


def put(memory: Memory, *records: dict[str, Any]) -> list[bytes]:
    lines = [line_of(record, NOW_MS) for record in records]
    memory.files.log.write_bytes(b"".join(lines))
    return lines


def compacted(memory: Memory) -> dict[str, Any]:
    return memory.compact(now_ms=NOW_MS)


def year(memory: Memory, number: str) -> Path:
    return memory.files.archive / f"{number}.jsonl"


def test_what_is_old_goes_to_the_archive_of_its_year_line_by_line_as_it_was(memory: Memory) -> None:
    lines = put(memory, record_of("new"), record_of("old", age_days=91), record_of("older", age_days=400))
    before = memory.files.log.stat().st_size
    answer = compacted(memory)
    assert answer == {
        "kept": 1,
        "archived": 2,
        "forgotten": 0,
        "bytes_before": before,
        "bytes_after": len(lines[0]),
    }
    assert memory.files.log.read_bytes() == lines[0]
    assert year(memory, "2025").read_bytes() == lines[1]
    assert year(memory, "2024").read_bytes() == lines[2]
    assert year(memory, "2024").stat().st_mode & 0o777 == 0o600


def test_the_last_moment_of_the_retention_is_inside_it(memory: Memory) -> None:
    put(memory, record_of("last", age_days=90))
    assert compacted(memory)["kept"] == 1
    assert memory.compact(now_ms=NOW_MS + 1)["archived"] == 1
    assert memory.compact(retention_days=0, now_ms=0) == dict.fromkeys(
        ("kept", "archived", "forgotten", "bytes_before", "bytes_after"), 0
    )


def test_what_is_pinned_or_the_newest_of_its_fingerprint_stays(memory: Memory) -> None:
    put(
        memory,
        record_of("pinned", age_days=500, pinned=True),
        {**record_of("newest", age_days=400), "fingerprint": "f"},
        {**record_of("older", age_days=450), "fingerprint": "f"},
        {**record_of("has a newer one", age_days=450), "fingerprint": ["g", 1]},
        {**record_of("the newer one"), "fingerprint": ["g", 1]},
        {**record_of("pinned by a word", age_days=500), "metadata": {"pinned": "yes"}},
    )
    assert compacted(memory)["archived"] == 3
    assert ids(memory.files.log) == ["pinned", "newest", "the newer one"]
    assert compacted(memory)["archived"] == 0


def test_of_two_at_the_same_moment_the_later_line_is_the_newest(memory: Memory) -> None:
    put(memory, *({**record_of(name, age_days=400), "fingerprint": "f"} for name in ("a", "b")))
    compacted(memory)
    assert ids(memory.files.log) == ["b"]


def test_without_a_timestamp_the_arrival_counts_and_without_both_it_stays(memory: Memory) -> None:
    arrived = line_of({"id": "arrived"}, NOW_MS - 91 * DAY_MS)
    memory.files.log.write_bytes(arrived + b'{"id":"no time"}\n{"id":"odd","timestamp":"soon"}\n')
    compacted(memory)
    assert ids(memory.files.log) == ["no time", "odd"]
    assert year(memory, "2025").read_bytes() == arrived


def test_a_timestamp_cannot_lead_out_of_the_archive(memory: Memory) -> None:
    put(memory, {"id": "x", "timestamp": "../a-01-01T00:00:00.000Z"}, {"id": "y", "timestamp": 1.5e9})
    compacted(memory)
    assert sorted(path.name for path in memory.files.archive.iterdir()) == ["2017.jsonl"]


def test_damaged_lines_are_kept_unchanged(memory: Memory) -> None:
    lines = put(memory, *(record_of(name, age_days=400) for name in "abcd"))
    altered = lines[1].replace(b'"title":"b"', b'"title":"B"')
    damaged = [altered, lines[2][:40] + b"\n", b"\0\0\0\n", b"\xff not ours\n", b"\n"]
    memory.files.log.write_bytes(b"".join([lines[0], *damaged, lines[3], b'{"torn":']))
    assert compacted(memory)["archived"] == 2
    assert memory.files.log.read_bytes() == b"".join([*damaged, b'{"torn":\n'])


def test_nothing_is_rewritten_when_nothing_leaves(memory: Memory) -> None:
    put(memory, record_of("a"))
    inode = memory.files.log.stat().st_ino
    compacted(memory)
    assert memory.files.log.stat().st_ino == inode
    assert not memory.files.new.exists()


def test_the_archive_takes_a_record_once_and_another_one_with_its_id_too(memory: Memory) -> None:
    old = record_of("a", age_days=91)
    [line] = put(memory, old)
    compacted(memory)
    append_record(memory.files.log, old)
    put(memory, old, {**old, "title": "another"})
    assert compacted(memory)["archived"] == 2
    assert [record["title"] for record in read_records(year(memory, "2025"))] == ["a", "another"]
    assert year(memory, "2025").read_bytes().startswith(line)


@pytest.mark.parametrize("cut", [1, 2, 10, 60])
def test_what_a_dead_compaction_left_in_the_archive_is_written_over(memory: Memory, cut: int) -> None:
    lines = put(memory, record_of("a", age_days=91), record_of("b", age_days=91))
    memory.files.archive.mkdir()
    year(memory, "2025").write_bytes(b"".join(lines)[:-cut])
    compacted(memory)
    assert year(memory, "2025").read_bytes() == b"".join(lines)


def test_what_the_dead_left_behind_is_removed(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91))
    memory.files.archive.mkdir()
    for path in (memory.files.new, memory.files.archive / "2020.jsonl.new"):
        path.write_bytes(b"half of someth")
    compacted(memory)
    assert memory.files.log.read_bytes() == b""
    assert sorted(path.name for path in memory.files.log.parent.rglob("*") if ".idx." not in path.name) == [
        "2025.jsonl",
        "archive",
        "memory.jsonl",
        "memory.jsonl.lock",
    ]


def test_what_is_appended_while_it_works_is_there_afterwards(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91), record_of("b"))
    written = iter(range(100))

    def write() -> None:
        append_record(memory.files.log, {"id": f"n{next(written)}", "timestamp": stamp(500)})

    with armed("memory.archive.before", write), armed("memory.archive.after", write):
        assert compacted(memory)["kept"] == 3
    assert ids(memory.files.log) == ["b", "n0", "n1"]


def test_much_that_is_appended_is_copied_before_the_others_have_to_wait(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91))
    large = [{"id": str(number), "title": "x" * 900_000} for number in range(4)]

    def write() -> None:
        if large:
            append_record(memory.files.log, large.pop())
            append_record(memory.files.log, large.pop())

    with armed("memory.archive.after", write):
        assert compacted(memory)["kept"] == 2
    assert ids(memory.files.log) == ["3", "2"]


def test_a_reader_reads_on_in_the_file_that_it_began_with(memory: Memory) -> None:
    put(memory, *(record_of(str(number), pad=300_000, age_days=91) for number in range(4)))
    reader = memory.iter()
    assert next(reader)["id"] == "0"
    compacted(memory)
    assert [record["id"] for record in reader] == ["1", "2", "3"]
    assert list(memory.iter()) == []


def test_a_memory_continues_after_another_one_has_compacted(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91))
    first = memory.add({"type": "lesson", "title": "x"})
    other = Memory(memory.files.log.parent)
    compacted(other)
    other.close()
    assert memory.add({"type": "lesson", "title": "x"})["existing_id"] == first["id"]
    assert memory.add({"type": "lesson", "title": "y"})["added"]
    assert len(ids(memory.files.log)) == 2


def test_a_log_that_was_replaced_is_unchanged(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91))
    other = memory.files.log.with_name("other")
    other.write_bytes(line_of({"id": "edited"}, 1))

    def replace() -> None:
        if other.exists():
            other.rename(memory.files.log)

    with armed("memory.archive.after", replace), pytest.raises(Conflict, match="replaced"):
        compacted(memory)
    assert ids(memory.files.log) == ["edited"]
    assert not memory.files.new.exists()


@pytest.mark.parametrize("before", [None, b"derived"])
def test_the_index_is_that_of_the_new_file(memory: Memory, before: bytes | None) -> None:
    put(memory, record_of("a", age_days=91), record_of("b"))
    if before is not None:
        memory.files.index.write_bytes(before)
    compacted(memory)
    state = memory.index_state()
    assert (state["state"], state["records"]) == ("current", 1)


def test_of_two_who_compact_at_once_one_gets_a_conflict(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91))
    other = Memory(memory.files.log.parent)

    def compact_too() -> None:
        with pytest.raises(Conflict, match=f"process {os.getpid()} "):
            compacted(other)

    with armed("memory.archive.before", compact_too):
        assert compacted(memory)["archived"] == 1
    other.close()


def test_of_eight_processes_that_compact_at_once_all_leave_the_same(memory: Memory) -> None:
    memory.files.log.write_bytes(old_and_new(200))
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(8)
    folder = memory.files.log.parent
    rivals = [children.start(jobs.compact_at_once, folder, barrier, theirs) for _ in range(8)]
    theirs.close()
    answers = list(rest_of(ours))
    assert [children.end_of(rival) for rival in rivals] == [0] * 8
    assert sorted(set(map(str, answers)) - {"0", "conflict"}) == ["50"]
    archived = [record["id"] for path in memory.files.archive.iterdir() for record in read_records(path)]
    assert sorted(archived) == sorted(f"r{number}" for number in range(1, 200, 4))


def test_what_is_forgotten_is_nowhere_any_more(memory: Memory) -> None:
    put(memory, record_of("a", age_days=91), record_of("b", age_days=91))
    compacted(memory)
    with memory.files.log.open("ab") as log:  # as another program does it
        log.write(line_of({"id": "a", "title": "again"}, NOW_MS))
    memory.add(record_of("c"))
    assert memory.forget("a") == {"forgotten": 2}
    assert ids(year(memory, "2025")) == ["b"]
    assert [record["id"] for record in memory.iter()] == ["c"]
    everything = b"".join(path.read_bytes() for path in memory.files.log.parent.rglob("*.jsonl"))
    assert everything.count(b'"a"') == 1, "only the tombstone is left"
    assert b'"target":"a"' in everything
    with pytest.raises(NotFound, match="'a'"):
        memory.forget("a")
    assert memory.forget("b") == {"forgotten": 1}


def test_an_altered_record_can_be_forgotten_and_retention_plays_no_part(memory: Memory) -> None:
    lines = put(memory, record_of("a", age_days=999), record_of("b", age_days=999))
    memory.files.log.write_bytes(lines[0].replace(b"lesson", b"LESSON") + lines[1])
    assert memory.forget("a") == {"forgotten": 1}
    assert memory.files.log.read_bytes().startswith(lines[1])
    [_, tombstone] = iter_lines(memory.files.log)
    assert tombstone.record["target"] == "a"
    assert not memory.files.archive.exists()


def test_a_compaction_keeps_one_tombstone_for_each_forgotten_record(memory: Memory) -> None:
    put(memory, record_of("a"), record_of("b"))
    memory.forget("a")
    memory.forget("b")
    with memory.files.log.open("ab") as log:
        log.write(line_of({"id": "t", "type": "_tombstone", "target": "a"}, NOW_MS))
        log.write(line_of(record_of("b"), NOW_MS))  # as another program does it
    assert compacted(memory)["kept"] == 1
    assert [line.record["target"] for line in iter_lines(memory.files.log) if "target" in line.record] == ["a"]
    memory.compact(now_ms=NOW_MS + 365 * 24 * 3600 * 1000)
    assert memory.compact(now_ms=NOW_MS + 365 * 24 * 3600 * 1000)["forgotten"] == 0
    assert ids(year(memory, "2025")) == ["b"], "the tombstone of the reused id does not reach the archive"


def test_an_unknown_record_cannot_be_forgotten(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state")
    with pytest.raises(NotFound):
        memory.forget("x")
    assert not memory.files.log.parent.exists()
    assert memory.compact()["kept"] == 0
    with pytest.raises(Invalid, match="retention_days"):
        memory.compact(retention_days=-1)


def test_a_tombstone_applies_to_what_came_before_it(memory: Memory) -> None:
    tombstone = {"id": "t", "type": "_tombstone", "target": "a", "timestamp": stamp(0)}
    lines = put(memory, {**record_of("a"), "fingerprint": "f"}, tombstone, {**record_of("a"), "title": "new"})
    newest = {**record_of("b", age_days=400), "fingerprint": "f"}
    with memory.files.log.open("ab") as log:
        log.write(line_of(newest, NOW_MS))
    assert memory.status()["records"] == 3
    assert next(memory.export(raw=True)) == lines[2]
    answer = compacted(memory)
    assert (answer["forgotten"], answer["archived"], answer["kept"]) == (1, 0, 2)
    assert ids(memory.files.log) == ["a", "b"]
    assert {line.kind for line in iter_lines(memory.files.log)} == {"checked"}


def test_a_compaction_without_room_leaves_everything_unchanged(memory: Memory) -> None:
    memory.files.log.write_bytes(old_and_new(20, pad=400))
    before = memory.files.log.read_bytes()
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(jobs.compact_without_room, memory.files.log.parent, theirs)
    theirs.close()
    assert list(rest_of(ours)) == ["unavailable"]
    assert children.end_of(child) == 0
    assert memory.files.log.read_bytes() == before
    assert not memory.files.new.exists()
    assert compacted(memory)["archived"] == 5
    archived = [record["id"] for path in memory.files.archive.iterdir() for record in read_records(path)]
    assert len(archived) == len(set(archived)) == 5
