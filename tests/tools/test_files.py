"""Files are read and written in the goal's folder only, whole or not at all, and tell what happened to them."""

import asyncio
import errno
import hashlib
import os
import resource
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Conflict, Invalid
from perdure.files.atomic import part_file
from perdure.kernel.events import ToolOutput
from perdure.kernel.tool import CallContext, Tool
from perdure.tools import files
from perdure.tools.confine import descend
from perdure.tools.files import ReadFileTool, WriteFileTool
from tests import children
from tests.tools.calls import call, code_of, exec_tool

OUTSIDE: list[object] = ["..", "../secret", "/etc/hosts", "link/secret", "leaf", "inner/../../secret"]
NO_PATH: list[object] = ["", ".", None, 7, "a\0b", "\ud800", "x" * 300, "x/" * 5000, "folder", "pipe"]


@pytest.fixture
def traps(workdir: Path) -> Path:
    """A goal's folder with ways out of it, and a secret beside it."""
    secret = workdir.parent / "secret"
    secret.write_text("secret")
    (workdir / "inner").mkdir()
    (workdir / "folder").mkdir()
    (workdir / "link").symlink_to(workdir.parent)
    (workdir / "leaf").symlink_to(secret)
    (workdir / "loop").symlink_to("loop")
    os.mkfifo(workdir / "pipe")
    return workdir


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def read(workdir: Path, **arguments: Any) -> ToolOutput:
    return await ReadFileTool().run(call(workdir, arguments, tool="read_file"))


def to_write(workdir: Path, **arguments: Any) -> CallContext:
    return call(workdir, {"content": "new", **arguments}, tool="write_file")


async def write(workdir: Path, **arguments: Any) -> ToolOutput:
    return await WriteFileTool().run(to_write(workdir, **arguments))


def test_each_is_a_tool(run_dir: Path) -> None:
    tools: list[Tool] = [ReadFileTool(), WriteFileTool(), exec_tool(run_dir)]
    assert [tool.spec.name for tool in tools] == ["read_file", "write_file", "exec"]


async def test_a_file_is_read_with_its_hash(workdir: Path) -> None:
    (workdir / "a").write_text("hé")
    outcome = await read(workdir, path="a")
    assert outcome.ok
    assert outcome.output == {"content": "hé", "size": 3, "sha256": sha256("hé"), "truncated": False}


async def test_the_beginning_of_a_file_comes_with_the_hash_of_the_whole(workdir: Path) -> None:
    (workdir / "a").write_text("x" * 1_000_000)
    outcome = await read(workdir, path="a", max_bytes=3)
    assert outcome.output == {"content": "xxx", "size": 10**6, "sha256": sha256("x" * 10**6), "truncated": True}


async def test_bytes_that_are_not_utf_8_are_replaced(workdir: Path) -> None:
    (workdir / "a").write_bytes(b"\xff")
    assert (await read(workdir, path="a")).output["content"] == "\ufffd"


async def test_a_link_inside_the_folder_is_followed(workdir: Path) -> None:
    (workdir / "a").write_text("x")
    (workdir / "b").symlink_to("a")
    assert (await read(workdir, path="b")).output["content"] == "x"
    assert (await write(workdir, path="b")).ok
    assert (workdir / "a").read_text() == "new"
    assert (workdir / "b").is_symlink()


async def test_a_file_that_is_not_there_is_not_found(workdir: Path) -> None:
    assert code_of(await read(workdir, path="a")) == "not_found"
    assert code_of(await read(workdir, path="a/b/c")) == "not_found"


@pytest.mark.parametrize("path", OUTSIDE + NO_PATH, ids=lambda path: repr(path)[:30])
async def test_what_is_outside_or_no_file_is_not_read(traps: Path, path: object) -> None:
    assert code_of(await read(traps, path=path)) == "invalid"


@pytest.mark.parametrize("path", OUTSIDE + NO_PATH, ids=lambda path: repr(path)[:30])
async def test_what_is_outside_or_no_file_is_not_written(traps: Path, path: object) -> None:
    assert code_of(await write(traps, path=path)) == "invalid"
    assert (traps.parent / "secret").read_text() == "secret"
    assert names(traps) == ["folder", "inner", "leaf", "link", "loop", "pipe"]


@pytest.mark.parametrize("path", ["", None, 7, "a\0b", "\ud800", "x/" * 5000], ids=lambda path: repr(path)[:30])
def test_what_can_be_no_path_is_refused_before_anything_is_recorded(path: object) -> None:
    with pytest.raises(Invalid):
        ReadFileTool().validate({"path": path})
    with pytest.raises(Invalid):
        WriteFileTool().validate({"path": path, "content": "x"})


@pytest.mark.parametrize("arguments", [None, [], "a", {}, {"path": "a", "unknown": 1}], ids=repr)
def test_wrong_arguments_are_refused_before_anything_is_recorded(arguments: Any) -> None:
    with pytest.raises(Invalid):
        ReadFileTool().validate(arguments)
    with pytest.raises(Invalid):
        WriteFileTool().validate(arguments)


def test_arguments_that_make_sense_are_valid_wherever_they_lead() -> None:
    ReadFileTool().validate({"path": "../no-such-file", "max_bytes": 3})
    WriteFileTool().validate({"path": "../no-such-file", "content": "", "expected_sha256": None})


async def test_a_link_to_itself_leads_nowhere(traps: Path) -> None:
    assert code_of(await read(traps, path="loop")) in ("invalid", "denied")
    assert code_of(await write(traps, path="loop/a")) in ("invalid", "denied")


@pytest.mark.parametrize("make", [True, False])
def test_a_link_that_is_swapped_in_after_the_look_is_not_followed(traps: Path, make: bool) -> None:
    for parts in (["link"], ["inner", "back"]):
        (traps / "inner/back").unlink(missing_ok=True)
        (traps / "inner/back").symlink_to("../..")
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            descend(traps, parts, make=make)


async def test_no_swapping_of_links_leads_outside(traps: Path) -> None:
    """A folder becomes a link to the outside, and back, as fast as it can, while files in it are read and written."""
    (traps / "inner/secret").write_text("inside")
    (traps / "out").symlink_to(traps.parent)
    over = threading.Event()
    swapper = threading.Thread(target=swap, args=(traps / "inner", traps / "out", over))
    swapper.start()
    try:
        for _ in range(200):
            seen = await read(traps, path="inner/secret")
            assert not seen.ok or seen.output["content"] != "secret"
            await write(traps, path="inner/secret", content="inside", expected_sha256=sha256("inside"))
    finally:
        over.set()
        swapper.join()
    assert (traps.parent / "secret").read_text() == "secret"


def swap(one: Path, other: Path, over: threading.Event) -> None:
    aside = one.with_name("aside")
    while not over.is_set():
        one.rename(aside)
        other.rename(one)
        one.rename(other)
        aside.rename(one)


async def test_the_beginning_of_a_file_ends_with_a_whole_character(workdir: Path) -> None:
    (workdir / "a").write_text("né")
    assert (await read(workdir, path="a", max_bytes=2)).output["content"] == "n"
    (workdir / "a").write_bytes(b"n\xc3")
    assert (await read(workdir, path="a", max_bytes=2)).output["content"] == "n\ufffd"


@pytest.mark.parametrize("limit", [-1, True, "1", 1.0, None, 10**9])
async def test_a_limit_that_is_none_is_invalid(workdir: Path, limit: object) -> None:
    (workdir / "a").touch()
    assert code_of(await read(workdir, path="a", max_bytes=limit)) == "invalid"
    with pytest.raises(Invalid):
        ReadFileTool().validate({"path": "a", "max_bytes": limit})


@pytest.mark.parametrize(
    "arguments",
    [
        *({"content": content} for content in (None, 1, b"x", "\ud800")),
        *({"expected_sha256": expected} for expected in ("", "x", 1, "A" * 64, False)),
        {"mode": 1},
    ],
    ids=repr,
)
async def test_wrong_arguments_write_nothing(workdir: Path, arguments: dict[str, Any]) -> None:
    context = to_write(workdir, path="a", **arguments)
    with pytest.raises(Invalid):
        WriteFileTool().validate(context.call.arguments)
    assert code_of(await WriteFileTool().run(context)) == "invalid"
    assert await WriteFileTool().check(context) == "unknown"
    assert names(workdir) == []


async def test_a_new_file_is_written_with_its_folders(workdir: Path) -> None:
    outcome = await write(workdir, path="b/c/a")
    assert outcome.ok
    assert outcome.output == {"size": 3, "sha256_before": None, "sha256_after": sha256("new")}
    assert (workdir / "b/c/a").read_text() == "new"
    assert names(workdir / "b/c") == ["a"]


async def test_a_file_is_replaced_and_keeps_its_mode(workdir: Path) -> None:
    (workdir / "a").write_text("old")
    (workdir / "a").chmod(0o751)
    outcome = await write(workdir, path="a", expected_sha256=sha256("old"))
    assert outcome.output["sha256_before"] == sha256("old")
    assert (workdir / "a").read_text() == "new"
    assert (workdir / "a").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize("expected", [None, sha256("something else")])
async def test_a_file_that_is_not_as_expected_is_left_alone(workdir: Path, expected: str | None) -> None:
    (workdir / "a").write_text("old")
    assert code_of(await write(workdir, path="a", expected_sha256=expected)) == "conflict"
    assert (workdir / "a").read_text() == "old"
    assert names(workdir) == ["a"]


async def test_of_many_that_write_a_new_file_at_once_one_does(workdir: Path) -> None:
    calls = [
        call(workdir, {"path": "a", "content": str(number), "expected_sha256": None}, call_id=f"c{number}")
        for number in range(32)
    ]
    outcomes = await asyncio.gather(*map(WriteFileTool().run, calls))
    assert [outcome.output["sha256_after"] for outcome in outcomes if outcome.ok] == [
        sha256((workdir / "a").read_text())
    ]
    assert {code_of(outcome) for outcome in outcomes if not outcome.ok} == {"conflict"}
    assert names(workdir) == ["a"]


def no_links(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("link", [os.link, no_links], ids=["hard links", "no hard links"])
def test_a_new_name_is_not_given_to_what_came_after_the_look(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[..., None]
) -> None:
    monkeypatch.setattr(os, "link", link)
    (workdir / "a").write_text("old")
    folder = os.open(workdir, os.O_RDONLY)
    try:
        with pytest.raises(Conflict), part_file("a", name="part", folder=folder) as part:
            part.write(b"new")
            files._rename_part(part, "a", is_new=True)
    finally:
        os.close(folder)
    assert (workdir / "a").read_text() == "old"


@pytest.mark.parametrize(
    ("found", "expected", "answer"),
    [
        ("new", {}, "happened"),
        ("new", {"expected_sha256": None}, "happened"),
        ("new", {"expected_sha256": sha256("old")}, "happened"),
        ("old", {"expected_sha256": sha256("old")}, "not_happened"),
        (None, {"expected_sha256": None}, "not_happened"),
        ("other", {"expected_sha256": sha256("old")}, "unknown"),
        ("other", {"expected_sha256": None}, "unknown"),
        ("other", {}, "unknown"),
        (None, {}, "unknown"),
        (None, {"expected_sha256": sha256("old")}, "unknown"),
    ],
)
async def test_a_check_compares_the_file(
    workdir: Path, found: str | None, expected: dict[str, str | None], answer: str
) -> None:
    if found is not None:
        (workdir / "a").write_text(found)
    assert await WriteFileTool().check(to_write(workdir, path="a", **expected)) == answer


async def test_a_file_whose_folder_is_not_there_was_not_written(workdir: Path) -> None:
    assert await WriteFileTool().check(to_write(workdir, path="b/a", expected_sha256=None)) == "not_happened"


async def test_a_cancelled_write_is_over_when_the_call_is(workdir: Path) -> None:
    free = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    busy = asyncio.ensure_future(asyncio.to_thread(free.wait))
    task = asyncio.create_task(write(workdir, path="a"))
    try:
        for _ in range(3):  # also by whoever is in a hurry
            await asyncio.sleep(0)
            task.cancel()
        assert not task.done()
    finally:
        free.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (workdir / "a").read_text() == "new"
    assert await busy


LARGE = "new" * 100_000


def write_within(limit: int, workdir: Path) -> Coroutine[Any, Any, ToolOutput]:
    """Write a file that is larger than this process may write."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return write(workdir, path="a", content=LARGE, expected_sha256=sha256("old"))


async def die_while_writing(workdir: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the system kills whoever writes too much
    await write_within(100_000, workdir)


async def fail_to_write(workdir: Path) -> None:
    assert code_of(await write_within(100_000, workdir)) == "unavailable"
    assert names(workdir) == ["a"]


async def test_a_write_that_was_killed_left_the_old_file_and_can_be_repeated(workdir: Path) -> None:
    (workdir / "a").write_text("old")
    context = to_write(workdir, path="a", content=LARGE, expected_sha256=sha256("old"))
    assert children.end_of(children.start(die_while_writing, workdir)) == -signal.SIGXFSZ
    assert len(names(workdir)) == 2
    assert (workdir / "a").read_text() == "old"
    assert await WriteFileTool().check(context) == "not_happened"
    assert (await WriteFileTool().run(context)).ok
    assert (workdir / "a").read_text() == LARGE
    assert names(workdir) == ["a"]


async def test_a_write_for_which_there_is_no_room_leaves_the_old_file(workdir: Path) -> None:
    (workdir / "a").write_text("old")
    children.run(fail_to_write, workdir)
    assert (workdir / "a").read_text() == "old"
