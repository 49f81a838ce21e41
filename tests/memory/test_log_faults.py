"""Writing the log when something goes wrong: what is answered is true, and the next writer finds a sound file."""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Damaged, Invalid, Unavailable, append_record, read_records
from perdure.failpoints import armed
from perdure.memory.log.lock import LogLock
from perdure.memory.log.log import Log
from perdure.memory.log.reading import iter_lines
from perdure.memory.memory import Memory
from perdure.memory.paths import MemoryFiles
from tests import children
from tests.crash.goals import rest_of
from tests.memory import jobs
from tests.memory.jobs import failing

STORED = {"type": "lesson", "title": "stored"}
OTHER = {"type": "lesson", "title": "other"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    yield memory
    memory.close()


def titles(memory: Memory) -> list[Any]:
    return [record.get("title") for record in memory.iter()]


def kinds(memory: Memory) -> list[str]:
    return [line.kind for line in iter_lines(memory.files.log)]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("point", ["memory.write.before", "memory.write.some", "memory.write.after"])
def test_a_write_that_fails_stores_nothing(memory: Memory, point: str, number: int) -> None:
    memory.add(STORED)
    before = memory.files.log.read_bytes()
    with armed(point, failing(number)), pytest.raises((Unavailable, Damaged)):
        memory.add(OTHER)
    assert memory.files.log.read_bytes() == before
    assert memory.add(OTHER)["added"]
    assert kinds(memory) == ["checked", "checked"]


@pytest.mark.parametrize(
    "point", ["memory.write.before", "memory.write.some", "memory.write.after", "memory.flush.before"]
)
def test_an_interrupt_leaves_the_lock_free_and_the_file_sound(memory: Memory, point: str) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    memory.add(STORED)
    with armed(point, interrupt), pytest.raises(KeyboardInterrupt):
        memory.add(OTHER)
    log = Log(memory.files, wait_s=0)
    log.append([])
    log.close()
    memory.add({"type": "lesson", "title": "next"})
    assert kinds(memory) == ["checked"] * len(titles(memory))
    assert titles(memory) in (["stored", "next"], ["stored", "other", "next"])


def test_an_interrupt_in_the_moment_the_lock_is_taken_gives_it_back(tmp_path: Path) -> None:
    class Interrupted(LogLock):
        def is_in_place(self) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Interrupted(tmp_path / "lock"):
        pass
    with LogLock(tmp_path / "lock", wait_s=0):
        pass


def test_writing_continues_when_the_disk_has_room_again(tmp_path: Path) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(jobs.fill_up, tmp_path, 20_000, theirs)
    theirs.close()
    *stored, code = rest_of(ours)
    assert children.end_of(child) == 0
    assert code == "unavailable"
    assert len(stored) > 10
    log = tmp_path / "memory.jsonl"
    assert [record["id"] for record in read_records(log)] == [*stored, "room again"]
    assert {line.kind for line in iter_lines(log)} == {"checked"}


def test_after_a_failed_flush_everybody_refuses_to_append_until_the_log_was_rewritten(memory: Memory) -> None:
    memory.add(STORED)
    ours, theirs = children.context().Pipe()
    other = children.start(jobs.append_when_told, memory.files.log.parent, theirs)
    theirs.close()
    assert ours.recv() is True
    with armed("memory.flush.before", failing(errno.EIO)), pytest.raises(Damaged, match="verify --clear"):
        memory.add(OTHER)
    for _ in range(2):
        with pytest.raises(Damaged, match=r"memory\.failed"):
            memory.add(OTHER)
        with pytest.raises(Damaged):
            append_record(memory.files.log, OTHER)
        with pytest.raises(Damaged):
            memory.compact()
    ours.send(None)
    assert ours.recv() == "damaged"
    ours.send(None)
    assert children.end_of(other) == 0
    assert memory.status()["failed"]
    assert memory.verify()["failed"]
    inode = memory.files.log.stat().st_ino
    cleared = memory.verify(clear=True)
    assert (cleared["failed"], cleared["cleared"], cleared["bad_lines"]) == (False, True, 0)
    assert memory.files.log.stat().st_ino != inode
    assert titles(memory)[::2] == ["stored", "other"]
    assert memory.add({"type": "lesson", "title": "next"})["added"]
    assert not memory.verify(clear=True)["cleared"]


def test_a_duplicate_is_not_answered_when_the_first_one_may_not_be_on_the_disk(memory: Memory) -> None:
    memory.add(STORED)
    with armed("memory.flush.before", failing(errno.EIO)), pytest.raises(Damaged):
        memory.add(STORED)


def test_when_not_even_the_failure_can_be_written_down_this_process_still_refuses(memory: Memory) -> None:
    memory.add(STORED)
    with (
        armed("memory.flush.before", failing(errno.EIO)),
        armed("memory.mark.before", failing(errno.EROFS)),
        pytest.raises(Damaged, match="Other processes do not know"),
    ):
        memory.add(OTHER)
    assert not memory.files.failed.exists()
    with pytest.raises(Damaged):
        append_record(memory.files.log, OTHER)
    assert memory.verify(clear=True)["cleared"]
    append_record(memory.files.log, {"title": "next"})
    assert titles(memory) == ["stored", "other", "next"]


def test_a_folder_that_cannot_be_flushed_after_a_swap_stops_appends(memory: Memory) -> None:
    memory.add({**STORED, "id": "a"})
    with armed("memory.names.before", failing(errno.EIO)), pytest.raises(Damaged):
        memory.forget("a")
    assert titles(memory) == []
    with pytest.raises(Damaged):
        memory.add(OTHER)
    assert memory.verify(clear=True)["cleared"]
    assert memory.add(OTHER)["added"]


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_disk_that_fails_under_the_flush_is_reported(tmp_path: Path) -> None:
    program = f"""
from perdure import Damaged, append_record
for title in range(3):
    try:
        append_record({str(tmp_path / "memory.jsonl")!r}, {{"title": title}})
        print("stored", title)
    except Damaged:
        print("damaged", title)
"""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]
    inject = ["-e", "inject=fdatasync:error=EIO:when=2"]
    done = subprocess.run(
        [*strace, *inject, sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("no process may be traced here")
    assert done.stdout.split("\n") == ["stored 0", "damaged 1", "damaged 2", ""], done.stderr
    assert (tmp_path / "memory.failed").read_text().startswith("Input/output error at ")


def test_a_lock_file_that_was_removed_is_created_again(memory: Memory) -> None:
    memory.add(STORED)
    memory.files.lock.unlink()
    memory.add(OTHER)
    assert memory.files.lock.exists()
    with LogLock(memory.files.lock, wait_s=0), pytest.raises(Unavailable, match=f"process {os.getpid()} "):
        Log(memory.files, wait_s=0).append([])


def test_a_rewrite_whose_lock_was_removed_leaves_the_log_unchanged(memory: Memory) -> None:
    memory.add({**STORED, "id": "a"})
    removed = armed("memory.draft.after", lambda: memory.files.lock.unlink(missing_ok=True))
    with removed, pytest.raises(Conflict, match="lock was removed"):
        memory.forget("a")
    assert kinds(memory) == ["checked", "checked"]
    assert titles(memory) == []
    assert memory.compact()["forgotten"] == 1
    assert titles(memory) == []


def test_who_holds_the_lock_for_too_long_is_named_and_a_dead_one_holds_nothing(tmp_path: Path) -> None:
    ours, theirs = children.context().Pipe()
    holder = children.start(jobs.hold_the_lock, tmp_path, theirs)
    pid = ours.recv()
    log = Log(MemoryFiles(tmp_path / "memory.jsonl"), wait_s=0)
    with pytest.raises(Unavailable, match=f"locked by process {pid} "):
        log.append([])
    holder.kill()
    assert children.end_of(holder) == -signal.SIGKILL
    log.append([])
    log.close()


def test_a_child_that_was_forked_under_the_lock_neither_holds_nor_frees_it(memory: Memory) -> None:
    memory.add(STORED)
    with LogLock(memory.files.lock) as lock:
        pid = os.fork()
        if pid == 0:
            lock.__exit__(None, None, None)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        with pytest.raises(Unavailable):
            Log(memory.files, wait_s=0).append([])
    Log(memory.files, wait_s=0).append([])


@pytest.mark.parametrize("name", ["memory.jsonl", "memory.jsonl.lock", "memory.failed", "memory.jsonl.new"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling link"])
def test_what_is_no_plain_file_is_refused_by_name(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    target = tmp_path / "target"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(target)
            if kind == "link":
                target.write_bytes(b"")
    memory = Memory(tmp_path)
    with pytest.raises((Invalid, Damaged), match=name):
        memory.add({**STORED, "id": "a"})
        memory.forget("a")
    memory.close()
    assert not target.exists() or target.read_bytes() == b""


def test_a_link_to_a_log_is_read_but_not_written(tmp_path: Path) -> None:
    append_record(tmp_path / "real.jsonl", STORED)
    (tmp_path / "memory.jsonl").symlink_to("real.jsonl")
    assert read_records(tmp_path / "memory.jsonl")[0]["title"] == "stored"
    with pytest.raises(Invalid, match="symbolic link"):
        append_record(tmp_path / "memory.jsonl", OTHER)


def test_a_folder_that_is_a_link_is_as_good_as_any(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "state").symlink_to("real")
    memory = Memory(tmp_path / "state")
    memory.add({**STORED, "id": "a"})
    assert memory.forget("a") == {"forgotten": 1}
    assert memory.add(OTHER)["added"]
    memory.close()
    assert (tmp_path / "state").is_symlink()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_folder_that_cannot_be_written_is_reported_and_can_be_read(tmp_path: Path, what: str) -> None:
    append_record(tmp_path / "memory.jsonl", STORED)
    mode = {"folder": (0o555, 0o444), "file": (0o777, 0o444)}[what]
    if what == "folder":
        (tmp_path / "memory.jsonl.lock").unlink()
    else:
        (tmp_path / "memory.jsonl.lock").chmod(0o666)
    (tmp_path / "memory.jsonl").chmod(mode[1])
    tmp_path.chmod(mode[0])
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(jobs.append_as_somebody_else, tmp_path, theirs)
    theirs.close()
    try:
        [(code, message)] = rest_of(ours)
        assert children.end_of(child) == 0
    finally:
        tmp_path.chmod(0o700)
    assert code == "denied"
    assert "Check the permissions" in message
    assert len(read_records(tmp_path / "memory.jsonl")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_rewrite_by_root_does_not_take_the_log_from_its_owner(memory: Memory) -> None:
    memory.add({**STORED, "id": "a"})
    os.chown(memory.files.log, jobs.NOBODY, jobs.NOBODY)
    memory.files.log.chmod(0o640)
    memory.forget("a")
    found = memory.files.log.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (jobs.NOBODY, jobs.NOBODY, 0o640)


def test_a_creator_that_dies_leaves_the_flush_of_the_folder_to_the_next_one(tmp_path: Path) -> None:
    children.run_until("memory.names.before", jobs.add, tmp_path, "first")
    assert (tmp_path / "memory.jsonl.lock").stat().st_size == 1
    append_record(tmp_path / "memory.jsonl", STORED)
    assert (tmp_path / "memory.jsonl.lock").stat().st_size == 0


def test_a_record_that_lacked_only_its_line_end_is_known_as_a_duplicate(memory: Memory) -> None:
    first = memory.add(STORED)
    os.truncate(memory.files.log, memory.files.log.stat().st_size - 1)
    other = Memory(memory.files.log.parent)
    assert other.add(STORED)["existing_id"] == first["id"]
    assert memory.add(STORED)["existing_id"] == first["id"]
    other.close()


@pytest.mark.parametrize("path", ["", "/", "a\0b"])
def test_what_is_no_name_of_a_file_is_refused(path: str) -> None:
    with pytest.raises(Invalid, match="cannot be the file of a memory"):
        append_record(path, STORED)


def test_the_folder_of_a_memory_stays_the_same_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    memory = Memory(Path("state"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    memory.add(STORED)
    memory.close()
    assert (tmp_path / "state" / "memory.jsonl").exists()


def test_a_log_that_was_removed_is_created_again(memory: Memory) -> None:
    memory.add(STORED)
    shutil.rmtree(memory.files.log.parent)
    memory.add(OTHER)
    assert titles(memory) == ["other"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_log_whose_owner_cannot_be_kept_is_not_rewritten(tmp_path: Path) -> None:
    append_record(tmp_path / "memory.jsonl", {**STORED, "id": "a"})
    for path, mode in ((tmp_path, 0o777), (tmp_path / "memory.jsonl", 0o666), (tmp_path / "memory.jsonl.lock", 0o666)):
        path.chmod(mode)
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(jobs.forget_as_somebody_else, tmp_path, "a", theirs)
    theirs.close()
    [(code, message)] = rest_of(ours)
    assert children.end_of(child) == 0
    assert code == "denied"
    assert "belongs to another user" in message
    assert read_records(tmp_path / "memory.jsonl")[0]["title"] == "stored"
    assert not (tmp_path / "memory.jsonl.new").exists()
