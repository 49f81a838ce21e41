"""`--import` and the setting `imports`: goals find their flow after its code was moved."""

import gc
import importlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal

FLOW = """
from perdure import flow


def note(text):
    return text


@flow{options}
async def {function}(goal):
    before = await goal.step(note, "before")
    await goal.ask("Continue?", ["yes", "no"])
    return [before, {answer!r}]


@flow
async def fails(goal):
    return await goal.options(effect="idempotent").step(is_fixed)


def is_fixed():
    if {answer!r} == "old":
        raise ValueError("not fixed")
    return "fixed"
"""


def write(folder: Path, module: str, answer: str, function: str = "main", options: str = "") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(FLOW.format(options=options, function=function, answer=answer))


def forget(*modules: str) -> None:
    """Forget modules and their flows, as a new process would."""
    for name in modules:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    gc.collect()
    for key in [key for key, each in registry._FLOWS.items() if each.path.partition(":")[0] in modules]:
        del registry._FLOWS[key]


@pytest.fixture(autouse=True)
def own_modules(ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(ready, "moved_from", "old")
    forget("moved_from", "moved_to")
    yield
    forget("moved_from", "moved_to")


def move(folder: Path, **new: str) -> None:
    """Move the code to another module."""
    Path("moved_from.py").unlink()
    write(folder, "moved_to", "new", **new)
    forget("moved_from", "moved_to")


def parked(perdure: Terminal, *more: str) -> str:
    assert perdure("run", "--no-input", "--flow", *more) == 5
    return str(perdure.goals()[0]["id"])


def test_a_flow_that_was_moved_under_its_function_name_is_resumed(perdure: Terminal, ready: Path) -> None:
    goal = parked(perdure, "moved_from:main")
    move(ready)
    assert perdure("goal", "resume", goal) == 3
    assert "No module moved_from" in perdure.err
    assert "`imports` (which is empty)" in perdure.err
    assert "--import MODULE or the setting `imports`" in perdure.err
    assert perdure("goal", "answer", goal, "yes", "--resume", "--import", "moved_to") == 0
    assert '"new"' in perdure.out


def test_a_flow_that_was_renamed_and_moved_under_its_own_name_is_resumed(perdure: Terminal, ready: Path) -> None:
    write(ready, "moved_from", "old", options='(name="report")')
    goal = parked(perdure, "moved_from:main")
    move(ready, function="make_report", options='(name="report")')
    assert perdure("goal", "answer", goal, "yes") == 0
    assert perdure("goal", "resume", goal, "--import", "moved_to") == 0
    assert '"new"' in perdure.out


@pytest.mark.parametrize("written", ['imports = "json, moved_to"', 'imports = ["json", "moved_to"]'])
def test_the_setting_names_the_modules_too(perdure: Terminal, ready: Path, written: str) -> None:
    goal = parked(perdure, "moved_from:main")
    move(ready)
    (ready.parent / "home" / "config.toml").write_text(written)
    assert perdure("goal", "answer", goal, "yes", "--resume") == 0
    assert '"new"' in perdure.out


def test_the_environment_names_the_modules_too(perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goal = parked(perdure, "moved_from:main")
    move(ready)
    monkeypatch.setenv("PERDURE_IMPORTS", "moved_to")
    assert perdure("goal", "answer", goal, "yes", "--resume") == 0


def test_a_failed_goal_is_retried_where_its_code_is_now(perdure: Terminal, ready: Path) -> None:
    assert perdure("run", "--flow", "moved_from:fails") == 1
    goal = str(perdure.goals()[0]["id"])
    move(ready)
    assert perdure("goal", "retry", goal) == 3
    assert perdure("goal", "retry", goal, "--import", "moved_to") == 0
    assert perdure.out == "fixed\n"


def test_a_module_that_is_named_is_found_in_the_current_folder_last(
    perdure: Terminal, ready: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = parked(perdure, "moved_from:main")
    elsewhere = tmp_path / "elsewhere"
    move(elsewhere)
    monkeypatch.chdir(elsewhere)
    assert perdure("goal", "answer", goal, "yes", "--resume") == 3
    assert perdure("goal", "answer", goal, "yes", "--resume", "--import", "moved_to") == 0
    assert ready != elsewhere


def test_a_flow_is_run_by_its_name(perdure: Terminal, ready: Path) -> None:
    write(ready, "moved_from", "old", options='(name="report")')
    assert perdure("run", "--flow", "report") == 3
    assert "No flow 'report' is loaded. Name it as module:function, or name the module" in perdure.err
    goal = parked(perdure, "report", "--import", "moved_from")
    assert [each["id"] for each in perdure.goals("--flow", "report")] == [goal]
    forget("moved_from")
    assert perdure("goal", "answer", goal, "yes", "--resume") == 0


@pytest.mark.parametrize(
    ("module", "code", "said"),
    [
        ("nowhere", 3, "No module nowhere"),
        ("a/b", 2, "names of modules separated by commas"),
        ("moved_from:main", 2, "names of modules"),
        ("broken_module", 2, "ZeroDivisionError"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    perdure: Terminal, ready: Path, module: str, code: int, said: str
) -> None:
    goal = parked(perdure, "moved_from:main")
    before = perdure.goals()[0]["last_seq"]
    move(ready)
    Path("broken_module.py").write_text("1 / 0\n")
    assert perdure("goal", "answer", goal, "yes", "--resume", "--import", module) == code
    assert said in perdure.err
    assert perdure.goals()[0]["last_seq"] == before
    assert perdure("serve", "--port", "0", "--import", module) == code
    assert said in perdure.err


def test_the_doctor_shows_the_modules(perdure: Terminal, ready: Path) -> None:
    perdure("doctor")
    assert "imports" not in perdure.out
    (ready.parent / "home" / "config.toml").write_text('imports = ["shop.flows"]')
    perdure("doctor")
    assert "shop.flows" in perdure.out
    (ready.parent / "home" / "config.toml").write_text('imports = "shop/flows.py"')
    assert perdure("doctor") == 2
    assert "names of modules separated by commas, such as shop.flows" in perdure.out


def test_printed_commands_repeat_the_modules_that_were_named(perdure: Terminal, ready: Path) -> None:
    goal = parked(perdure, "moved_from:main")
    move(ready)
    assert perdure("goal", "resume", goal, "--import", "json", "--import", "moved_to", "--no-input") == 5
    [printed] = [line for line in perdure.err.splitlines() if "goal answer" in line]
    words = shlex.split(printed.replace("ANSWER", "yes"))
    assert words[-4:] == ["--import", "json", "--import", "moved_to"]
    [offered] = perdure.json("goal", "resume", goal, "--import", "moved_to", "--no-input")["next"]
    assert offered["command"] == f"perdure goal answer {goal} ANSWER --resume --import moved_to"
    forget("moved_to")
    assert perdure(*words[words.index("goal") :]) == 0
    assert '"new"' in perdure.out
