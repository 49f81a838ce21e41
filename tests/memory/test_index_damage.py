"""An index that is damaged while it is in use is thrown away and built again; the look-up answers what the log says."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Conflict, NotFound
from perdure.failpoints import armed
from perdure.memory.index.id_table import IdTable
from perdure.memory.index.index import Index
from perdure.memory.index.index_db import Database
from perdure.memory.index.rows import Unusable
from perdure.memory.index.view import View
from perdure.memory.log.lines import line_of
from perdure.memory.log.reading import lines_of
from perdure.memory.memory import Memory
from tests import children
from tests.crash.goals import rest_of
from tests.crash.size import torture_size
from tests.memory import jobs
from tests.memory.test_index import NOW, answers, put, record

WITHIN = 300


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    put(memory.files.log, range(WITHIN))
    yield memory
    memory.close()


@pytest.mark.torture
@pytest.mark.parametrize("damage", jobs.DAMAGES)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_random_damage_changes_no_answer(
    memory: Memory, damage: Callable[[Path, random.Random], None], is_open: bool
) -> None:
    memory.add({"id": "recent", "type": "fact", "title": "recent"})
    expected = answers(memory)
    for seed in range(torture_size(small=8)):
        if not is_open:
            memory.close()
        damage(memory.files.index, random.Random(seed))
        assert answers(memory) == expected, seed
        state = memory.status()
        assert (state["index"]["state"], state["records"]) == ("current", WITHIN + 1)


@pytest.mark.torture
@pytest.mark.parametrize("damage", jobs.DAMAGES)
def test_random_damage_lets_nothing_in_twice(memory: Memory, damage: Callable[[Path, random.Random], None]) -> None:
    memory.add({"id": "recent", "type": "fact", "title": "recent"})
    memory.rebuild()
    for seed in range(torture_size(small=3)):
        other = Memory(memory.files.log.parent)
        assert other.add({"type": "fact", "title": "recent"})["existing_id"] == "recent"
        damage(memory.files.index, random.Random(seed))
        for asked in (memory, other):
            assert asked.add({"type": "fact", "title": "recent"})["existing_id"] == "recent"
            with pytest.raises(Conflict):
                asked.add({"id": "record-0003", "type": "fact", "title": "other"})
        other.close()
        assert memory.compact(retention_days=365, now_ms=NOW)["kept"] == WITHIN + 1
        assert memory.verify()["records"] == WITHIN + 1
        memory.rebuild()


@pytest.mark.torture
@pytest.mark.parametrize("damage", jobs.DAMAGES)
def test_damage_that_leaves_no_trace_in_the_time_of_the_file_raises_nothing_of_sqlite(
    memory: Memory, damage: Callable[[Path, random.Random], None]
) -> None:
    answers(memory)
    for seed in range(torture_size(small=10)):
        times = memory.files.index.stat()
        damage(memory.files.index, random.Random(seed))
        if memory.files.index.exists():
            os.utime(memory.files.index, ns=(times.st_atime_ns, times.st_mtime_ns))
        for asked in (memory, Memory(memory.files.log.parent)):
            with suppress(NotFound):  # a wrong answer is possible here, an error of SQLite is not
                answers(asked)
            asked.add({**record(3), "id": f"again-{seed}"})
            asked.close()
        memory.rebuild()


@pytest.mark.parametrize("damage", jobs.DAMAGES)
def test_damage_in_the_middle_of_a_look_up_is_noticed(
    memory: Memory, damage: Callable[[Path, random.Random], None]
) -> None:
    expected = answers(memory)
    memory.close()
    index = Index(memory.files)
    for seed in range(4):
        looks: list[Any] = []

        def look(view: View, seed: int = seed, looks: list[Any] = looks) -> list[Any]:
            looks.append(view.records)
            if len(looks) == 1:
                damage(memory.files.index, random.Random(seed))
            return [view.with_id("record-0007"), view.count_with(["retri"], 1000)]

        found = index.use(look)
        assert found is not None
        assert (found[0].id, found[1]) == ("record-0007", WITHIN // 3)
        assert len(looks) > 1, "the answer of a damaged file is not believed"
    index.close()
    assert answers(memory) == expected


def test_a_file_that_something_else_wrote_takes_nothing_in(memory: Memory) -> None:
    memory.rebuild()
    put(memory.files.log, range(WITHIN, WITHIN + 5))
    database = Database.open(memory.files.index)
    header = database.header()
    with memory.files.log.open("rb") as log:
        lines = list(lines_of(log.fileno(), memory.files.log, start=header.upto))
        for looks in ([False], [True, False]):
            with pytest.raises(Unusable, match="another program has written it"):
                database.index_lines(lines, log.fileno(), header, iter(looks).__next__)
    assert database.header() == header
    database.close()


def test_rebuilding_is_given_up_after_a_few_tries_and_the_log_is_unchanged(memory: Memory) -> None:
    before = memory.files.log.read_bytes()
    made: list[None] = []

    def damage_again() -> None:
        made.append(None)
        memory.files.index.write_bytes(os.urandom(9000))

    with armed("memory.index.after", damage_again):
        expected = answers(memory)
    assert 0 < len(made) <= 4 * len(expected)
    assert memory.files.log.read_bytes() == before
    memory.rebuild()
    assert answers(memory) == expected


def test_ids_that_cannot_be_kept_raise_nothing_of_sqlite() -> None:
    names = IdTable()
    names.close()
    with pytest.raises(Unusable):
        names.put("a", 0, 0)


@pytest.mark.torture
def test_processes_that_look_and_append_beside_damage_meet_no_error_of_sqlite(tmp_path: Path) -> None:
    rounds = torture_size(small=25)
    put(tmp_path / "memory.jsonl", range(WITHIN))
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(4)
    workers = [
        children.start(jobs.look_and_append, tmp_path, f"w{number}", rounds, barrier, theirs) for number in range(3)
    ]
    damager = children.start(jobs.damage_on, tmp_path, barrier)
    theirs.close()
    added = list(rest_of(ours))
    assert [children.end_of(worker) for worker in workers] == [0] * 3
    damager.kill()
    children.end_of(damager)
    assert len(added) == 3 * rounds
    with jobs.opened(tmp_path) as memory:
        memory.files.index.unlink(missing_ok=True)
        assert all(memory.get(name)["title"] == name for name in added)


def test_an_older_log_line_is_still_served(tmp_path: Path) -> None:
    """What is in a log is found by an index that was damaged and made again, also without a sum of its own."""
    with jobs.opened(tmp_path) as memory:
        memory.files.log.write_bytes(b'{"id":"by hand","title":"retry"}\n' + line_of(record(1), NOW))
        assert memory.get("by hand")["title"] == "retry"
        memory.files.index.write_bytes(b"SQLite format 3\0" + os.urandom(5000))
        assert memory.get("by hand")["title"] == "retry"
