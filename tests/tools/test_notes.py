"""What stands where a note should be, and whose it is: nobody is ended whom this home has not noted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from perdure import Conflict
from perdure.tools.exec.pidfiles import Home, Note, note_path, read_note, write_note
from perdure.tools.exec.processes import ProcessIdentity
from tests.tools.calls import CALL, GOAL, HOME_ID, LONG_S, call, exec_tool, is_running, known, note_of, notes, shell


@pytest.mark.parametrize("pid", ["9999999999", "1", "0", "-5", "true", "2.5", '"7"'])
def test_a_number_that_no_process_has_names_no_process(tmp_path: Path, pid: str) -> None:
    note = tmp_path / "call.json"
    note.write_text(f'{{"pid": {pid}, "started": "1", "boot_id": "b"}}')
    assert read_note(note) is None


def test_a_folder_is_not_a_note(tmp_path: Path) -> None:
    assert read_note(tmp_path) is None


@pytest.mark.parametrize("home", [None, Home("h1", "/home/of/perdure")])
def test_a_note_is_read_as_it_was_written(tmp_path: Path, home: Home | None) -> None:
    note = Note(ProcessIdentity(7, "1", "b"), home)
    write_note(tmp_path / "call.json", note)
    assert read_note(tmp_path / "call.json") == note


@pytest.fixture
async def running() -> AsyncIterator[asyncio.subprocess.Process]:
    """A process in a session of its own."""
    process = await asyncio.create_subprocess_exec("sleep", str(LONG_S), start_new_session=True)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


def of_another_id(run_dir: Path, identity: ProcessIdentity) -> Note:
    return note_of(run_dir, identity, home_id="other")


def of_another_place(_run_dir: Path, identity: ProcessIdentity) -> Note:
    return Note(identity, Home(HOME_ID, "/somewhere/else"))


def of_an_older_version(_run_dir: Path, identity: ProcessIdentity) -> Note:
    return Note(identity, None)


FOREIGN = pytest.mark.parametrize("make", [of_another_id, of_another_place, of_an_older_version])


@FOREIGN
async def test_what_another_home_has_noted_is_left_alone_and_named(
    run_dir: Path, running: asyncio.subprocess.Process, make: Callable[[Path, ProcessIdentity], Note]
) -> None:
    write_note(note_path(run_dir, GOAL, CALL), make(run_dir, known(running.pid)))
    with pytest.raises(Conflict, match=rf"{running.pid} still runs for .* home"):
        await exec_tool(run_dir).reap(GOAL, CALL)
    assert is_running(running.pid)
    assert notes(run_dir), "the note is the other home's"


@FOREIGN
async def test_a_note_of_another_home_whose_process_is_gone_is_in_the_way_of_no_process(
    run_dir: Path, running: asyncio.subprocess.Process, make: Callable[[Path, ProcessIdentity], Note]
) -> None:
    write_note(note_path(run_dir, GOAL, CALL), make(run_dir, known(running.pid)))
    running.kill()
    await running.wait()
    await exec_tool(run_dir).reap(GOAL, CALL)


async def test_a_program_is_passed_which_home_it_runs_for(run_dir: Path, workdir: Path) -> None:
    outcome = await exec_tool(run_dir).run(call(workdir, shell("echo $PERDURE_HOME_ID")))
    assert outcome.output["stdout"] == f"{HOME_ID}\n"
