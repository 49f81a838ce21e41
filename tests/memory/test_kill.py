"""Whoever writes a memory is killed before and after each durable step: the old or the new is there, whole."""

import random
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

from perdure import Damaged, NotFound, Perdure, read_records
from perdure.failpoints import armed
from perdure.memory.log.archive import archive_files
from perdure.memory.log.lines import line_of
from perdure.memory.memory import Memory
from perdure.memory.paths import LOG_FILE
from perdure.store.backup.archive import unpack_archive, write_archive
from tests import children
from tests.crash.goals import rest_of
from tests.crash.size import torture_size
from tests.memory import jobs
from tests.memory.jobs import NOW_MS, old_and_new, opened, record_of

APPEND = ("memory.write.before", "memory.write.some", "memory.write.after", "memory.flush.before", "memory.flush.after")
REWRITE = (
    "memory.draft.before",
    "memory.draft.after",
    "memory.swap.before",
    "memory.names.before",
    "memory.names.after",
)
ARCHIVE = ("memory.archive.before", "memory.archive.after")
PURGE = ("memory.purge.before", "memory.purge.between", "memory.purge.after")
QUARANTINE = ("memory.quarantine.before", "memory.quarantine.after")
MARKED = ("memory.swap.before", "memory.names.before", "memory.names.after")
"""Where the names in the folder may not be durable yet, and the next one has to know that."""
CLEAR = ("memory.clear.before", "memory.clear.after")
JOBS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "compact": (jobs.compact, ()),
    "forget": (jobs.forget, ("secret",)),
    "import": (jobs.import_tombstone, ("secret",)),
    "repair": (jobs.repair, ()),
    "accept": (jobs.accept, ("edited",)),
    "clear": (jobs.clear, ()),
}
TOMBSTONE = {"id": "t", "type": "_tombstone", "target": "gone", "timestamp": jobs.stamp(0)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A memory with something to do for everybody: old, pending, damaged, to be forgotten, not flushed."""
    (tmp_path / "state" / "archive").mkdir(parents=True)
    state = tmp_path / "state"
    names = ("gone", "secret", "archived")
    past = [line_of(record_of(name, age_days=400), NOW_MS) for name in names]
    (state / "archive" / "2024.jsonl").write_bytes(b"".join(past))
    edited = line_of(record_of("edited"), NOW_MS).replace(b'"title":"edited"', b'"title":"by hand"')
    lines = [line_of(each, NOW_MS) for each in (record_of("gone"), TOMBSTONE, record_of("secret"))]
    (state / "memory.jsonl").write_bytes(old_and_new(12) + edited + b"junk\0\n" + b"".join(lines))
    return state


def everything(folder: Path) -> tuple[list[str], list[str]]:
    """The lines of the log, and those of the archive, without tombstones; as whoever asks for them gets them."""
    with opened(folder) as memory:
        log = [record["id"] for record in memory.iter() if record["type"] != "_tombstone"]
        return log, [record["id"] for path in archive_files(memory.files) for record in read_records(path)]


def survivors(folder: Path) -> set[str]:
    log, archived = everything(folder)
    assert len(archived) == len(set(archived)), "the archive has a record twice"
    assert len(log) == len(set(log))
    return {*log, *archived} - {"gone", "secret", "edited"}


def undisturbed(folder: Path, job: str) -> tuple[bytes, tuple[list[str], list[str]]]:
    """What the log is, and what is there, when nobody is killed."""
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    _finish(copy, job)
    return (copy / "memory.jsonl").read_bytes(), everything(copy)


def records_of(log: bytes) -> list[bytes]:
    """The lines of a log without tombstones, each of which has an id and a time of its own."""
    return [line for line in log.split(b"\n") if b'"_tombstone"' not in line]


def _finish(folder: Path, job: str) -> None:
    with opened(folder) as memory, suppress(NotFound):
        match job:
            case "compact":
                memory.compact(now_ms=NOW_MS)
            case "forget":
                memory.forget("secret")
            case "import":
                memory.import_lines([jobs.tombstone_of("secret")])
            case "repair":
                memory.repair()
            case "accept":
                memory.repair(accept="edited")
            case _:
                memory.verify(clear=True)


@pytest.mark.parametrize(
    ("job", "point"),
    [
        *(("compact", point) for point in (*PURGE, *ARCHIVE, *REWRITE)),
        *(("forget", point) for point in (*APPEND, *PURGE, *REWRITE)),
        *(("import", point) for point in (*APPEND, *PURGE, *REWRITE)),
        *(("repair", point) for point in (*QUARANTINE, *REWRITE)),
        *(("accept", point) for point in REWRITE),
        *(("clear", point) for point in (*REWRITE, *CLEAR)),
    ],
)
def test_a_rewrite_that_is_killed_leaves_the_old_or_the_new_and_is_finished_by_the_next_one(
    folder: Path, job: str, point: str
) -> None:
    if job == "clear":
        (folder / "memory.failed").write_text("a flush has failed")
    old = (folder / "memory.jsonl").read_bytes()
    before = survivors(folder)
    new, expected = undisturbed(folder, job)
    children.run_until(point, JOBS[job][0], folder, *JOBS[job][1])
    assert (folder / "memory.jsonl.lock").stat().st_size == (point in MARKED)
    text = (folder / "memory.jsonl").read_bytes()
    assert records_of(text) == records_of(new) or (text.startswith(old) and len(text) - len(old) < 300)
    assert survivors(folder) == before
    _finish(folder, job)
    assert everything(folder) == expected
    assert not (folder / "memory.jsonl.new").exists()
    assert list(folder.rglob("*.new")) == []
    with opened(folder) as memory:
        assert memory.add({"type": "lesson", "title": "next"})["added"]
        assert memory.files.lock.stat().st_size == 0


@pytest.mark.parametrize("point", ["memory.once.before", *APPEND, "memory.once.after"])
async def test_a_call_under_a_key_that_is_killed_is_repeated_without_a_second_record(
    tmp_path: Path, migrated_sqlite: str, point: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "perdure.db")
    record = {"type": "lesson", "title": "The cart caches prices"}
    children.run_until(point, jobs.add_once, home, record, "a-key")
    async with Perdure.open(home) as p:
        left = [each["id"] async for each in p.memory.iter()]
        answers = [await p.memory.add_once(record, jobs.once_of(record, "a-key")) for _ in range(2)]
        (there,) = [each["id"] async for each in p.memory.iter()]
    assert answers == [{"added": True, "id": there}] * 2
    assert left in ([], [there]), "the id was chosen before the kill"


@pytest.mark.parametrize("point", APPEND)
def test_an_append_that_is_killed_leaves_a_sound_log(folder: Path, point: str) -> None:
    before = everything(folder)[0]
    children.run_until(point, jobs.add, folder, "new")
    with opened(folder) as memory:
        assert memory.verify()["bad_lines"] == 2
        assert memory.add(record_of("next"), dedupe=False)["added"]
    assert everything(folder)[0] in ([*before, "next"], [*before, "new", "next"])


@pytest.mark.parametrize("point", ["memory.names.before", "memory.names.after"])
def test_the_first_append_of_all_that_is_killed_leaves_a_log_for_the_next_one(tmp_path: Path, point: str) -> None:
    children.run_until(point, jobs.add, tmp_path, "new")
    with opened(tmp_path) as memory:
        memory.add(record_of("next"))
    assert everything(tmp_path)[0] == ["next"]


@pytest.mark.parametrize("point", ["memory.mark.before", "memory.mark.after"])
def test_a_failed_flush_is_known_to_all_once_it_is_written_down(folder: Path, point: str) -> None:
    children.run_until(point, jobs.add_with_a_failing_flush, folder, "new")
    with opened(folder) as memory:
        if point == "memory.mark.after":
            with pytest.raises(Damaged):
                memory.add(record_of("next"))
        assert memory.verify(clear=True)["cleared"] == (point == "memory.mark.after")
        assert memory.add(record_of("next"))["added"]


@pytest.mark.parametrize("point", ["memory.index.before", "memory.index.after"])
def test_an_index_whose_maker_is_killed_is_made_by_the_next_one(folder: Path, point: str) -> None:
    children.run_until(point, jobs.rebuild, folder)
    with opened(folder) as memory:
        assert memory.index_state()["state"] == ("missing" if point == "memory.index.before" else "current")
        assert memory.get("secret")["title"] == "secret"
        assert memory.index_state()["state"] == "current"
        assert not memory.files.new_index.exists()


def gather(pipes: list[Connection], stored: dict[str, Any], count: int) -> None:
    """Read what writers tell until so many records are stored."""
    while len(stored) < count:
        for pipe in wait(pipes):
            assert isinstance(pipe, Connection)
            translate_os_errors = pipe.recv()
            if translate_os_errors is not None:
                stored[translate_os_errors[0]] = translate_os_errors[1]


def kill_all(writers: list[tuple[Any, Connection]], stored: dict[str, Any]) -> None:
    for child, _ in writers:
        child.kill()
    for child, pipe in writers:
        assert children.end_of(child) == -signal.SIGKILL
        stored.update(
            {
                translate_os_errors[0]: translate_os_errors[1]
                for translate_os_errors in rest_of(pipe)
                if translate_os_errors is not None
            }
        )


def start(job: Callable[..., Any], *arguments: object) -> tuple[Any, Connection]:
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(job, *arguments, theirs)
    theirs.close()
    return child, ours


def check(memory: Memory, stored: dict[str, Any]) -> None:
    """Nothing that was acknowledged is lost or changed, no line has two writers, and nothing is archived twice."""
    found = memory.verify()
    assert (found["bad_lines"], found["archive"]["bad_lines"]) == (0, 0)
    archived = [record for path in archive_files(memory.files) for record in read_records(path)]
    names = [record["id"] for record in archived]
    assert len(names) == len(set(names))
    there = {record["id"]: record for record in [*archived, *memory.iter()]}
    assert {name: there.get(name) for name in stored} == {name: {**record, "v": 1} for name, record in stored.items()}


@pytest.mark.torture
@pytest.mark.parametrize("pad", [100, 64 * 1024, 1_000_000])
@pytest.mark.parametrize("is_rewritten", [False, True], ids=["alone", "while others rewrite"])
def test_of_eight_writers_that_are_killed_nothing_acknowledged_is_lost(
    tmp_path: Path, pad: int, is_rewritten: bool
) -> None:
    stored: dict[str, Any] = {}
    chance = random.Random(pad)
    rounds = torture_size(small=2)
    with opened(tmp_path) as memory:
        for number in range(rounds):
            writers = [start(jobs.write_on, tmp_path, f"w{number}-{name}", pad) for name in range(8)]
            if is_rewritten:
                writers += [start(jobs.rewrite_on, tmp_path) for _ in range(2)]
            more = chance.randrange(5, 10) if pad > 500_000 else chance.randrange(40, 90)
            gather([pipe for _, pipe in writers], stored, len(stored) + more)
            kill_all(writers, stored)
            check(memory, stored)
            memory.add(record_of(f"between-{number}"), dedupe=False)
        memory.compact(now_ms=NOW_MS)
        check(memory, stored)


@pytest.mark.torture
def test_rewrites_that_are_killed_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    stored: dict[str, Any] = {}
    writers = [start(jobs.write_on, tmp_path, f"w{name}", 200) for name in range(2)]
    chance = random.Random(7)
    with opened(tmp_path) as memory:
        for _ in range(torture_size(small=12)):
            child, pipe = start(jobs.rewrite_on, tmp_path)
            for _ in range(chance.randrange(1, 4)):
                pipe.recv()
            gather([each for _, each in writers], stored, len(stored) + chance.randrange(1, 15))
            kill_all([(child, pipe)], {})
        kill_all(writers, stored)
        check(memory, stored)
        memory.compact(now_ms=NOW_MS)
        check(memory, stored)
        assert list(tmp_path.rglob("*.new")) == []


def backed_up(state: Path, name: str) -> Path:
    """A copy of a memory as a backup has it, and a restore would bring it back."""
    place = state.with_name(f"backup-{name}")
    place.mkdir()
    (place / "dump").write_bytes(b"")
    target, folders = place / "archive.tar.gz", {"memory": state}
    write_archive(target, dump=place / "dump", database="sqlite", version=1, folders=folders, program="test")
    unpack_archive(target, {"database": place / "database", "memory": place / "copy"})
    return place / "copy"


@pytest.mark.parametrize("has_archive", [False, True])
@pytest.mark.parametrize("moment", range(4))
def test_a_backup_during_which_records_move_to_the_archive_has_all_of_them(
    tmp_path: Path, moment: int, has_archive: bool
) -> None:
    state = tmp_path / "state"
    older = record_of("older", age_days=401)
    records = [record_of("old", age_days=400), record_of("new")]
    with opened(state) as memory:
        if has_archive:
            memory.add(older)
            memory.compact(now_ms=NOW_MS)
        memory.add_many(records)
        left = iter([*[None] * moment, lambda: memory.compact(now_ms=NOW_MS)])

        def compact_in_its_turn() -> None:
            if (turn := next(left, None)) is not None:
                turn()

        with armed("store.backup.file", compact_in_its_turn):
            copy = backed_up(state, "while records move")
    with opened(copy) as memory:
        check(memory, {each["id"]: each for each in ([older] if has_archive else []) + records})


@pytest.mark.parametrize("name", ["memory.idx.new", "memory.idx.new-journal", "memory.jsonl.new"])
def test_a_backup_leaves_out_what_is_made_to_take_the_place_of_something(tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    with opened(state) as memory:
        memory.add(record_of("new"))
    (state / name).write_bytes(b"half of it")
    with armed("store.backup.file", lambda: (state / name).unlink(missing_ok=True)):
        assert [path.name for path in backed_up(state, "in between").iterdir()] == [LOG_FILE]


@pytest.mark.torture
def test_a_backup_that_is_made_while_records_move_has_all_of_them(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stored: dict[str, Any] = {}
    writers = [start(jobs.write_on, state, f"w{name}", 200) for name in range(2)]
    others = [start(jobs.rewrite_on, state) for _ in range(2)]
    for number in range(torture_size(small=6)):
        gather([pipe for _, pipe in (*writers, *others)], stored, len(stored) + 10)
        with opened(backed_up(state, str(number))) as memory:
            check(memory, stored)
    kill_all([*writers, *others], stored)
