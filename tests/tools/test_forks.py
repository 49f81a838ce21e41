"""Which noted processes are ended: only those that this home noted and that are still the same."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.tools.exec.forks import ForkNotes, sweep_forks
from perdure.tools.exec.pidfiles import Home, Note, note_path, write_note
from perdure.tools.exec.processes import ProcessIdentity, identity_of
from tests.tools.calls import LONG_S, is_running


@pytest.fixture
async def running() -> AsyncIterator[ProcessIdentity]:
    """A process that runs."""
    process = await asyncio.create_subprocess_exec("sleep", str(LONG_S))
    identity = identity_of(process.pid)
    assert identity is not None
    yield identity
    if process.returncode is None:
        process.kill()
    await process.wait()


def write(home: Path, identity: ProcessIdentity, home_id: str = "ours") -> Path:
    """Note a process as a fork of a call, and return the note."""
    path = note_path(home / "run", "goal", "call").with_suffix(".forks") / f"{identity.pid}.json"
    write_note(path, Note(identity, Home(home_id, str(home))))
    return path


async def end(home: Path) -> None:
    await ForkNotes(home / "run", "ours").end("goal", "call")


async def test_a_noted_process_is_ended_and_its_note_removed(tmp_path: Path, running: ProcessIdentity) -> None:
    note = write(tmp_path, running)
    await end(tmp_path)
    assert not is_running(running.pid)
    assert not note.parent.exists()


async def test_a_process_that_another_home_noted_is_left_alone(tmp_path: Path, running: ProcessIdentity) -> None:
    write(tmp_path, running, "a copy of ours")
    await end(tmp_path)
    assert is_running(running.pid)


@pytest.mark.parametrize("is_other_boot", [False, True])
async def test_a_process_that_merely_has_the_pid_is_left_alone(
    tmp_path: Path, running: ProcessIdentity, is_other_boot: bool
) -> None:
    other = replace(running, boot_id="another") if is_other_boot else replace(running, started="1")
    write(tmp_path, other)
    await end(tmp_path)
    assert is_running(running.pid)


async def test_a_sweep_removes_only_notes_of_processes_that_have_ended(
    tmp_path: Path, running: ProcessIdentity
) -> None:
    living = write(tmp_path, running)
    ended = write(tmp_path, ProcessIdentity(2**22 + 1, "1", running.boot_id))
    sweep_forks(tmp_path / "run")
    assert living.exists()
    assert not ended.exists()
