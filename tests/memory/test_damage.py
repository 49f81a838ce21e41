"""Damage to the file: no crash, no more is lost than what was damaged, and it is named; repair moves it aside."""

import json
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import NotFound, append_record, read_records
from perdure.failpoints import armed
from perdure.memory.log.lines import line_of, read_line
from perdure.memory.log.reading import iter_lines
from perdure.memory.log.verify import LISTED
from perdure.memory.memory import Memory
from tests.crash.size import torture_size
from tests.memory.jobs import NOW_MS, record_of

KIB = 1024


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    yield memory
    memory.close()


def lines_of(count: int, *, pad: int = 40) -> list[bytes]:
    return [line_of(record_of(f"r{number}", pad=pad), NOW_MS) for number in range(count)]


def ids(memory: Memory) -> list[Any]:
    return [record.get("id") for record in memory.iter()]


def touched(lines: list[bytes], start: int, end: int) -> set[str]:
    """The ids of the lines that a damage from one offset to another is in, or in the end of the line before."""
    found, at = set(), 0
    for number, line in enumerate(lines):
        if at - 1 < end and start < at + len(line):
            found.add(f"r{number}")
        at += len(line)
    return found


def changed(lines: list[bytes], start: int, end: int) -> set[str]:
    """The ids of the lines whose text, without its end, a damage is in."""
    found, at = set(), 0
    for number, line in enumerate(lines):
        if max(start, at) < min(end, at + len(line) - 1) or (start == end and at < start < at + len(line) - 1):
            found.add(f"r{number}")
        at += len(line)
    return found


def damage_is_limited(memory: Memory, lines: list[bytes], text: bytes, start: int, end: int) -> None:
    """Only what was touched is lost, all of it is named, and an append, a repair and another append go well."""
    memory.files.log.write_bytes(text)
    everything = {f"r{number}" for number in range(len(lines))}
    assert everything - set(ids(memory)) <= touched(lines, start, end)
    found = memory.verify()
    assert min(LISTED, found["bad_lines"] + found["torn"]) == len(found["bad"])
    lost = everything - set(ids(memory))
    files = [(each["offset"], each["offset"] + each["length"]) for each in found["bad"]]
    is_named = found["torn_tail"] or any(first <= end and start <= last for first, last in files)
    assert not lost or is_named or found["unchecked"]  # what damage made of a line may look like one written by hand
    append_record(memory.files.log, {"id": "next"})
    served = memory.files.log.read_bytes()
    memory.repair()
    assert everything - set(ids(memory)) <= changed(lines, start, end)
    assert memory.verify()["bad"] == []
    assert all(line in served for line in memory.files.log.read_bytes().splitlines())
    append_record(memory.files.log, {"id": "last"})
    assert ids(memory)[-2:] == ["next", "last"]


@pytest.mark.torture
def test_flipped_bits_lose_no_more_than_the_records_they_are_in(memory: Memory) -> None:
    lines = lines_of(6)
    whole = b"".join(lines)
    for seed in range(torture_size(small=60)):
        chance = random.Random(seed)
        at = chance.randrange(len(whole))
        text = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        damage_is_limited(memory, lines, text, at, at + 1)


@pytest.mark.torture
@pytest.mark.parametrize("with_what", [b"\0", b"\xff", b"x", b"\n", b"{", b'"}\n{"', b"\xe2\x80\xa8"])
def test_a_block_of_foreign_bytes_loses_no_more_than_the_records_it_is_in(memory: Memory, with_what: bytes) -> None:
    lines = lines_of(8)
    whole = b"".join(lines)
    for seed in range(torture_size(small=6)):
        chance = random.Random(seed)
        start = chance.randrange(len(whole))
        length = chance.choice([1, 7, 64, 512])
        block = (with_what * length)[:length]
        replaced = whole[:start] + block + whole[start + length :]
        damage_is_limited(memory, lines, replaced, start, start + length)
        damage_is_limited(memory, lines, whole[:start] + block + whole[start:], start, start)


def test_records_of_64_kib_are_cut_anywhere(memory: Memory) -> None:
    lines = lines_of(3, pad=64 * KIB)
    whole = b"".join(lines)
    chance = random.Random(1)
    cuts = {chance.randrange(len(whole)) for _ in range(40)} | {len(lines[0]) + step for step in range(-3, 4)}
    for cut in cuts:
        memory.files.log.write_bytes(whole[:cut])
        append_record(memory.files.log, {"id": "next"})
        kept = sum(sum(map(len, lines[: number + 1])) - 1 <= cut for number in range(3))
        assert ids(memory) == [*(f"r{number}" for number in range(kept)), "next"]
        found = memory.verify()
        assert (found["bad_lines"], found["torn_tail"]) == (0, 0)
        assert found["torn"] == sum(line.kind == "torn" for line in iter_lines(memory.files.log)) <= 1


def test_a_write_that_is_not_finished_is_not_damage(memory: Memory) -> None:
    memory.add(record_of("a"))
    torn = line_of(record_of("b"), NOW_MS)[:-20]
    with memory.files.log.open("ab") as log:
        log.write(torn)
    found = memory.verify()
    assert (found["records"], found["bad"], found["torn_tail"]) == (1, [], len(torn))


@pytest.mark.parametrize("text", ["plain", "é🦀" * 20, 'a "quoted" one', "back\\slash", "{}[],:"])
def test_every_beginning_of_a_line_is_torn_and_not_damaged(text: str) -> None:
    record = {"id": "a", "title": text, "metadata": {"a": {"b": "c"}, "n": [1, -2.5e9, True, None]}}
    line = line_of(record, NOW_MS)[:-1]
    assert {read_line(0, line[:cut]).kind for cut in range(1, len(line))} == {"torn"}


@pytest.mark.parametrize("byte", b' "}\0x{')
def test_a_line_that_was_whole_once_is_damaged_and_not_torn(byte: int) -> None:
    line = line_of({"id": "a", "metadata": {"b": "c"}}, NOW_MS)[:-1]
    for at in range(len(line)):
        if line[at] != byte:
            kind = read_line(0, line[:at] + bytes([byte]) + line[at + 1 :]).kind
            assert kind in ("altered", "unreadable")


def test_a_line_that_was_edited_is_listed_and_can_be_accepted_in_its_place(memory: Memory) -> None:
    lines = lines_of(3)
    edited = lines[1].replace(b'"title":"r1"', b'"title":  "corrected"')
    memory.files.log.write_bytes(lines[0] + edited + lines[2])
    assert ids(memory) == ["r0", "r2"]
    bad = {"offset": len(lines[0]), "length": len(edited) - 1, "kind": "altered", "id": "r1"}
    found = memory.verify()
    assert (found["bad"], found["bad_lines"], found["records"]) == ([bad], 1, 2)
    assert memory.status()["bad_lines"] == 1
    answer = memory.repair(accept="r1")
    assert (answer["accepted"], answer["moved"], answer["quarantine"]) == (1, 0, None)
    assert [record["title"] for record in memory.iter()] == ["r0", "corrected", "r2"]
    text = memory.files.log.read_bytes()
    assert text[: len(lines[0])] + text[-len(lines[2]) :] == lines[0] + lines[2]
    assert text.splitlines()[1][:-10] == edited[:-11]
    assert memory.verify()["bad"] == []
    with pytest.raises(NotFound, match="r1"):
        memory.repair(accept="r1")


def test_an_edited_line_whose_own_keys_were_moved_gets_new_ones(memory: Memory) -> None:
    memory.files.log.write_bytes(b'{"_c":"00000000","id":"a","title":"x","_t":5,"v":1}\n')
    assert memory.verify()["bad_lines"] == 1
    memory.repair(accept="a")
    assert memory.files.log.read_bytes() == line_of({"id": "a", "title": "x", "v": 1}, 5)


def test_to_accept_one_line_moves_no_other(memory: Memory) -> None:
    lines = [line.replace(b"lesson", b"LESSON") for line in lines_of(2)]
    memory.files.log.write_bytes(lines[0] + b"junk\n" + lines[1])
    memory.repair(accept="r0")
    assert [line.kind for line in iter_lines(memory.files.log)] == ["checked", "unreadable", "altered"]
    assert not memory.files.quarantine.exists()


def test_repair_moves_damaged_bytes_aside_with_a_note_of_what_they_were(memory: Memory) -> None:
    lines = lines_of(4)
    altered = lines[1].replace(b"lesson", b"LESSON")
    memory.files.log.write_bytes(lines[0] + altered + b"\0\0\n" + lines[2] + lines[3][:50])
    answer = memory.repair()
    assert (answer["moved"], answer["recovered"]) == (3, 0)
    assert memory.files.log.read_bytes() == lines[0] + lines[2]
    moved = Path(answer["quarantine"])
    assert moved.read_bytes() == altered + b"\0\0\n" + lines[3][:50] + b"\n"
    note = json.loads(moved.with_suffix(".json").read_text())
    assert [(line["kind"], line["offset"]) for line in note["lines"]] == [
        ("altered", len(lines[0])),
        ("unreadable", len(lines[0] + altered)),
        ("torn", len(lines[0] + altered + b"\0\0\n" + lines[2])),
    ]
    assert note["lines"][0]["id"] == "r1"
    assert str(len(lines[0])) in moved.name
    assert {path.stat().st_mode & 0o777 for path in memory.files.quarantine.iterdir()} == {0o600}
    again = memory.repair()
    assert (again["moved"], again["quarantine"]) == (0, None)
    assert len(list(memory.files.quarantine.iterdir())) == 2


@pytest.mark.parametrize("between", [b"\x0b", b"", b"\0" * 9, b"{junk{", b'{"torn":"'])
def test_records_that_share_a_line_because_its_end_was_damaged_come_back(memory: Memory, between: bytes) -> None:
    lines = lines_of(4)
    memory.files.log.write_bytes(lines[0] + lines[1][:-1] + between + lines[2] + lines[3])
    assert ids(memory) == ["r0", "r3"]
    assert memory.verify()["bad_lines"] == 1
    assert memory.repair()["recovered"] == 2
    assert memory.files.log.read_bytes() == b"".join(lines)


def test_repair_of_what_is_not_there_does_nothing(memory: Memory) -> None:
    assert memory.repair()["moved"] == 0
    with pytest.raises(NotFound):
        memory.repair(accept="a")
    assert not memory.files.log.exists()
    assert memory.verify()["records"] == 0


def test_what_is_appended_during_a_repair_is_there_afterwards(memory: Memory) -> None:
    memory.files.log.write_bytes(b"junk\n" + lines_of(1)[0])
    with armed("memory.quarantine.after", lambda: append_record(memory.files.log, {"id": "new"})):
        memory.repair()
    assert ids(memory) == ["r0", "new"]


def test_many_bad_lines_are_all_counted_but_not_all_listed(memory: Memory) -> None:
    memory.files.log.write_bytes(b"junk\n" * (3 * LISTED))
    found = memory.verify()
    assert (found["bad_lines"], len(found["bad"])) == (3 * LISTED, LISTED)


def test_a_line_without_an_end_in_sight_is_passed_over_in_little_memory(memory: Memory) -> None:
    with memory.files.log.open("wb") as log:
        log.write(line_of({"id": "a"}, NOW_MS))
        log.truncate(64 << 20)
        log.seek(0, os.SEEK_END)
        log.write(b"\n" + line_of({"id": "b"}, NOW_MS))
    tracemalloc.start()
    found = memory.verify()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found["records"], found["bad_lines"]) == (2, 1)
    assert peak < 8 << 20
    assert memory.repair()["moved"] == 1
    assert ids(memory) == ["a", "b"]
    for path in memory.files.quarantine.iterdir():
        path.unlink()


def test_the_archive_is_verified_too(memory: Memory) -> None:
    lines = lines_of(2)
    memory.files.archive.mkdir()
    (memory.files.archive / "2024.jsonl").write_bytes(lines[0] + lines[1].replace(b"lesson", b"LESSON"))
    found = memory.verify()["archive"]
    assert (found["files"], found["records"], found["bad_lines"]) == (1, 1, 1)
    assert found["bad"][0] == {
        "file": "2024.jsonl",
        "offset": len(lines[0]),
        "length": len(lines[1]) - 1,
        "kind": "altered",
        "id": "r1",
    }


def test_lines_that_others_wrote_are_served_and_counted_as_unchecked(memory: Memory) -> None:
    memory.files.log.write_bytes(b'{"id":"by hand","timestamp":"2020-01-01"}\n\n  \n' + lines_of(1)[0])
    found = memory.status()
    assert found == {
        "path": str(memory.files.log),
        "records": 2,
        "unchecked": 1,
        "bad_lines": 0,
        "torn": 0,
        "retention_days": 90,
        "oldest": "2020-01-01T00:00:00.000Z",
        "newest": read_records(memory.files.log)[1]["timestamp"],
        "bytes": memory.files.log.stat().st_size,
        "archive_bytes": 0,
        "failed": False,
        "index": {"state": "missing", "bytes": 0, "offset": 0, "records": 0},
    }
