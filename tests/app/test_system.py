"""Who a worker is: a lock file that it holds for as long as it lives, and names that nobody else has."""

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Denied
from perdure.app.home.system import SystemIds, WorkerIdentity, is_dead, observer
from tests import children
from tests.crash.goals import rest_of
from tests.crash.size import torture_size

MANY = 8


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


async def live_and_die(home: str, name: str) -> None:
    """Be a worker, write down who, and go without closing anything."""
    Path(name).write_text(WorkerIdentity(Path(home)).worker.id)
    os._exit(0)


def locks(home: Path) -> list[str]:
    return sorted(path.stem for path in (home / "run").glob("*.lock"))


def test_a_worker_is_alive_until_it_is_closed(home: Path) -> None:
    identity = WorkerIdentity(home)
    assert not is_dead(home, identity.worker.id)
    identity.close()
    assert is_dead(home, identity.worker.id)
    assert locks(home) == []


def test_a_worker_whose_process_has_gone_is_dead_and_swept_away_by_the_next(home: Path, tmp_path: Path) -> None:
    children.run(live_and_die, str(home), str(tmp_path / "name"))
    gone = (tmp_path / "name").read_text()
    assert locks(home) == [gone]
    assert is_dead(home, gone)
    identity = WorkerIdentity(home)
    assert locks(home) == [identity.worker.id]
    assert is_dead(home, gone)
    identity.close()


@contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    yield
    os.close(fd)


def test_another_process_who_looks_at_the_same_moment_does_not_make_the_dead_alive(home: Path, tmp_path: Path) -> None:
    children.run(live_and_die, str(home), str(tmp_path / "name"))
    gone = (tmp_path / "name").read_text()
    with shared_lock(home / "run" / f"{gone}.lock"):
        assert is_dead(home, gone)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "1-zz", "a/b", "1-0123456789abcdef/../x"])
def test_a_name_that_no_worker_of_ours_has_proves_nothing(home: Path, name: str) -> None:
    assert not is_dead(home, name)


def test_a_home_keeps_its_random_name(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert observer(home).home_id == observer(home).home_id != observer(other).home_id
    assert re.fullmatch("[0-9a-f]{32}", observer(home).home_id)
    assert [path.name for path in home.iterdir()] == ["home_id"]


def test_a_copy_of_a_home_is_another_home_and_a_moved_one_is_not(home: Path, tmp_path: Path) -> None:
    name = observer(home).home_id
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    assert observer(copy).home_id != name
    assert observer(copy).home_id == observer(copy).home_id
    assert observer(home.rename(tmp_path / "moved")).home_id == name


async def name_a_home(home: Path, barrier: Barrier, pipe: Connection) -> None:
    barrier.wait()
    pipe.send(observer(home).home_id)


@pytest.mark.torture
@pytest.mark.parametrize("found", [None, "", "0123456789abcdef0123456789abcdef 1:2"], ids=["none", "torn", "a copy's"])
def test_of_many_processes_one_names_a_home(tmp_path: Path, found: str | None) -> None:
    for number in range(torture_size(small=1)):
        home = tmp_path / str(number)
        home.mkdir()
        if found is not None:
            (home / "home_id").write_text(found)
        name_at_once(home)


def name_at_once(home: Path) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(MANY)
    rivals = [children.start(name_a_home, home, barrier, theirs) for _ in range(MANY)]
    theirs.close()
    assert [children.end_of(rival) for rival in rivals] == [0] * MANY
    names = list(rest_of(ours))
    assert names == [observer(home).home_id] * MANY
    assert [path.name for path in home.iterdir()] == ["home_id"]


def test_a_torn_home_id_is_created_again(home: Path) -> None:
    (home / "home_id").write_text("")
    assert re.fullmatch("[0-9a-f]{32}", observer(home).home_id)


def test_a_home_that_cannot_be_written_is_said(home: Path) -> None:
    (home / "home_id").mkdir()
    with pytest.raises(Denied, match="home_id"):
        observer(home)


@given(st.text())
def test_a_goal_id_is_a_moment_a_slug_and_chance(text: str) -> None:
    assert re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?-[a-z2-7]{6}", SystemIds().goal_id(text))


def test_a_text_without_latin_letters_is_called_goal() -> None:
    assert "-goal-" in SystemIds().goal_id("日本語")
