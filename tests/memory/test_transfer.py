"""Records taken out of a memory, and into another one."""

import itertools
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from perdure import Unavailable, append_record
from perdure.failpoints import armed
from perdure.memory.log.lines import line_of
from perdure.memory.log.verify import LISTED
from perdure.memory.memory import Memory
from tests.memory.jobs import NOW_MS, failing, old_and_new, record_of


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "other")
    yield memory
    memory.close()


NOTHING = {
    **dict.fromkeys(("added", "skipped", "forgotten", "conflicts", "bad_lines"), 0),
    "conflicting": [],
    "bad": [],
}


def json_of(*names: str) -> bytes:
    return b"".join(orjson.dumps({"id": name, "type": "lesson"}) + b"\n" for name in names)


def ids(memory: Memory) -> list[str]:
    return [record["id"] for record in memory.iter()]


@pytest.mark.parametrize("raw", [False, True])
def test_what_is_exported_and_imported_is_the_same(memory: Memory, other: Memory, raw: bool) -> None:
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(old_and_new(40))
    memory.compact(now_ms=NOW_MS)
    memory.add({"type": "lesson", "title": "\u2028 é \0", "links": ["https://x"]})
    exported = b"".join(memory.export(raw=raw, archive=True))
    answer = other.import_lines([exported])
    assert answer == {**NOTHING, "added": 41}
    assert sorted(ids(other)) == sorted(orjson.loads(line)["id"] for line in exported.splitlines())
    assert list(other.iter())[-1] == list(memory.iter())[-1]
    assert other.verify()["records"] == 41
    assert other.import_lines([exported])["skipped"] == 41


def test_an_export_has_our_keys_only_when_it_is_raw(memory: Memory) -> None:
    memory.add(record_of("a"))
    [plain] = memory.export()
    assert plain == orjson.dumps({**record_of("a"), "v": 1}) + b"\n"
    assert list(memory.export(raw=True)) == [memory.files.log.read_bytes()]


def test_an_export_leaves_out_what_is_damaged_or_to_be_forgotten(memory: Memory) -> None:
    memory.add(record_of("a"))
    memory.add(record_of("b"))
    memory.files.archive.mkdir()
    (memory.files.archive / "2024.jsonl").write_bytes(line_of(record_of("a"), 1) + line_of(record_of("c"), 1))
    append_record(memory.files.log, {"type": "_tombstone", "target": "a"})
    with memory.files.log.open("ab") as log:
        log.write(b"junk\n" + b"x" * (3 << 20) + b"\n" + json_of("d") + b'{"id":"unfini')
    assert [orjson.loads(line)["id"] for line in memory.export(archive=True)] == ["c", "b", "d"]
    assert [orjson.loads(line)["id"] for line in memory.export()] == ["b", "d"]


def test_what_was_forgotten_here_is_not_imported_again(memory: Memory) -> None:
    memory.import_lines([json_of("a", "b")])
    memory.forget("a")
    assert memory.import_lines([json_of("a", "b", "c")]) == {**NOTHING, "added": 1, "skipped": 1, "forgotten": 1}
    memory.compact()
    memory.rebuild()
    assert memory.import_lines([json_of("a")])["forgotten"] == 1
    assert ids(memory) == ["b", "c"]


def test_what_was_forgotten_elsewhere_is_forgotten_by_an_import(memory: Memory, other: Memory) -> None:
    for each in (memory, other):
        each.import_lines([json_of("a", "b")])
    put_away(other, "b")
    memory.forget("a")
    memory.forget("b")
    log = memory.files.log.read_bytes()
    assert other.import_lines([log, json_of("a")]) == {**NOTHING, "forgotten": 4}
    everything = b"".join(path.read_bytes() for path in other.files.log.parent.rglob("*.jsonl"))
    assert (ids(other), everything.count(b'"id":"a"'), everything.count(b'"id":"b"')) == ([], 0, 0)
    again = other.files.log.read_bytes()
    assert other.import_lines([log]) == NOTHING
    assert other.files.log.read_bytes() == again, "a tombstone is stored once"


@pytest.mark.parametrize("point", ["memory.write.before", "memory.draft.before", "memory.swap.before"])
def test_an_import_that_dies_while_it_forgets_is_finished_by_the_next_one(
    memory: Memory, other: Memory, point: str
) -> None:
    for each in (memory, other):
        each.import_lines([json_of("a", "b")])
    memory.forget("a")
    log = memory.files.log.read_bytes()

    def die() -> None:
        raise SystemExit(point)

    with armed(point, die), pytest.raises(SystemExit):
        other.import_lines([log])
    other.import_lines([log])
    other.compact()
    assert ids(other) == ["b"]
    assert b'"id":"a"' not in other.files.log.read_bytes()


def put_away(memory: Memory, name: str) -> None:
    """Move a record into the archive, as an older compaction did."""
    memory.files.archive.mkdir()
    (memory.files.archive / "2024.jsonl").write_bytes(line_of(record_of(name), 1))


def test_nothing_is_exported_from_what_is_not_there(memory: Memory) -> None:
    assert list(memory.export(archive=True)) == []
    assert memory.import_lines([]) == NOTHING
    assert memory.import_lines([b"\n \n"])["bad_lines"] == 0
    assert not memory.files.log.exists()


def test_an_id_that_is_there_already_is_skipped_wherever_it_is(memory: Memory) -> None:
    memory.add(record_of("a", age_days=400))
    memory.compact(now_ms=NOW_MS)
    memory.add(record_of("b"))
    answer = memory.import_lines([json_of("a", "b", "c", "c", "d")])
    assert (answer["added"], answer["skipped"]) == (2, 3)
    assert ids(memory) == ["b", "c", "d"]


def test_records_are_normalised_and_ids_filled_in(memory: Memory) -> None:
    memory.import_lines([b'{"type":"incident","severity":"fatal","paths":"./a"}\n'])
    [record] = memory.iter()
    assert (record["severity"], record["paths"]) == ("critical", ["a"])
    assert record["id"]


def test_bad_lines_are_named_by_their_number_and_the_others_are_stored(memory: Memory) -> None:
    altered = line_of(record_of("x"), 1).replace(b"lesson", b"LESSON")
    lines = [json_of("a"), b"junk\n", b"[1]\n", b"\n", b'{"id":"no type"}\n', altered, b'{"type":"lesson","pa', b"\n"]
    long = b'{"type":"lesson","title":"%s"}\n' % (b"x" * (5 << 20))
    answer = memory.import_lines([*lines, long, json_of("b")[:-1]])
    assert (answer["added"], answer["bad_lines"]) == (2, 6)
    assert [each["line"] for each in answer["bad"]] == [2, 3, 5, 6, 7, 8]
    assert "needs a type" in answer["bad"][2]["why"]
    assert "altered" in answer["bad"][3]["why"]
    assert ids(memory) == ["a", "b"]
    assert len(memory.import_lines([b"junk\n" * 1000])["bad"]) == LISTED


def test_lines_may_be_cut_anywhere(memory: Memory) -> None:
    text = json_of("a", "b", "c")
    memory.import_lines(bytes([byte]) for byte in text)
    assert ids(memory) == ["a", "b", "c"]


class StopReading(Exception):
    """Somebody has seen enough of what would go on for ever."""


def test_an_endless_input_is_stored_as_it_comes_in_little_memory(memory: Memory) -> None:
    def endless() -> Iterator[bytes]:
        for number in itertools.count():
            yield json_of(str(number))[:-2] + b',"title":"%s"}\n' % (b"x" * 20_000)
            if number == 1000:
                assert memory.status()["records"] > 500
                raise StopReading

    tracemalloc.start()
    with pytest.raises(StopReading):
        memory.import_lines(endless())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


def test_what_another_one_adds_in_the_meantime_is_not_added_twice(memory: Memory) -> None:
    def chunks() -> Iterator[bytes]:
        yield json_of(*(str(number) for number in range(600)))
        append_record(memory.files.log, {"id": "rival", "type": "lesson"})
        yield json_of("rival", "last")

    answer = memory.import_lines(chunks())
    assert (answer["added"], answer["skipped"]) == (601, 1)


def test_a_compaction_in_the_meantime_does_not_confuse_an_import(memory: Memory) -> None:
    old = [record_of(f"r{number}", age_days=400) for number in range(500)]

    def chunks() -> Iterator[bytes]:
        yield b"".join(orjson.dumps(record) + b"\n" for record in old)
        assert memory.compact(now_ms=NOW_MS)["archived"] == 500
        yield json_of("r1", "new")

    answer = memory.import_lines(chunks())
    assert (answer["added"], answer["skipped"]) == (501, 1)


def test_an_import_without_room_says_so_and_can_be_done_again(memory: Memory) -> None:
    with armed("memory.write.some", failing(28)), pytest.raises(Unavailable):
        memory.import_lines([json_of("a")])
    assert memory.import_lines([json_of("a")])["added"] == 1


def test_records_without_an_id_are_imported_once(memory: Memory) -> None:
    lines = b'{"type":"fact","title":"a"}\n{"title":"b","type":"fact"}\n{"title":"a","type":"fact"}\n'
    assert memory.import_lines([lines])["added"] == 2
    assert memory.import_lines([lines, b'{"id":null,"type":"fact","title":"b"}\n'])["added"] == 0
    assert memory.import_lines([b'{"type":"fact","title":"c"}\n'])["added"] == 1
    assert [record["title"] for record in memory.iter()] == ["a", "b", "c"]


def test_of_two_records_with_one_id_the_first_is_imported(memory: Memory) -> None:
    lines = b'{"id":"1","type":"fact","title":"a"}\n{"id":"1","type":"fact","title":"b"}\n'
    answer = memory.import_lines([lines])
    assert (answer["added"], answer["skipped"], answer["conflicts"]) == (1, 1, 1)
    assert answer["conflicting"] == [{"line": 2, "id": "1"}]
    assert [record["title"] for record in memory.iter()] == ["a"]
