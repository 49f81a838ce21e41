"""Files are read and written in the goal's folder only, whole or not at all, and tell what happened to them."""

import asyncio
import hashlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from perdure.kernel.events import ToolOutput
from perdure.kernel.ports import CallContext, Tool
from perdure.tools import files
from perdure.tools.exec import ExecTool
from perdure.tools.files import ReadFileTool, WriteFileTool
from tests import children
from tests.tools.calls import appearance, call, code_of

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
    tools: list[Tool] = [ReadFileTool(), WriteFileTool(), ExecTool(run_dir)]
    assert [tool.name for tool in tools] == ["read_file", "write_file", "exec"]


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


async def test_a_link_to_itself_leads_nowhere(traps: Path) -> None:
    assert code_of(await read(traps, path="loop")) in ("invalid", "denied")
    assert code_of(await write(traps, path="loop/a")) in ("invalid", "denied")


async def test_a_link_that_is_swapped_in_after_the_look_is_not_followed(
    traps: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.tools.confine.confined", lambda workdir, path: Path(workdir).resolve() / path)
    assert code_of(await read(traps, path="leaf")) == "denied"
    assert not (await read(traps, path="link/secret")).ok
    assert not (await write(traps, path="link/secret")).ok
    assert (traps.parent / "secret").read_text() == "secret"


@pytest.mark.parametrize("limit", [-1, True, "1", 1.0, None, 10**9])
async def test_a_limit_that_is_none_is_invalid(workdir: Path, limit: object) -> None:
    (workdir / "a").touch()
    assert code_of(await read(workdir, path="a", max_bytes=limit)) == "invalid"


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


async def test_a_file_that_came_after_the_look_is_not_replaced(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workdir / "a").write_text("old")
    monkeypatch.setattr(files, "_look_if_there", lambda *_: None)
    assert code_of(await write(workdir, path="a", expected_sha256=None)) == "conflict"
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


async def test_a_cancelled_write_is_over_when_the_call_is(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync, begun = os.fsync, workdir / "begun"

    def slow(file: int) -> None:
        begun.write_text("x\n")
        asyncio.run(asyncio.sleep(0.05))
        fsync(file)

    monkeypatch.setattr(os, "fsync", slow)
    task = asyncio.create_task(write(workdir, path="a"))
    await appearance(begun)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (workdir / "a").read_text() == "new"


async def die_before_renaming(workdir: Path) -> None:
    files._give_name = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    await write(workdir, path="a", expected_sha256=sha256("old"))


async def test_a_write_that_was_killed_left_the_old_file_and_can_be_repeated(workdir: Path) -> None:
    (workdir / "a").write_text("old")
    context = to_write(workdir, path="a", expected_sha256=sha256("old"))
    child = children.start(die_before_renaming, workdir)
    assert children.end_of(child) == -signal.SIGKILL
    assert (workdir / "a").read_text() == "old"
    assert await WriteFileTool().check(context) == "not_happened"
    assert (await WriteFileTool().run(context)).ok
    assert names(workdir) == ["a"]
