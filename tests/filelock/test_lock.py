"""Lock files: who holds one, for how long it is waited for, and what a fork or a replaced file changes."""

import errno
import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure import Denied, Unavailable
from perdure.filelock.holds import holds
from perdure.filelock.lock import FileLock, shared_now
from perdure.filelock.names import NameLock
from perdure.files.atomic import publish
from tests.filelock.processes import in_a_fork, stopped


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.lock"


def is_free(path: Path) -> bool:
    lock = FileLock(path)
    is_taken = lock.try_acquire()
    lock.close()
    return is_taken


def test_what_is_held_is_refused_by_naming_the_holder(path: Path) -> None:
    with FileLock(path), pytest.raises(Unavailable, match=f"Process {os.getpid()} holds .*a.lock and does not release"):
        FileLock(path, wait_s=0).acquire()


def test_another_thread_of_the_same_object_is_reported(path: Path) -> None:
    lock = FileLock(path, wait_s=0)
    with lock, pytest.raises(Unavailable, match="Another thread"):
        lock.acquire()


def test_a_stopped_holder_is_named_with_the_way_to_resume_it(path: Path) -> None:
    with stopped(FileLock(path).acquire) as pid, pytest.raises(Unavailable) as refused:
        FileLock(path, wait_s=0).acquire()
    assert str(refused.value) == (
        f"Process {pid} holds {path} and is stopped. Resume it with `kill -CONT {pid}` (or `fg` in its terminal)."
    )


def test_a_lock_whose_file_was_replaced_counts_for_nothing(path: Path) -> None:
    lock = FileLock(path)
    with lock:
        path.unlink()
        assert not lock.is_in_place()
        with FileLock(path, wait_s=0) as other:
            assert other.is_in_place()
    with lock:
        assert lock.is_in_place()


def test_a_folder_that_is_not_there_is_denied(tmp_path: Path) -> None:
    with pytest.raises(Denied, match="cannot be written"):
        FileLock(tmp_path / "none" / "a.lock").acquire()


def test_an_interrupt_while_the_lock_is_taken_releases_it(path: Path) -> None:
    class Interrupted(FileLock):
        def is_in_place(self) -> bool:
            raise KeyboardInterrupt

    for take in (FileLock.acquire, FileLock.try_acquire):
        lock = Interrupted(path)
        with pytest.raises(KeyboardInterrupt):
            take(lock)
        assert is_free(path)
        assert holds.is_quiet()


def test_a_forked_child_neither_holds_nor_releases_the_lock_of_its_parent(path: Path) -> None:
    lock = FileLock(path)
    with lock:

        def use() -> None:
            assert lock.fd == -1
            lock.release()
            assert not lock.try_acquire()

        assert in_a_fork(use) == 0
        assert not is_free(path)
    assert in_a_fork(lambda: lock.acquire(0)) == 0


def test_a_lock_that_another_thread_held_at_the_fork_can_be_waited_for_in_the_child(path: Path) -> None:
    lock, is_held, may_end = FileLock(path), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            may_end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(60)

    def refused() -> None:
        with pytest.raises(Unavailable, match="Process"):
            lock.acquire(0)

    assert in_a_fork(refused) == 0
    may_end.set()
    thread.join()
    assert in_a_fork(lambda: lock.acquire(0)) == 0


def test_a_child_that_was_forked_in_a_pause_may_take_locks(path: Path) -> None:
    token = holds.pause()
    try:
        assert in_a_fork(lambda: FileLock(path).acquire(0)) == 0
    finally:
        holds.resume(token)


def test_a_shared_lock_is_not_inherited(path: Path) -> None:
    path.touch()
    with ExitStack() as stack:
        with shared_now(path) as was_free:
            assert was_free
            stack.enter_context(stopped(lambda: None))
        assert is_free(path)


def test_locks_that_are_not_used_are_freed(path: Path) -> None:
    lock = FileLock(path)
    with lock:
        pass
    lock.close()
    gone = weakref.ref(lock)
    del lock
    gc.collect()
    assert gone() is None


def test_nothing_is_taken_in_a_pause(path: Path) -> None:
    lock = FileLock(path)
    token = holds.pause()
    assert holds.is_quiet()
    assert not lock.try_acquire()
    holds.resume(token)
    assert lock.try_acquire()
    assert not holds.is_quiet()
    lock.release()


def test_what_is_needed_to_release_an_outer_lock_may_still_be_taken(tmp_path: Path) -> None:
    outer, inner = FileLock(tmp_path / "outer", kind="outer"), FileLock(tmp_path / "inner")
    with outer:
        token = holds.pause()
        try:
            assert inner.try_acquire()
            inner.release()
            assert not holds.is_quiet()
            holds.pause_fully(token)
            assert holds.is_quiet()
            assert not inner.try_acquire()
        finally:
            holds.resume(token)


def test_the_lock_of_a_worker_does_not_count(path: Path) -> None:
    lock = FileLock(path, kind="lasting")
    assert lock.try_acquire()
    assert holds.is_quiet()
    lock.release()


def test_the_time_of_a_pause_does_not_count_as_waiting(path: Path) -> None:
    token = holds.pause()
    opening = threading.Timer(0.05, holds.resume, [token])
    opening.start()
    with FileLock(path, wait_s=0):
        assert not holds.pauses
    opening.join()


def test_the_lock_of_a_name_leaves_no_file(tmp_path: Path) -> None:
    with NameLock(tmp_path / "folder"):
        with pytest.raises(Unavailable):
            NameLock(tmp_path / "folder", wait_s=0).acquire()
        assert in_a_fork(lambda: None) == 0
    assert list(tmp_path.iterdir()) == []


def no_links(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("link", [os.link, no_links])
def test_a_name_is_given_once_with_and_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[..., None]
) -> None:
    monkeypatch.setattr(os, "link", link)
    for content in ("first", "second"):
        (tmp_path / content).write_text(content)
    publish(tmp_path / "first", tmp_path / "name")
    with pytest.raises(FileExistsError):
        publish(tmp_path / "second", tmp_path / "name")
    assert (tmp_path / "name").read_text() == "first"
    assert not list(tmp_path.glob(".*"))
