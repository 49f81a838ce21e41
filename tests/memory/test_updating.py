"""Updating under a key: the newest is found, what it supersedes stays in the log until compaction archives it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Invalid, read_records
from perdure.failpoints import armed
from perdure.memory.log.archive import archive_files
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from tests import children
from tests.memory import jobs
from tests.memory.test_kill import APPEND

FACT = {"type": "fact", "title": "Deploys are on Mondays", "paths": ["deploy.yml"], "fingerprint": "window"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


def found(memory: Memory) -> list[list[str]]:
    """The titles that each way of looking gives."""
    asked = [memory.search("deploys"), memory.related(paths=["deploy.yml"]), memory.related(fingerprint="window")]
    listed = [record["title"] for record in memory.list()["records"]]
    return [listed, *([match["record"]["title"] for match in each["matches"]] for each in asked)]


def test_an_update_supersedes_and_takes_over_what_is_not_given(memory: Memory) -> None:
    first = memory.update("window", FACT)
    assert first == {"added": True, "id": first["id"], "key": "window", "superseded": []}
    second = memory.update("window", {"title": "Deploys are on Tuesdays", "fingerprint": "window"})
    assert second["superseded"] == [first["id"]]
    assert found(memory) == [["Deploys are on Tuesdays"]] * 4
    stored = memory.get(second["id"])
    assert (stored["type"], stored["paths"], stored["key"]) == ("fact", ["deploy.yml"], "window")
    assert memory.get(first["id"])["title"] == "Deploys are on Mondays", "it can still be looked at"
    assert len(read_records(memory.files.log)) == 2
    assert memory.update("window", {"paths": None})["added"]
    assert memory.related(paths=["deploy.yml"])["matches"] == []


def test_answers_about_superseded_records_are_equal_without_an_index(memory: Memory) -> None:
    for day in ("Mondays", "Tuesdays", "Fridays"):
        memory.update("window", {**FACT, "title": f"Deploys are on {day}"})
    expected = found(memory)
    without_index(memory)
    assert found(memory) == expected == [["Deploys are on Fridays"]] * 4


def write(memory: Memory, *records: dict[str, Any]) -> None:
    """Append lines as another program does it, which may say what we refuse."""
    memory.files.log.parent.mkdir(exist_ok=True)
    with memory.files.log.open("ab") as file:
        file.writelines(line_of(record, now_ms()) for record in records)


def without_index(memory: Memory) -> None:
    memory.close()
    memory.files.index.unlink(missing_ok=True)
    memory.files.index.mkdir()


@pytest.mark.parametrize("has_index", [True, False], ids=["index", "no index"])
def test_a_record_that_supersedes_its_own_id_is_current(memory: Memory, has_index: bool) -> None:
    """A record supersedes what stands before it in the log: another one with its id, and never itself."""
    itself = {**FACT, "id": "a", "key": "window", "supersedes": ["a"]}
    write(memory, {**FACT, "id": "a", "title": "Deploys are on Sundays"}, itself)
    if has_index:
        memory.rebuild()
    else:
        without_index(memory)
    assert found(memory) == [["Deploys are on Mondays"]] * 4
    assert memory.get("a")["title"] == "Deploys are on Mondays"
    assert memory.add(FACT) == {"added": False, "reason": "duplicate", "existing_id": "a"}
    assert memory.update("window", {}) == {"added": False, "reason": "unchanged", "existing_id": "a"}
    done = memory.compact()
    assert (done["kept"], done["archived"]) == (1, 1), "only what it supersedes is archived"
    assert found(memory) == [["Deploys are on Mondays"]] * 4
    assert memory.update("window", {"title": "Deploys are on Fridays"})["superseded"] == ["a"]
    assert found(memory) == [["Deploys are on Fridays"]] * 4


def test_a_record_is_updated_by_its_id_which_stays_the_key(memory: Memory) -> None:
    first = memory.add(FACT)["id"]
    second = memory.update(first, {"severity": "low"})
    assert (second["key"], second["superseded"]) == (first, [first])
    third = memory.update(first, {"severity": "high"})
    assert third["superseded"] == [second["id"]]
    assert memory.update(third["id"], {"summary": "since May"})["key"] == first
    assert len(memory.list()["records"]) == 1
    with pytest.raises(Conflict):
        memory.add({**FACT, "id": first, "title": "other"})


def test_an_update_that_changes_nothing_stores_nothing(memory: Memory) -> None:
    first = memory.update("window", FACT)["id"]
    size = memory.files.log.stat().st_size
    unchanged = {"added": False, "reason": "unchanged", "existing_id": first}
    assert memory.update("window", FACT) == memory.update("window", {}) == unchanged
    assert memory.update("window", {"title": FACT["title"], "severity": None}) == unchanged
    assert memory.files.log.stat().st_size == size


@pytest.mark.parametrize(
    ("key", "changes", "named"),
    [
        ("new", {"title": "x"}, "No record has the key or the id 'new'"),
        ("new", {"type": "fact"}, "needs content"),
        ("new", {**FACT, "severity": "odd"}, "severity is 'odd'"),
        ("new", {**FACT, "id": "mine"}, "cannot have 'id'"),
        ("new", {**FACT, "supersedes": ["x"]}, "cannot have 'supersedes'"),
        (" ", FACT, "key is blank"),
        ("a\nb", FACT, "control character"),
        ("k" * 201, FACT, "1 to 200 characters"),
        (5, FACT, "key must be text"),
        ("new", [], "must be an object"),
    ],
)
def test_what_cannot_be_an_update_is_refused(memory: Memory, key: Any, changes: Any, named: str) -> None:
    with pytest.raises(Invalid, match=named):
        memory.update(key, changes)
    assert not memory.files.log.exists()


def test_what_is_superseded_is_not_a_duplicate(memory: Memory) -> None:
    first = memory.add(FACT)["id"]
    memory.update(first, {"title": "Deploys are on Tuesdays"})
    assert memory.add(FACT)["added"]
    other = Memory(memory.files.log.parent)
    assert not other.add(FACT)["added"]
    other.close()


def test_compaction_archives_what_is_superseded_and_only_that(memory: Memory) -> None:
    old = memory.update("window", {**FACT, "metadata": {"pinned": True}})["id"]
    new = memory.update("window", {"title": "Deploys are on Tuesdays"})["id"]
    log = memory.files.log.read_bytes()
    planned = memory.compact(dry_run=True)
    assert memory.files.log.read_bytes() == log
    assert sorted(path.name for path in log_folder(memory)) == ["memory.idx.lock", "memory.idx.sqlite", *LOG]
    assert memory.compact() == planned
    assert (planned["kept"], planned["archived"]) == (1, 1)
    assert planned["bytes_after"] == memory.files.log.stat().st_size
    assert [record["id"] for record in memory.iter()] == [new]
    assert [record["id"] for path in archive_files(memory.files) for record in read_records(path)] == [old]
    assert memory.update("window", {"title": "Never"})["superseded"] == [new]


LOG = ["memory.jsonl", "memory.jsonl.lock"]


def log_folder(memory: Memory) -> list[Path]:
    return list(memory.files.log.parent.iterdir())


def test_a_dry_run_counts_what_is_old_and_what_is_to_be_forgotten(memory: Memory) -> None:
    memory.files.log.parent.mkdir()
    memory.files.log.write_bytes(jobs.old_and_new(20))
    planned = memory.compact(now_ms=jobs.NOW_MS, dry_run=True)
    assert planned["archived"] == 5
    assert [path.name for path in log_folder(memory)] == ["memory.jsonl"], "it takes no lock and makes nothing"
    assert memory.compact(now_ms=jobs.NOW_MS) == planned


def test_to_forget_an_update_brings_back_what_was_there(memory: Memory) -> None:
    memory.update("window", FACT)
    memory.forget(memory.update("window", {"title": "Deploys are never"})["id"])
    assert found(memory) == [["Deploys are on Mondays"]] * 4


async def update_on(folder: Path, who: int) -> None:
    with jobs.opened(folder) as memory:
        for number in range(5):
            assert memory.update("window", {"summary": f"{who} {number}"})["added"]


def test_processes_that_update_one_key_lose_no_update(memory: Memory) -> None:
    memory.update("window", FACT)
    started = [children.start(update_on, memory.files.log.parent, who) for who in range(3)]
    assert [children.end_of(child) for child in started] == [0] * 3
    records = read_records(memory.files.log)
    assert len(records) == 16
    superseded = [name for record in records for name in record.get("supersedes", [])]
    assert superseded == [record["id"] for record in records[:-1]], "each one supersedes the one before"
    assert len(memory.list()["records"]) == 1


class Stop(Exception):
    """The process would have died here."""


def stop() -> None:
    raise Stop


@pytest.mark.parametrize("point", APPEND)
def test_an_update_that_fails_leaves_the_old_or_the_new_and_can_be_repeated(memory: Memory, point: str) -> None:
    first = memory.update("window", FACT)["id"]
    with armed(point, stop), pytest.raises(Stop):
        memory.update("window", {"title": "Deploys are on Tuesdays"})
    assert found(memory) in ([["Deploys are on Mondays"]] * 4, [["Deploys are on Tuesdays"]] * 4)
    memory.update("window", {"title": "Deploys are on Tuesdays"})
    assert found(memory) == [["Deploys are on Tuesdays"]] * 4
    assert len(read_records(memory.files.log)) == 2
    assert memory.get(first)["title"] == "Deploys are on Mondays"


async def update_once(folder: Path) -> None:
    with jobs.opened(folder) as memory:
        memory.update("window", {"title": "Deploys are on Tuesdays"})


@pytest.mark.parametrize("point", ["memory.write.before", "memory.write.after", "memory.flush.after"])
def test_an_update_that_is_killed_leaves_the_old_or_the_new(memory: Memory, point: str) -> None:
    memory.update("window", FACT)
    children.run_until(point, update_once, memory.files.log.parent)
    is_there = point != "memory.write.before"
    assert found(memory) == [["Deploys are on Tuesdays" if is_there else "Deploys are on Mondays"]] * 4
    assert memory.update("window", {"title": "Deploys are on Tuesdays"})["added"] is not is_there
