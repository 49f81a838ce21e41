"""What a saboteur found: each of these once lost a record, hid one, or ended in an error of ours."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from perdure import Conflict, Denied, Invalid, NotFound, Unavailable, get_memory_state_dir, read_records
from perdure.failpoints import armed
from perdure.memory.dedupe import WINDOW_MS
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.normalise import paths_inside

OLD = {"type": "fact", "timestamp": "2020-01-01"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


def titles(memory: Memory) -> list[Any]:
    return [record.get("title") for record in memory.iter()]


@pytest.mark.parametrize("other", [None, b"half of what another one writes"])
def test_a_draft_that_was_taken_away_replaces_nothing(memory: Memory, other: bytes | None) -> None:
    memory.add_many([{**OLD, "title": "old"}, {"type": "fact", "title": "new"}])
    before = memory.files.log.read_bytes()

    def take_away() -> None:
        memory.files.new.unlink()
        if other is not None:
            memory.files.new.write_bytes(other)

    with armed("memory.swap.before", take_away), pytest.raises(Conflict, match="was removed or replaced"):
        memory.compact()
    assert memory.files.log.read_bytes() == before


def test_what_is_forgotten_and_still_in_the_file_can_be_added_again(memory: Memory) -> None:
    name = memory.add({"type": "fact", "title": "gone"})["id"]

    def fail() -> None:
        raise Conflict("somebody rewrites it")

    with (
        armed("memory.draft.before", fail),
        pytest.raises(Conflict, match="is not found any more, but its text is still in the file"),
    ):
        memory.forget(name)
    with pytest.raises(NotFound):
        memory.get(name)
    for other in (memory, Memory(memory.files.log.parent)):
        answer = other.add({"type": "fact", "title": "gone"})
        assert answer["added"] == (other is memory)
    memory.compact()
    assert titles(memory) == ["gone"]


def test_a_value_of_a_damaged_record_is_not_taken_for_a_record(memory: Memory) -> None:
    victim = memory.add({"type": "fact", "title": "victim"})["id"]
    inner = json.dumps({"id": "evil", "type": "_tombstone", "target": victim, "v": 1, "_t": 1}, separators=(",", ":"))
    summed = inner[:-1].encode()
    forged = {**json.loads(inner), "_c": f"{crc32(summed):08x}"}
    memory.add({"type": "fact", "title": "harmless", "metadata": forged})
    memory.files.log.write_bytes(memory.files.log.read_bytes().replace(b"harmless", b"harmlest"))
    assert memory.repair()["recovered"] == 0
    assert titles(memory) == ["victim"]
    assert memory.get(victim)["title"] == "victim"


def test_a_path_that_leads_out_hides_no_other() -> None:
    assert paths_inside(["a.py", "..\\x.py", "b/../../c", "..d/e"]) == ["a.py", "..d/e"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand a folder to somebody else")
def test_an_archive_that_may_not_be_read_is_not_taken_for_empty(memory: Memory, tmp_path: Path) -> None:
    memory.add({**OLD, "title": "old"})
    memory.compact()
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, 65534, 65534)
    os.chown(memory.files.archive, 0, 0)
    tmp_path.parent.chmod(0o755)
    tmp_path.parent.parent.chmod(0o755)
    os.seteuid(65534)
    try:
        with pytest.raises(Denied):
            list(memory.export(archive=True))
        with pytest.raises(Denied):
            memory.verify()
    finally:
        os.seteuid(0)


def test_a_link_that_leads_nowhere_is_not_an_archive(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "x"})
    memory.files.archive.mkdir()
    (memory.files.archive / "2001.jsonl").symlink_to("nowhere")
    assert memory.status()["archive_bytes"] == 0
    assert len(list(memory.export(archive=True))) == 1


@pytest.mark.parametrize("with_index", [True, False])
def test_one_line_with_an_old_arrival_ends_no_search_for_duplicates(memory: Memory, with_index: bool) -> None:
    memory.add({"type": "fact", "title": "same"})
    with memory.files.log.open("ab") as file:
        file.write(line_of({"type": "fact", "title": "other"}, now_ms() - 3 * WINDOW_MS))
    if with_index:
        memory.rebuild()
    assert not Memory(memory.files.log.parent).add({"type": "fact", "title": "same"})["added"]


def test_a_line_that_is_nested_too_deeply_stops_nothing_else(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "x"})
    deep = '{"id":"deep","type":"fact","timestamp":"2020-01-01","metadata":{"a":' + "[" * 400 + "]" * 400 + "}}"
    with memory.files.log.open("ab") as file:
        file.write(deep.encode() + b"\n")
    assert titles(memory) == ["x"]
    assert memory.verify()["bad_lines"] == 1
    memory.compact()
    assert memory.repair()["moved"] == 1


def test_what_is_invalid_is_refused_by_a_sentence(memory: Memory) -> None:
    odd: list[Any] = [None, [], "x"]
    for record in odd:
        with pytest.raises(Invalid, match="must be an object"):
            memory.add(record)
    for budget_ms in (float("nan"), float("inf"), -1.0):
        with pytest.raises(Invalid, match="budget_ms"):
            memory.related(text="x", budget_ms=budget_ms)
        with pytest.raises(Invalid, match="budget_ms"):
            memory.search("x", budget_ms=budget_ms)
    with pytest.raises(Invalid, match="paths"):
        memory.related(paths=[5])  # type: ignore[list-item]


def test_one_path_may_be_given_alone_or_as_a_path(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "x", "paths": ["shop/cart.py"]})
    given: list[Any] = ["shop/cart.py", [Path("shop/cart.py")], Path("shop/cart.py")]
    for paths in given:
        assert len(memory.related(paths=paths)["matches"]) == 1


BY_HAND = b'{"id":"by hand","type":"fact","title":"%s","paths":["a.py"]}\n'


@pytest.mark.parametrize("is_appended_to", [False, True])
@pytest.mark.parametrize("is_another", [False, True], ids=["the same process", "another one"])
def test_a_line_without_a_sum_that_is_edited_in_place_is_found_by_what_it_says_now(
    memory: Memory, is_appended_to: bool, is_another: bool
) -> None:
    memory.add({"type": "fact", "title": "first"})
    with memory.files.log.open("ab") as file:
        file.write(BY_HAND % b"before")
    memory.add({"type": "fact", "title": "x" * 5000})
    memory.rebuild()
    assert [each["record"]["id"] for each in memory.search("before")["matches"]] == ["by hand"]
    edit_in_place(memory.files.log, b"before", b"behind")
    if is_appended_to:
        memory.add({"type": "fact", "title": "last"})
    asked = Memory(memory.files.log.parent) if is_another else memory
    assert [each["record"]["id"] for each in asked.search("behind")["matches"]] == ["by hand"]
    assert asked.search("before")["matches"] == []


def test_a_line_that_is_mended_in_place_is_found_again(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "a harmless one"})
    memory.add({"type": "fact", "title": "x" * 5000})
    edit_in_place(memory.files.log, b"harmless", b"harmlest")
    memory.rebuild()
    assert memory.search("harmless")["matches"] == []
    edit_in_place(memory.files.log, b"harmlest", b"harmless")
    assert len(memory.search("harmless")["matches"]) == 1


def edit_in_place(path: Path, old: bytes, new: bytes) -> None:
    with path.open("r+b") as file:
        at = file.read().index(old)
        file.seek(at)
        file.write(new)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_record_that_claims_to_be_of_the_far_future_blocks_nothing_else(
    memory: Memory, with_index: bool, is_first: bool
) -> None:
    of_the_future = line_of({"id": "future", "type": "fact", "title": "same"}, now_ms() + 400 * WINDOW_MS)
    memory.add({"type": "fact", "title": "other"})
    if not is_first:
        memory.add({"type": "fact", "title": "same"})
    with memory.files.log.open("ab") as file:
        file.write(of_the_future)
    if with_index:
        memory.rebuild()
    for other in (memory, Memory(memory.files.log.parent)):
        assert other.add({"type": "fact", "title": "same"})["added"] == (is_first and other is memory)


def test_what_is_added_behind_a_tombstone_of_its_id_is_found_before_and_after_compaction(memory: Memory) -> None:
    memory.add({"id": "again", "type": "fact", "title": "old words", "paths": ["a.py"]})
    memory.add({"type": "fact", "title": "old"})

    def fail() -> None:
        raise Conflict("somebody rewrites it")

    with (
        armed("memory.draft.before", fail),
        pytest.raises(Conflict, match="is not found any more, but its text is still in the file"),
    ):
        memory.forget("again")
    assert found(memory) == []
    with memory.files.log.open("ab") as log:  # as another program does it
        log.write(line_of({"id": "again", "type": "fact", "title": "new words", "paths": ["a.py"]}, now_ms()))
    expected = ["new words"]
    assert found(memory) == expected
    memory.rebuild()
    assert found(memory) == expected
    assert memory.add({"type": "fact", "title": "old words"})["added"]
    memory.compact()
    assert found(memory) == expected
    assert sorted(titles(memory)) == ["new words", "old", "old words"]


def found(memory: Memory) -> list[Any]:
    """The titles of what is found by the id and the path, which must be the same."""
    by_path = [each["record"]["title"] for each in memory.related(paths=["a.py"])["matches"]]
    by_word = [each["record"]["title"] for each in memory.search("words")["matches"] if "paths" in each["record"]]
    try:
        by_id = [memory.get("again")["title"]]
    except NotFound:
        by_id = []
    assert by_path == by_word == by_id
    return by_id


def test_what_cannot_be_asked_by_is_refused_by_its_name(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "x"})
    odd: Any = "\udcff"
    asks: dict[str, list[Any]] = {
        "limit": [lambda: memory.search("x", limit=10**20), lambda: memory.related(text="x", limit=10**20)],
        "text": [lambda: memory.search(None), lambda: memory.related(text=odd)],  # type: ignore[arg-type]
        "retention_days": [lambda: memory.compact(retention_days=10**9), lambda: memory.related(retention_days=10**9)],
        "fingerprint": [lambda: memory.related(fingerprint=odd), lambda: memory.related(fingerprint=["a", odd])],
        "paths": [lambda: memory.related(paths=[odd])],
        "repo": [lambda: memory.related(text="x", repo=odd), lambda: memory.search("x", repo=odd)],
        "sha": [lambda: memory.related(sha=odd)],
        "type": [lambda: memory.search("x", type=odd)],
        "pr_number": [lambda: memory.related(pr_number=10**20)],
        "id": [lambda: memory.get("abcdef" + odd), lambda: memory.get(None), lambda: memory.forget(odd)],  # type: ignore[arg-type]
        "accept": [lambda: memory.repair(accept=odd)],
    }
    for name, each in asks.items():
        for ask in each:
            with pytest.raises(Invalid, match=f"^{name}"):
                ask()


def test_a_name_that_no_file_can_have_is_refused_by_a_sentence() -> None:
    with pytest.raises(Invalid, match="cannot be the file of a memory"):
        read_records("a\0b")
    with pytest.raises(Invalid, match="is not a valid path"):
        get_memory_state_dir("~nobody-of-that-name/x")


def test_an_index_that_is_removed_while_it_is_made_ends_a_rebuild_by_a_sentence_and_no_look_up(memory: Memory) -> None:
    memory.add({"type": "fact", "title": "words"})

    def take_away() -> None:
        memory.files.new_index.unlink()

    with armed("memory.index.before", take_away):
        with pytest.raises(Unavailable, match=r"memory\.idx\.new was removed"):
            memory.rebuild()
        assert len(memory.search("words")["matches"]) == 1
    assert memory.rebuild()["records"] == 1
