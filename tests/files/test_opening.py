"""Files are opened without following a link, waiting for a pipe, or passing a descriptor on."""

import os
import socket
from pathlib import Path

import pytest

from perdure.errors import Invalid
from perdure.files.opening import (
    create_empty,
    create_exclusive,
    is_regular,
    open_file,
    open_input,
    read_input_file,
    write_all,
)


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(tmp_path / "link")
    os.close(open_file(tmp_path / "link", follows_links=True))


def test_a_pipe_without_a_writer_is_opened_at_once_and_is_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    fd = open_file(tmp_path / "pipe")
    assert not is_regular(fd)
    os.close(fd)


def test_an_input_is_a_regular_file_also_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    assert (read_input_file(tmp_path / "link"), read_input_file(tmp_path / "link", 2)) == (b"abc", b"ab")
    assert read_input_file("/dev/null") == b""


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_pipe_a_socket_or_a_device_is_not_an_input_and_is_not_waited_for(tmp_path: Path, *, has_writer: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR) if has_writer else None
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, what in ((tmp_path / "pipe", "a pipe"), (tmp_path / "socket", "a socket"), ("/dev/zero", "a device")):
            with pytest.raises(Invalid, match=rf"{path} is {what}.*not a regular file"):
                open_input(path)
    with pytest.raises(IsADirectoryError):
        open_input(tmp_path)
    if writer is not None:
        os.close(writer)


def test_a_pipe_that_a_shell_hands_over_is_an_input() -> None:
    ours, its = os.pipe()
    with os.fdopen(its, "wb") as pipe:
        pipe.write(b"abc")
    assert read_input_file(f"/dev/fd/{ours}") == b"abc"
    os.close(ours)


def test_a_descriptor_is_not_inherited(tmp_path: Path) -> None:
    for fd in (create_exclusive(tmp_path / "file"), open_file(tmp_path / "file")):
        assert not os.get_inheritable(fd)
        os.close(fd)


@pytest.mark.parametrize("leads_to", ["file", "nowhere"])
def test_nothing_is_created_through_a_link(tmp_path: Path, leads_to: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(leads_to)
    with pytest.raises(FileExistsError):
        create_empty(tmp_path / "link")
    assert not (tmp_path / "nowhere").exists()


def test_data_that_needs_several_writes_is_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))
    fd = create_exclusive(tmp_path / "file")
    write_all(fd, b"0123456789")
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == b"0123456789"
