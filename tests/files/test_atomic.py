"""A file is replaced as a whole: the old content or the new one, and never a part of it."""

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import failpoints
from perdure.files.atomic import part_file, publish, rename_durably, unused, write_atomic
from perdure.files.folders import make_folder, open_folder
from tests import children

STEPS = ("files.write.before", "files.fsync.before", "files.name.before", "files.folder.before", "files.folder.after")
PLACED = ("files.folder.before", "files.folder.after")
OLD, NEW = b"old", b"new and longer"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with the old content, alone in its folder."""
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "file"
    file.write_bytes(OLD)
    return file


def names_beside(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir())


def failing(number: int) -> Callable[[], None]:
    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


@given(st.binary(max_size=4096))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("written") / "file"
    write_atomic(path, data)
    assert path.read_bytes() == data
    assert names_beside(path) == ["file"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_an_error_at_any_step_leaves_one_whole_file_and_no_part(path: Path, step: str, number: int) -> None:
    with failpoints.armed(step, failing(number)), pytest.raises(OSError, match=os.strerror(number)):
        write_atomic(path, NEW)
    assert path.read_bytes() == (NEW if step in PLACED else OLD)
    assert names_beside(path) == ["file"]


async def write_beyond_the_limit(path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
    with pytest.raises(OSError, match="File too large"):
        write_atomic(path, b"x" * 100_000)


def test_a_file_system_without_room_leaves_the_old_file_and_no_part(path: Path) -> None:
    children.run(write_beyond_the_limit, path)
    assert path.read_bytes() == OLD
    assert names_beside(path) == ["file"]


def test_a_block_that_places_nothing_leaves_nothing(path: Path) -> None:
    with part_file(path) as part:
        part.write(NEW)
    assert path.read_bytes() == OLD
    assert names_beside(path) == ["file"]


def test_a_name_that_is_taken_is_not_published_over(path: Path) -> None:
    with pytest.raises(FileExistsError), part_file(path) as part:
        part.write(NEW)
        part.publish()
    assert path.read_bytes() == OLD
    assert names_beside(path) == ["file"]


def test_a_free_name_is_published(path: Path) -> None:
    with part_file(path.with_name("other")) as part:
        part.write(NEW)
        part.publish()
    assert names_beside(path) == ["file", "other"]


def test_without_hard_links_a_name_in_an_open_folder_is_given_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_given: object, **_options: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    (path.parent / "part").write_bytes(NEW)
    folder = open_folder(path.parent)
    with pytest.raises(FileExistsError):
        publish("part", "file", folder=folder)
    publish("part", "other", folder=folder)
    os.close(folder)
    assert path.read_bytes() == OLD
    assert names_beside(path) == ["file", "other"]


def test_a_new_file_is_private(path: Path) -> None:
    write_atomic(path.with_name("other"), NEW)
    assert stat.S_IMODE(path.with_name("other").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_permissions_are_kept_where_that_is_asked_for(path: Path, mode: int) -> None:
    path.chmod(mode)
    write_atomic(path, NEW, mode=0o600, keeps_mode=True)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(OLD)
    path.unlink()
    path.symlink_to(outside)
    write_atomic(path, NEW)
    assert outside.read_bytes() == OLD
    assert not path.is_symlink()
    assert path.read_bytes() == NEW


def test_a_link_in_the_place_of_the_part_is_replaced_and_not_followed(path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(OLD)
    (path.parent / ".part").symlink_to(outside)
    with part_file(path, name=".part") as part:
        part.write(NEW)
        part.replace()
    assert outside.read_bytes() == OLD
    assert path.read_bytes() == NEW


def test_a_folder_that_is_swapped_for_a_link_is_not_left(path: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    folder = open_folder(path.parent)
    moved = tmp_path / "moved"
    with part_file("file", name=".part", folder=folder) as part:
        path.parent.rename(moved)
        path.parent.symlink_to(tmp_path / "outside")
        part.write(NEW)
        part.replace()
    os.close(folder)
    assert list((tmp_path / "outside").iterdir()) == []
    assert (moved / "file").read_bytes() == NEW


def test_a_link_is_not_a_folder_to_open(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path.parent)
    with pytest.raises(OSError, match="Not a directory|Too many levels"):
        open_folder(tmp_path / "link")


def test_a_name_that_is_too_long_is_an_error_and_leaves_nothing(path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        write_atomic(path.with_name("x" * 256), NEW)
    assert names_beside(path) == ["file"]


def test_the_longest_name_of_a_file_is_short_enough(path: Path) -> None:
    longest = path.with_name("x" * 255)
    write_atomic(longest, NEW)
    assert longest.read_bytes() == NEW


def test_a_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_atomic(tmp_path / "none" / "file", NEW)


def test_a_folder_that_cannot_be_written_leaves_the_old_file(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        children.run(write_as_another_user, path)
    finally:
        path.parent.chmod(0o700)
    assert path.read_bytes() == OLD
    assert names_beside(path) == ["file"]


async def write_as_another_user(path: Path) -> None:
    os.chdir(path.parent)  # the folders above are private
    if os.geteuid() == 0:
        os.chown(path.parent, 65534, 65534)
        os.setuid(65534)
    with pytest.raises(PermissionError):
        write_atomic(Path(path.name), NEW)


def test_an_abandoned_part_is_removed_by_the_next_write_and_a_young_one_is_left(path: Path) -> None:
    abandoned, young = path.with_name(".file.part-00000000"), path.with_name(".file.part-11111111")
    for part in (abandoned, young):
        part.touch()
    os.utime(abandoned, (0, 0))
    write_atomic(path, NEW)
    assert names_beside(path) == [young.name, "file"]


def test_a_part_that_is_written_by_its_path_is_placed_whole(path: Path) -> None:
    with part_file(path) as part:
        part.close()
        part.path.write_bytes(NEW)
        part.replace()
    assert path.read_bytes() == NEW


def test_a_rename_takes_the_place_of_the_other_name(path: Path) -> None:
    rename_durably(path, path.with_name("other"))
    assert names_beside(path) == ["other"]


def test_a_folder_is_made_once(path: Path) -> None:
    folder = open_folder(path.parent)
    for _ in range(2):
        make_folder("inner", folder)
    os.close(folder)
    assert (path.parent / "inner").is_dir()


def test_an_unused_name_is_the_first_that_is_free(path: Path) -> None:
    path.with_name("file-2").symlink_to("nowhere")
    assert unused(path) == path.with_name("file-3")
