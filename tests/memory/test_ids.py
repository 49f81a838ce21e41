"""An id names one record: a second record with it is refused, in the log and the archive, between processes."""

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from perdure import Conflict, Invalid, append_record, read_records
from perdure.memory.index.ids import in_archive
from perdure.memory.ingest.report import SourceRecords, store
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.record import JsonObject
from tests import children
from tests.crash.goals import rest_of
from tests.crash.size import torture_size
from tests.memory import jobs
from tests.memory.jobs import NOW_MS, record_of

FIRST = {"id": "mine", "type": "lesson", "title": "first"}
OTHER = {**FIRST, "title": "other"}
DUPLICATE = {"added": False, "reason": "duplicate", "existing_id": "mine"}
CONTROLS = ["a\tb", "a\nb", "a\rb", "\0", "a\x1b[2J", "\x7f", "a\x85b", "a\u2028b", "a\u2029"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


def titles(memory: Memory) -> list[Any]:
    return [record.get("title") for record in memory.iter()]


def with_an_index(memory: Memory) -> None:
    memory.rebuild()


def without_an_index(memory: Memory) -> None:
    memory.files.index.unlink(missing_ok=True)


def with_a_damaged_index(memory: Memory) -> None:
    memory.rebuild()
    memory.files.index.write_bytes(os.urandom(8192))


def with_an_index_that_lies(memory: Memory) -> None:
    memory.rebuild()
    times = memory.files.index.stat()
    connection = sqlite3.connect(memory.files.index, isolation_level=None)
    connection.execute("UPDATE records SET at = at + 1")
    connection.close()
    os.utime(memory.files.index, ns=(times.st_atime_ns, times.st_mtime_ns))


def in_the_archive(memory: Memory) -> None:
    memory.compact(now_ms=now_ms() + 400 * jobs.DAY_MS)
    assert memory.files.archive.exists()


STATES = [with_an_index, without_an_index, with_a_damaged_index, with_an_index_that_lies, in_the_archive]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dedupe", [True, False])
def test_another_record_with_a_taken_id_is_refused(
    memory: Memory, state: Callable[[Memory], None], dedupe: bool
) -> None:
    memory.add(FIRST)
    state(memory)
    before = memory.files.log.read_bytes()
    for asked in (memory, Memory(memory.files.log.parent)):
        with pytest.raises(
            Conflict, match="The id 'mine' is taken by another record; nothing was stored"
        ) as id_conflict:
            asked.add(OTHER, dedupe=dedupe)
        assert (id_conflict.value.current or {})["title"] == "first"
        asked.close()
    assert memory.files.log.read_bytes() == before


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("dedupe", [True, False])
def test_the_same_record_with_its_id_is_a_duplicate_however_old(
    memory: Memory, state: Callable[[Memory], None], dedupe: bool
) -> None:
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(line_of({**FIRST, "timestamp": "2020-01-01T00:00:00.000Z"}, NOW_MS))
    state(memory)
    assert memory.add(FIRST, dedupe=dedupe) == DUPLICATE
    assert memory.add({**FIRST, "timestamp": "2020-01-01"}, dedupe=dedupe) == DUPLICATE
    with pytest.raises(Conflict):
        memory.add({**FIRST, "timestamp": "2020-01-02"}, dedupe=dedupe)


def test_an_id_is_looked_at_before_the_fingerprint(memory: Memory) -> None:
    memory.add({**FIRST, "fingerprint": "f"})
    with pytest.raises(Conflict):
        memory.add({**OTHER, "fingerprint": "f"})
    same = {key: value for key, value in FIRST.items() if key != "id"} | {"fingerprint": "f"}
    assert memory.add(same) == DUPLICATE
    assert memory.add({**same, "id": "new"}) == DUPLICATE


def test_of_a_batch_with_a_taken_id_nothing_is_stored_and_each_is_named(memory: Memory) -> None:
    memory.add(FIRST)
    batch = [{"type": "fact", "title": "a"}, OTHER, FIRST, {**OTHER, "title": "third"}]
    with pytest.raises(Conflict, match=r"Record 2: the id 'mine' is taken.* None was stored") as id_conflict:
        memory.add_many(batch)
    assert [error.partition(":")[0] for error in id_conflict.value.errors] == ["Record 2", "Record 4"]
    assert titles(memory) == ["first"]


def test_a_batch_is_checked_against_its_own_ids(memory: Memory) -> None:
    answers = memory.add_many([FIRST, FIRST, {"type": "fact", "title": "a"}], dedupe=False)
    assert [answer["added"] for answer in answers] == [True, False, True]
    with pytest.raises(Conflict, match="Record 2"):
        memory.add_many([{"id": "x", "type": "fact", "title": title} for title in "bc"])
    assert titles(memory) == ["first", "a"]


def test_a_low_level_append_refuses_a_taken_id_too(memory: Memory) -> None:
    append_record(memory.files.log, {"id": "low", "title": "first"})
    append_record(memory.files.log, {"title": "first", "id": "low"})
    with pytest.raises(Conflict, match="'low' is taken"):
        append_record(memory.files.log, {"id": "low", "title": "other"})
    with pytest.raises(Conflict):
        memory.add({"id": "low", "type": "lesson", "title": "other"})
    memory.add(FIRST)
    with pytest.raises(Conflict):
        append_record(memory.files.log, OTHER)
    in_the_archive(memory)
    with pytest.raises(Conflict):
        append_record(memory.files.log, OTHER)
    for _ in range(2):
        append_record(memory.files.log, {"title": "no id"})
        append_record(memory.files.log, {"id": 5})
    assert len(read_records(memory.files.log)) == 4


def test_a_log_that_was_replaced_in_place_is_read_again(memory: Memory) -> None:
    append_record(memory.files.log, {"id": "a", "title": "x" * 10})
    memory.files.log.write_bytes(line_of({"id": "b", "title": "y" * 100}, NOW_MS))
    append_record(memory.files.log, {"id": "a", "title": "new"})
    with pytest.raises(Conflict):
        append_record(memory.files.log, {"id": "b"})


@pytest.mark.parametrize("state", STATES)
def test_the_id_of_a_forgotten_record_stays_taken(memory: Memory, state: Callable[[Memory], None]) -> None:
    memory.add(FIRST)
    state(memory)
    memory.add({"type": "fact", "title": "stays"})
    memory.forget("mine")
    for compacted in (False, True):
        if compacted:
            memory.compact()
        for record in (FIRST, OTHER):
            with pytest.raises(Conflict, match="The id 'mine' is that of a forgotten record; nothing was stored"):
                memory.add(record)
            with pytest.raises(Conflict, match="forgotten"):
                append_record(memory.files.log, record)
        [answer] = memory.add_many([FIRST], skip_taken=True)
        assert answer == {"added": False, "reason": "forgotten", "existing_id": "mine"}
    assert titles(memory) == ["stays"]


def test_a_tombstone_that_waits_for_a_compaction_keeps_its_id(memory: Memory) -> None:
    memory.add(FIRST)
    in_the_archive(memory)
    tombstone = {"id": "t", "type": "_tombstone", "target": "mine"}
    append_record(memory.files.log, tombstone)
    answer = memory.import_lines([orjson.dumps(OTHER)])
    assert answer["forgotten"] == 2, "the line is skipped, and what waits in the archive is purged"
    with pytest.raises(Conflict):
        memory.add(FIRST)
    memory.compact()
    assert titles(memory) == []


@pytest.mark.parametrize("state", [with_an_index, in_the_archive])
def test_an_import_names_the_lines_whose_id_another_record_has(memory: Memory, state: Callable[[Memory], None]) -> None:
    memory.add(FIRST)
    state(memory)
    lines = [orjson.dumps(record) + b"\n" for record in (FIRST, OTHER, {**FIRST, "id": "new"})]
    answer = memory.import_lines(lines)
    assert (answer["added"], answer["skipped"], answer["conflicts"]) == (1, 2, 1)
    assert answer["conflicting"] == [{"line": 2, "id": "mine"}]


def test_what_is_ingested_again_is_a_duplicate_wherever_the_first_is(memory: Memory) -> None:
    records: list[JsonObject] = [{**FIRST, "id": f"i{number}", "title": f"t{number}"} for number in range(3)]
    assert store(SourceRecords(list(records)), memory)["added"] == 3
    in_the_archive(memory)
    changed = [{**record, "summary": "told in other words"} for record in records]
    answer = store(SourceRecords([*changed, {**FIRST, "id": "new"}]), memory)
    assert (answer["added"], answer["duplicates"], answer["errors"]) == (1, 3, [])


def test_an_id_is_found_in_the_archive_however_json_writes_it(memory: Memory) -> None:
    archive = memory.files.archive / "2020.jsonl"
    archive.parent.mkdir(parents=True)
    escaped = b'{"id": "caf\\u00e9", "type": "fact"}\n'
    others = b"".join(line_of({"id": f"r{number}", "title": '"café"'}, NOW_MS) for number in range(20))
    archive.write_bytes(others + escaped + b"junk\n")
    assert list(in_archive(memory.files, ["café", "none"]).records) == ["café"]
    many = [f"r{number}" for number in range(20)]
    assert len(in_archive(memory.files, [*many, "café"]).records) == 21


@pytest.mark.parametrize("name", CONTROLS, ids=ascii)
def test_an_id_with_a_control_character_is_refused_everywhere(memory: Memory, name: str) -> None:
    record = {**FIRST, "id": name}
    with pytest.raises(Invalid, match="control character"):
        memory.add(record)
    with pytest.raises(Invalid, match="control character"):
        memory.add_many([{"type": "fact", "title": "x"}, record])
    with pytest.raises(Invalid, match="control character"):
        append_record(memory.files.log, record)
    assert memory.import_lines([orjson.dumps(record)])["bad_lines"] == 1
    assert titles(memory) == []


@pytest.mark.parametrize("name", CONTROLS, ids=ascii)
def test_an_older_record_with_a_control_character_in_its_id_can_be_read_and_forgotten(
    memory: Memory, name: str
) -> None:
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(line_of({**FIRST, "id": name}, NOW_MS))
    assert memory.get(name)["title"] == "first"
    assert memory.search("first")["matches"][0]["record"]["id"] == name
    assert memory.forget(name) == {"forgotten": 1}
    assert titles(memory) == []


RIVALS = 8


@pytest.mark.torture
def test_of_many_writers_with_one_id_one_stores_its_record_and_the_others_get_a_conflict(tmp_path: Path) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(RIVALS + 1)
    rounds = torture_size(small=20)
    rivals = [children.start(jobs.add_under_one_id, tmp_path, name, rounds, barrier, theirs) for name in range(RIVALS)]
    mover = children.start(jobs.compact_on, tmp_path, rounds, barrier)
    theirs.close()
    answers = list(rest_of(ours))
    assert [children.end_of(each) for each in (*rivals, mover)] == [0] * (RIVALS + 1)
    won = {name: rival for name, rival, answer in answers if answer == "added"}
    assert len(won) == rounds
    assert sorted(answer for _, _, answer in answers) == ["added"] * rounds + ["conflict"] * rounds * (RIVALS - 1)
    with jobs.opened(tmp_path) as memory:
        stored = {record["id"]: record["title"] for record in map(orjson.loads, memory.export(archive=True))}
    assert stored == {name: str(rival) for name, rival in won.items()}


def test_an_import_beside_writers_counts_what_they_took(tmp_path: Path) -> None:
    with jobs.opened(tmp_path) as memory:

        def chunks() -> Iterator[bytes]:
            yield b"".join(orjson.dumps(record_of(f"r{number}")) + b"\n" for number in range(600))
            append_record(memory.files.log, {"id": "rival", "type": "fact"})
            yield orjson.dumps({**OTHER, "id": "rival"})

        answer = memory.import_lines(chunks())
    assert (answer["added"], answer["conflicts"]) == (600, 1)
