"""Ctrl-C in a script: the command to resume is printed instead of a traceback, and nothing else is changed."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Effect, Goal, Perdure, flow
from perdure.app.home.script_interrupts import Interrupted, report_interrupt, resume_lines
from perdure.kernel.events import GoalBegun, MindSpec

SAID = ["Interrupted. Recorded steps are kept. To resume:", "  perdure goal resume g-1"]
SCRIPT = """
import asyncio, os, signal, sys
from perdure import Goal, Perdure, flow

async def slow() -> int:
    if not os.path.exists("pressed"):
        open("pressed", "w").close()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    return 7

@flow
async def nightly(goal: Goal) -> int:
    return await goal.options(effect="pure").step(slow)

async def main() -> None:
    async with Perdure.open() as p:
        try:
            print((await p.goals.options(key="nightly").run(nightly)).value)
        finally:
            if "bug" in sys.argv:
                raise ValueError("a real bug")

asyncio.run(main())
"""


STARTED: list[asyncio.Event] = []


async def held() -> None:
    STARTED[0].set()
    await asyncio.Event().wait()


@flow
async def holding(goal: Goal, effect: Effect) -> None:
    await goal.options(effect=effect).step(held)


@pytest.fixture(autouse=True)
def hook() -> Iterator[None]:
    """Leave the hook as it was."""
    before = sys.excepthook
    yield
    sys.excepthook = before


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "nightly.py").write_text(SCRIPT)
    environment = {**os.environ, "PERDURE_HOME": str(folder / "home")}
    command = [sys.executable, "nightly.py", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_ctrl_c_in_a_script_prints_the_command_that_resumes_it(tmp_path: Path) -> None:
    interrupted = run_script(tmp_path, "--fast")
    assert interrupted.returncode == -signal.SIGINT  # a shell says 130
    assert interrupted.stderr.splitlines() == [SAID[0], "  python nightly.py --fast"]
    again = run_script(tmp_path, "--fast")
    assert (again.returncode, again.stdout, again.stderr) == (0, "7\n", "")


def test_an_error_on_the_way_out_is_printed_with_its_traceback(tmp_path: Path) -> None:
    broken = run_script(tmp_path, "bug")
    assert broken.returncode == 1
    assert broken.stderr.endswith("ValueError: a real bug\n")
    assert "Interrupted;" not in broken.stderr


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def end_of(again: Callable[[], object] = lambda: None) -> BaseException:
    """Press Ctrl-C in a program, and maybe again while its block ends; return what ends the program."""

    async def main() -> None:
        with report_interrupt(lambda: SAID):
            try:
                press()
                await asyncio.sleep(60)
            finally:
                again()
                await asyncio.sleep(0.1)

    program = main()
    with pytest.raises(KeyboardInterrupt) as caught, closing(program):  # it may be interrupted before it begins
        asyncio.run(program)
    return caught.value


def shown_by_hook(error: BaseException, capsys: pytest.CaptureFixture[str]) -> str:
    sys.excepthook(type(error), error, error.__traceback__)
    return capsys.readouterr().err


AGAIN: dict[str, Callable[[], object]] = {
    "once": lambda: None,
    "twice, in the block": press,
    "twice, in the event loop": lambda: asyncio.get_running_loop().call_soon(press),
}


@pytest.mark.parametrize("again", AGAIN.values(), ids=AGAIN)
def test_the_lines_are_printed_instead_of_the_traceback(
    again: Callable[[], object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown_by_hook(end_of(again), capsys).splitlines() == SAID


def test_another_interrupt_and_another_error_are_printed_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    end_of()
    assert shown_by_hook(KeyboardInterrupt(), capsys).startswith("KeyboardInterrupt")
    assert shown_by_hook(ValueError("wrong"), capsys) == "ValueError: wrong\n"


def test_an_interrupt_without_goals_is_printed_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        with report_interrupt(list):
            press()
            await asyncio.sleep(60)

    program = main()
    with pytest.raises(KeyboardInterrupt) as caught, closing(program):  # it may be interrupted before it begins
        asyncio.run(program)
    assert "Traceback" in shown_by_hook(caught.value, capsys)


async def test_a_task_that_is_cancelled_on_purpose_installs_nothing() -> None:
    before = sys.excepthook

    async def work() -> None:
        with report_interrupt(lambda: SAID):
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sys.excepthook is before


def interrupted(number: int, at: str | None = None, *, resumes_by_call: bool = True) -> Interrupted:
    mind = MindSpec("flow", flow="nightly", at=at, args={"script": "/srv/nightly.py"} if at else None)
    return Interrupted(f"g-{number}", GoalBegun("nightly", mind), resumes_by_call)


def test_goals_of_one_script_are_resumed_by_one_command() -> None:
    assert resume_lines([interrupted(n, "__main__:nightly") for n in (1, 2)])[1:] == ["  python /srv/nightly.py"]


def test_a_goal_without_a_key_is_named_because_the_script_would_start_another() -> None:
    (command,) = resume_lines([interrupted(1, "__main__:nightly", resumes_by_call=False)])[1:]
    assert command.startswith("  await p.goals.resume('g-1')  # ")


@pytest.mark.parametrize(
    ("effect", "interrupted_steps"),
    [("once", ("/held#0",)), ("idempotent", ()), ("pure", ())],
    ids=["once", "idempotent", "pure"],
)
async def test_a_goal_that_is_interrupted_names_the_once_steps_that_were_running(
    tmp_path: Path, effect: Effect, interrupted_steps: tuple[str, ...]
) -> None:
    STARTED[:] = [asyncio.Event()]
    async with Perdure.open(tmp_path / "home") as p:
        running = asyncio.create_task(p.goals.run(holding, effect))
        await STARTED[0].wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (found,) = p.goals.interrupted()
    assert found.interrupted_steps == interrupted_steps


def test_calls_that_were_cut_off_are_named_and_said_to_be_unknown() -> None:
    goals = [replace(interrupted(n), interrupted_steps=("/charge#0",)) for n in range(2)]
    asked = "unknown. On resume the check of the step decides, or you do. To resume:"
    assert resume_lines(goals[:1])[0] == f"Interrupted. /charge#0 was running: its outcome is {asked}"
    assert resume_lines(goals)[0] == f"Interrupted. /charge#0, /charge#0 were running: their outcomes are {asked}"


def test_many_goals_are_cut_and_a_home_of_its_own_is_named() -> None:
    said = resume_lines([interrupted(n) for n in range(7)], Path("/srv/home"))
    assert said[1] == "  perdure goal resume g-0 --home /srv/home"
    assert said[-1] == "  and 2 more: perdure goal list --home /srv/home"
