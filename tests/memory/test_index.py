"""The index of the memory: whatever happens to its file, the answers stay what the log says."""

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perdure import append_record, read_records
from perdure.memory.dedupe import LONG_BYTES
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.record import JsonObject
from tests import children
from tests.memory import reference
from tests.memory.jobs import opened, record_of

NOW = 1_780_000_000_000
ALL: dict[str, Any] = {"now_ms": NOW, "limit": 20, "budget_ms": 60_000}


def record(number: int) -> JsonObject:
    words = "lock" if number % 3 else "lock retry retry"
    return {
        "id": f"record-{number:04}",
        "type": "lesson",
        "fingerprint": f"f{number % 5}",
        "paths": [f"src/m{number % 7}/x.py"],
        "title": f"{words} case{number}",
    }


def put(log: Path, numbers: range) -> None:
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as file:
        file.writelines(line_of(record(number), NOW) for number in numbers)


def answers(memory: Memory) -> list[Any]:
    return [
        memory.related(fingerprint="f3", **ALL),
        memory.related(paths=["src/m2"], **ALL),
        memory.related(text="retry", **ALL),
        memory.search("retry case12", budget_ms=60_000),
        memory.get("record-0007"),
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    put(memory.files.log, range(100))
    yield memory
    memory.close()


@pytest.fixture
def truth(memory: Memory, tmp_path: Path) -> Callable[[], list[Any]]:
    """The answers of a memory that has never had another index."""

    def translate_os_errors() -> list[Any]:
        folder = tmp_path / "other"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(memory.files.log, folder)
        other = Memory(folder)
        found = answers(other)
        other.close()
        return found

    return translate_os_errors


def test_the_index_is_made_on_the_first_look_for_its_owner_alone(memory: Memory) -> None:
    assert memory.index_state() == {"state": "missing", "bytes": 0, "offset": 0, "records": 0}
    memory.related(fingerprint="f3", **ALL)
    size = memory.files.log.stat().st_size
    state = memory.index_state()
    assert (state["state"], state["offset"], state["records"]) == ("current", size, 100)
    assert memory.files.index.stat().st_mode & 0o777 == 0o600
    assert {path.name for path in memory.files.log.parent.iterdir()} == {
        "memory.jsonl",
        "memory.idx.sqlite",
        "memory.idx.lock",
    }


def test_what_is_appended_is_found_at_once_and_taken_in(memory: Memory) -> None:
    answers(memory)
    first = memory.files.index.stat().st_ino
    append_record(memory.files.log, {"id": "new", "fingerprint": "f3", "severity": "critical"})
    assert memory.index_state()["state"] == "behind"
    assert memory.related(fingerprint="f3")["matches"][0]["record"]["id"] == "new"
    assert memory.index_state()["state"] == "current"
    assert memory.files.index.stat().st_ino == first


def test_a_torn_end_is_not_a_line_until_a_writer_ends_it(memory: Memory) -> None:
    with memory.files.log.open("ab") as file:
        file.write(line_of({"id": "torn", "fingerprint": "f3"}, NOW)[:-5])
    before = answers(memory)
    assert memory.index_state()["state"] == "current"
    assert answers(memory) == before
    append_record(memory.files.log, {"id": "next", "fingerprint": "f3", "severity": "critical"})
    assert memory.related(fingerprint="f3")["matches"][0]["record"]["id"] == "next"


def garbage(index: Path) -> None:
    index.write_bytes(os.urandom(20_000))


def cut(index: Path) -> None:
    os.truncate(index, index.stat().st_size // 2)


def emptied(index: Path) -> None:
    os.truncate(index, 0)


def one_byte(index: Path) -> None:
    with index.open("r+b") as file:
        file.seek(index.stat().st_size * 2 // 3)
        file.write(b"\xff\xfe\xfd")


def zeros(index: Path) -> None:
    with index.open("r+b") as file:
        file.seek(8192)
        file.write(bytes(16384))


def deleted(index: Path) -> None:
    index.unlink()


def foreign(index: Path) -> None:
    index.unlink()
    with sqlite3.connect(index) as connection:
        connection.execute("CREATE TABLE records (x)")
    connection.close()


def older(index: Path) -> None:
    changed(index, "PRAGMA user_version = 0")


def newer(index: Path) -> None:
    changed(index, "PRAGMA user_version = 999")


def without_a_table(index: Path) -> None:
    changed(index, "DROP TABLE postings")


def without_rows(index: Path) -> None:
    changed(index, "DELETE FROM postings")


def without_a_note(index: Path) -> None:
    changed(index, "DELETE FROM noted")


def changed(index: Path, statement: str) -> None:
    times = index.stat()
    connection = sqlite3.connect(index, isolation_level=None)
    connection.execute(statement)
    connection.close()
    if "noted" in statement or "DROP" in statement or "version" in statement:
        os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a very careful saboteur would


def a_folder(index: Path) -> None:
    index.unlink()
    index.mkdir()


def a_pipe(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


def of_another_log(index: Path) -> None:
    other = Memory(index.parent / "other")
    put(other.files.log, range(50, 90))
    other.rebuild()
    other.close()
    shutil.copy2(other.files.index, index)


def a_stale_journal(index: Path) -> None:
    index.with_name(f"{index.name}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))


SABOTAGES = [
    garbage, cut, emptied, one_byte, zeros, deleted, foreign, older, newer, without_a_table, without_rows,
    without_a_note, a_folder, a_pipe, of_another_log, a_stale_journal,
]  # fmt: skip


@pytest.mark.parametrize("sabotage", SABOTAGES)
@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_sabotage_of_the_index_changes_no_answer(
    sabotage: Callable[[Path], None], is_open: bool, memory: Memory, truth: Callable[[], list[Any]]
) -> None:
    expected = answers(memory)
    assert expected == truth()
    if not is_open:
        memory.close()
    sabotage(memory.files.index)
    assert answers(memory) == expected
    put(memory.files.log, range(100, 130))
    expected = truth()
    assert answers(memory) == expected
    memory.add({**record(5), "id": "again"}, dedupe=False)
    assert answers(memory) == truth()


def test_an_index_of_a_newer_version_is_unchanged(memory: Memory) -> None:
    answers(memory)
    memory.close()
    newer(memory.files.index)
    before = memory.files.index.read_bytes()
    assert memory.index_state()["state"] == "unusable"
    answers(memory)
    assert memory.files.index.read_bytes() == before


def test_an_index_that_is_locked_is_done_without(memory: Memory, truth: Callable[[], list[Any]]) -> None:
    answers(memory)
    holder = sqlite3.connect(memory.files.index, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    put(memory.files.log, range(100, 110))
    assert answers(memory) == truth()
    assert memory.add({"type": "lesson", "title": "goes on"})["added"]
    holder.close()
    assert answers(memory) == truth()
    assert memory.index_state()["state"] == "current"


def test_who_may_only_read_finds_the_same(memory: Memory, truth: Callable[[], list[Any]]) -> None:
    """Root may write anywhere, so the folder is one in which even root cannot make files."""
    answers(memory)
    memory.close()
    put(memory.files.log, range(100, 110))
    memory.files.index_lock.unlink()
    memory.files.index_lock.mkdir()
    before = memory.files.index.read_bytes()
    assert answers(memory) == truth()
    assert memory.index_state()["state"] == "behind"
    assert memory.files.index.read_bytes() == before
    memory.files.index.unlink()
    assert answers(memory) == truth()
    assert not memory.files.index.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become nobody")
def test_a_process_in_a_folder_that_can_only_be_read_finds_the_same() -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder))
        put(memory.files.log, range(100))
        expected = answers(memory)
        put(memory.files.log, range(100, 101))
        memory.close()
        for path in (memory.files.log.parent, *memory.files.log.parent.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        children.run(_as_nobody, memory.files.log.parent, expected[4])


async def _as_nobody(folder: Path, expected: JsonObject) -> None:
    os.setgid(65534)
    os.setuid(65534)
    memory = Memory(folder)
    assert memory.get("record-0007") == expected
    assert memory.get("record-0100")["id"] == "record-0100"
    assert memory.index_state()["state"] == "behind"
    memory.close()


def test_a_log_that_was_swapped_gets_a_new_index(memory: Memory, truth: Callable[[], list[Any]]) -> None:
    answers(memory)
    other = memory.files.log.with_name("swap")
    put(other, range(5, 60))
    other.replace(memory.files.log)
    assert answers(memory) == truth()
    assert memory.index_state()["records"] == 55


def test_a_log_that_was_cut_and_written_on_gets_a_new_index(memory: Memory, truth: Callable[[], list[Any]]) -> None:
    answers(memory)
    end = len(line_of(record(99), NOW))
    os.truncate(memory.files.log, memory.files.log.stat().st_size - end)
    put(memory.files.log, range(200, 201))
    assert answers(memory) == truth()


def test_a_record_that_was_altered_in_place_is_not_served(memory: Memory, truth: Callable[[], list[Any]]) -> None:
    answers(memory)
    text = memory.files.log.read_bytes()
    with memory.files.log.open("r+b") as file:
        file.seek(text.index(b"record-0003"))
        file.write(b"recorD-0003")
    assert answers(memory) == truth()
    found = memory.related(fingerprint="f3", **ALL)["matches"]
    assert "record-0003" not in {match["record"]["id"] for match in found}


def test_rebuild_reports_what_it_did(memory: Memory) -> None:
    done = memory.rebuild()
    assert done["records"] == 100
    assert done["bytes"] == memory.files.index.stat().st_size
    assert done["seconds"] >= 0
    assert memory.index_state()["state"] == "current"


def test_threads_share_a_memory(memory: Memory) -> None:
    wrong: list[object] = []

    def work(first: int) -> None:
        for number in range(first, first + 10):
            memory.add({"id": f"thread-{number:04}", "type": "lesson", "title": f"t{number}"})
            if memory.get(f"thread-{number:04}")["title"] != f"t{number}":
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(memory.search("t7 t17 t27", budget_ms=60_000)["matches"]) == 3


def test_a_forked_child_looks_for_itself(memory: Memory) -> None:
    answers(memory)
    child = os.fork()
    if child == 0:
        put(memory.files.log, range(100, 105))
        os._exit(0 if memory.get("record-0104") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert memory.get("record-0104")["id"] == "record-0104"


async def _look_and_add(folder: Path, who: int, count: int) -> None:
    memory = Memory(folder)
    for number in range(count):
        name = f"who{who}-{number:04}"
        added = memory.add({"id": name, "type": "lesson", "title": f"common {name}", "fingerprint": name})
        assert added == {"added": True, "id": name}
        assert memory.get(name)["id"] == name
        mine = memory.related(fingerprint=name, budget_ms=60_000)["matches"]
        assert [match["record"]["id"] for match in mine] == [name]
        assert memory.search(f"who{who} {number:04}", budget_ms=60_000)["matches"][0]["record"]["id"] == name
        again = memory.add({"type": "lesson", "title": f"common {name}", "fingerprint": name})
        assert again == {"added": False, "reason": "duplicate", "existing_id": name}
        if who == 0 and number % 5 == 4:
            memory.files.index.unlink(missing_ok=True)
        if who == 1 and number % 5 == 2:
            memory.rebuild()
    memory.close()


def test_processes_look_add_rebuild_and_delete_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    started = [children.start(_look_and_add, folder, who, 20) for who in range(4)]
    assert [children.end_of(child) for child in started] == [0] * 4
    memory = Memory(folder)
    assert len(read_records(memory.files.log)) == 80
    assert len(memory.search("common", limit=100, budget_ms=60_000)["matches"]) == 80
    memory.close()


def test_an_adder_lets_the_index_catch_up_and_asks_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state")
    many = [{"type": "lesson", "title": f"t{number}", "summary": "x" * 1000} for number in range(600)]
    first = memory.add_many(many)
    assert memory.add({"type": "lesson", "title": "one more"})["added"]
    assert memory.index_state()["offset"] > LONG_BYTES
    other = Memory(tmp_path / "state")
    assert other.add(many[3])["existing_id"] == first[3]["id"]
    assert other._recent.read_bytes < LONG_BYTES
    memory.files.index.unlink()
    assert other.add(many[5])["existing_id"] == first[5]["id"]
    assert memory.add(many[6])["existing_id"] == first[6]["id"]
    for each in (memory, other):
        each.close()


def test_a_window_that_begins_after_what_the_index_knows_needs_no_index(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "state")
    put(memory.files.log, range(50))
    memory.rebuild()
    with memory.files.log.open("ab") as file:
        file.writelines(line_of({"id": f"old{n}", "type": "fact", "title": f"o{n}"}, NOW) for n in range(50))
        file.write(line_of({"id": "recent", "type": "fact", "title": "r"}, now_ms()))
    assert memory.add({"type": "fact", "title": "r"})["existing_id"] == "recent"
    assert memory.add({"type": "fact", "title": "o1"})["added"]
    assert memory.add({"type": "fact", "title": "o1"})["existing_id"] != "old1"
    memory.close()


def test_an_index_without_the_keys_of_old_records_is_not_asked_for_them_when_the_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(tmp_path / "state")
    put(memory.files.log, range(50))
    with memory.files.log.open("ab") as file:
        file.write(line_of({"id": "recent", "type": "fact", "title": "r"}, now_ms()))
    memory.rebuild()
    assert keys_in(memory) == 1
    assert memory.add({"type": "fact", "title": "r"})["existing_id"] == "recent"
    assert memory.add(record(60))["added"]
    monkeypatch.setattr("perdure.memory.memory.clock_ms", lambda: NOW + 1)
    for asked in (memory, Memory(tmp_path / "state")):
        assert asked.add(record(7))["existing_id"] in ("record-0002", "record-0007")
        asked.close()


def keys_in(memory: Memory) -> int:
    connection = sqlite3.connect(memory.files.index)
    [(count,)] = connection.execute("SELECT count(key) FROM records")
    connection.close()
    return int(count)


names = st.sampled_from(["a", "b", "cc", "abcdefg", "abcdefh", "é", ""])
some_paths = st.lists(st.sampled_from(["src", "src/a", "src/a/x.py", "src/ab", "b.py", ".env"]), max_size=3)
texts = st.lists(st.sampled_from(["lock", "retry", "Lock", "timeout", "x_y", "é", "1"]), max_size=4).map(" ".join)
moments = st.sampled_from(
    [f"2026-0{month}-0{day}T00:00:00.{ms}Z" for month in (1, 5) for day in (1, 2) for ms in ("000", "999")]
)
records = st.fixed_dictionaries(
    {},
    optional={
        "id": names | st.integers(0, 3),
        "type": st.sampled_from(["lesson", "incident", "_ours"]),
        "severity": st.sampled_from(["critical", "high", "low", "odd"]),
        "timestamp": moments | st.just("soon"),
        "repo": st.sampled_from(["r", "s", 5]),
        "fingerprint": st.sampled_from(["f", "g", ["a", "b"], [None]]),
        "sha": st.sampled_from(["s1", "s2", "ab12cd34", "AB12CD3456", "ab12cd99"]),
        "pr_number": st.integers(1, 2) | st.just("1"),
        "paths": some_paths | st.just(5),
        "title": texts | st.integers(0, 2),
        "summary": texts,
        "supersedes": st.lists(names, max_size=2),
        "key": names,
    },
)
tombstones = names.map(lambda name: {"type": "_tombstone", "target": name})
happenings = st.one_of(
    st.tuples(st.just("append"), records),
    st.tuples(st.just("append"), records),
    st.tuples(st.just("append"), tombstones),
    st.tuples(st.just("add"), records),
    st.tuples(st.just("delete"), st.none()),
    st.tuples(st.just("corrupt"), st.integers(0, 2**32)),
    st.tuples(st.just("look"), st.none()),
)
questions = st.fixed_dictionaries(
    {},
    optional={
        "paths": some_paths,
        "fingerprint": st.sampled_from(["f", "g", '["a","b"]']),
        "text": texts,
        "repo": st.just("r"),
        "sha": st.sampled_from(["s1", "ab12cd3", "ab12cd345", "ab12cd"]),
        "pr_number": st.just(1),
        "limit": st.integers(1, 5),
    },
)


def happen(memory: Memory, what: str, value: Any) -> None:
    index = memory.files.index
    if what == "append":
        memory.files.log.parent.mkdir(exist_ok=True)
        with memory.files.log.open("ab") as file:  # as another program does it, which may use an id twice
            file.write(line_of(value, now_ms()))
    elif what == "add":
        memory.add({"type": "lesson", "title": value.get("summary", "x"), "sha": "s3"})
    elif what == "delete":
        index.unlink(missing_ok=True)
    elif what == "corrupt" and index.exists():
        with index.open("r+b") as file:
            file.seek(value % (index.stat().st_size + 1))
            file.write(value.to_bytes(5))
    elif what == "look":
        memory.search("lock")


@settings(max_examples=60, deadline=None)
@given(st.lists(happenings, max_size=12), st.lists(questions, min_size=1, max_size=3), texts)
@example([("append", {"type": "_tombstone", "target": "a"}), ("append", {"id": "a", "title": "lock"})], [{}], "lock")
@example([("append", {"id": "a", "supersedes": ["a"], "title": "lock"})], [{}], "lock")
@example([("append", {"type": "lesson", "id": "a", "key": "a", "fingerprint": "f", "supersedes": ["a"], "paths": 5})],
         [{"fingerprint": "f"}], "")  # fmt: skip
def test_whatever_happens_the_answers_are_those_of_a_full_scan(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, Any]], asked: list[JsonObject], text: str
) -> None:
    memory = Memory(tmp_path_factory.mktemp("memory") / "state")
    log = memory.files.log
    for event in events:
        happen(memory, *event)
        compare(memory, asked[0], text)
    for _ in range(2):
        for question in asked:
            compare(memory, question, text)
        memory.files.index.unlink(missing_ok=True)
    assert log.exists() or not any(what in ("append", "add") for what, _ in events)
    memory.close()


def compare(memory: Memory, question: JsonObject, text: str) -> None:
    log = memory.files.log
    now = now_ms()
    found = memory.related(**question, now_ms=now, budget_ms=60_000)
    assert not found["truncated"]
    wanted = reference.related(log, now, **question)
    assert [(match["record"], match["why"]) for match in found["matches"]] == wanted
    matches = memory.search(text, budget_ms=60_000)["matches"]
    assert [(match["record"], match["score"]) for match in matches] == reference.search(log, text)


def test_an_index_that_lacks_most_of_a_long_log_is_rebuilt_instead_of_caught_up(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.add_many([record_of(f"r{number}", pad=900_000) for number in range(24)], dedupe=False)
        memory.add({"type": "fact", "title": "more"})
        begun = memory.index_state()
        assert 0 < begun["records"] < 24
        made = memory.files.index.stat().st_ino
        kept = memory.files.index.with_name("kept")
        kept.hardlink_to(memory.files.index)  # so that no other file gets its number
        assert memory.get("r23")["title"] == "r23"
        assert memory.files.index.stat().st_ino != made
        assert memory.index_state()["state"] == "current"
        memory.add_many([record_of(f"s{number}", pad=900_000) for number in range(2)], dedupe=False)
        made = memory.files.index.stat().st_ino
        assert memory.get("s1")["title"] == "s1"
        assert memory.files.index.stat().st_ino == made
