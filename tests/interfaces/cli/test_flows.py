"""`perdure run --flow`: where a flow is found, what it is called with, and what is said when it cannot be."""

import asyncio
import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.interfaces.cli.goals.run_ui.flows import new_flow
from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal

FLOWS = """
from perdure import flow


def double(number):
    print("doubling", number)
    return number * 2


@flow
async def twice(goal, number, *, times=1):
    for _ in range(times):
        number = await goal.step(double, number)
    return number


@flow
async def greet(goal, name="you"):
    return f"hello {await goal.ask(f'May I greet {name}?', ['yes', 'no'])}"


def ship(item):
    with open("shipped.txt", "a") as shipped:
        shipped.write(f"{item}\\n")


@flow
async def order(goal, item):
    await goal.ask("Ship it?", ["yes", "no"])
    await goal.step(ship, item)


@flow
async def orders(goal, *items):
    for item in items:
        await goal.ask("Ship it?", ["yes", "no"])
        await goal.step(ship, item)


@flow
async def delivery(goal, item):
    await goal.step(ship, item)


@flow
async def shop(goal, item):
    await goal.child(delivery, item)


def plain():
    pass


def breaks(item):
    return item["price"]


@flow
async def broken(goal, item):
    return await goal.step(breaks, item)


@flow
async def tolerant(goal, item):
    try:
        await goal.step(breaks, item)
    except Exception:
        return "no price"


@flow
async def wraps(goal, item):
    try:
        await goal.step(breaks, item)
    except Exception as error:
        raise RuntimeError("gave up") from error
"""


def forget(name: str) -> None:
    """Let a module be imported anew, as another process would."""
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    for path in [path for path in registry._FLOWS if path.startswith(f"{name}:")]:
        del registry._FLOWS[path]


@pytest.fixture(autouse=True)
def own_modules(ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of this test alone; what it imports is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "flows.py").write_text(FLOWS)
    before = dict(sys.modules)
    forget("flows")
    yield
    for name in set(sys.modules) - set(before):
        if str(ready) in str(getattr(sys.modules[name], "__file__", "")):
            forget(name)


@pytest.mark.parametrize(
    ("args", "value"),
    [
        ("[4]", 8),
        ('{"number": 4}', 8),
        ('{"number": 4, "times": 2}', 16),
    ],
)
def test_arguments_are_a_list_or_an_object_of_names(perdure: Terminal, args: str, value: int) -> None:
    perdure("run", "--flow", "flows:twice", "--args", args)
    assert perdure.out.endswith(f"{value}\n")
    assert perdure.goals()[0]["mind"] == "flow"


def test_without_arguments_a_flow_is_called_with_none_and_what_it_returned_is_printed(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flows:greet") == 5
    assert perdure("goal", "answer", perdure.newest(), "yes", "--resume") == 0
    assert perdure.out == "hello yes\n"
    assert perdure("run", "--resume", perdure.newest()) == 0
    assert perdure.out == "hello yes\n"


@pytest.mark.parametrize("form", ["--json", "--jsonl"])
def test_what_a_flow_prints_is_kept_out_of_the_way_of_a_program(perdure: Terminal, form: str) -> None:
    assert perdure("run", "--flow", "flows:twice", "--args", "[4]", form) == 0
    assert perdure.err == "doubling 4\n"
    assert "doubling" not in perdure.out
    assert '"value": 8' in perdure.out or '"output": 8' in perdure.out


@pytest.mark.parametrize(
    "args", ["3", '"day"', "null", "{", "[1", "", "[1, 2, 3]", '{"day": 1}', "[1e999]", '{"number": 1, "number": 2}']
)
def test_arguments_that_are_invalid_are_refused_before_anything_is_stored(perdure: Terminal, args: str) -> None:
    assert perdure("run", "--flow", "flows:twice", "--args", args) == 2
    assert "Traceback" not in perdure.err
    assert perdure.goals() == []


@pytest.mark.parametrize("args", ["3", "null", "[1", "{", '{"number": 1, "number": 2}'])
def test_what_arguments_look_like_is_said(perdure: Terminal, args: str) -> None:
    perdure("run", "--flow", "flows:twice", "--args", args)
    assert """--args must be a JSON list of arguments, such as '["2026-11-15"]', or a JSON object""" in perdure.err


@pytest.mark.parametrize("path", ["flows.py:twice", "./flows.py:twice"])
def test_a_file_in_place_of_a_module_says_what_was_meant(perdure: Terminal, path: str) -> None:
    assert perdure("run", "--flow", path) == 2
    assert "did you mean flows:twice?\n" in perdure.err


def test_a_flow_whose_code_is_gone_is_reported_before_an_answer_or_a_fork_is_made(perdure: Terminal) -> None:
    perdure("run", "--flow", "flows:greet")
    (goal,) = perdure.goals()
    Path("flows.py").unlink()
    forget("flows")
    assert perdure("goal", "answer", goal["id"], "yes", "--resume") == 3
    assert perdure("goal", "fork", goal["id"], "--at", "1", "--resume") == 3
    assert [(each["id"], each["last_seq"]) for each in perdure.goals()] == [(goal["id"], goal["last_seq"])]


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("flows", 3, "module:function"),
        (":twice", 2, "module:function"),
        ("flows:", 2, "module:function"),
        ("nowhere:twice", 3, "No module nowhere"),
        ("flows.inner:twice", 3, "No module flows.inner"),
        ("flows:gone", 3, "has no flow gone"),
        ("flows:plain", 2, "is not a flow, but a function"),
        ("flows:twice.fn", 2, "is not a flow"),
        ("__main__:twice", 3, "Run that script again"),
        ("needs_more:twice", 2, "needs_more.py, line 2"),
        ("broken:twice", 2, "broken.py, line 3"),
        ("divides:twice", 2, "ZeroDivisionError: division by zero ("),
        ("leaves:twice", 2, "it ended the program ("),
        ("runs:twice", 2, "asyncio.run() cannot be called from a running event loop"),
    ],
)
def test_a_flow_that_cannot_be_had_is_said_in_one_sentence(perdure: Terminal, path: str, code: int, said: str) -> None:
    Path("needs_more.py").write_text("import flows\nimport more_than_there_is\n")
    Path("broken.py").write_text("def f():\n    pass\nasync def broken(:\n")
    Path("divides.py").write_text("import flows\n\n1 / 0\n")
    Path("leaves.py").write_text("import sys\nsys.exit(3)\n")
    Path("runs.py").write_text(
        "import asyncio\nasync def main(): pass\ncoroutine = main()\n"
        "try:\n    asyncio.run(coroutine)\nfinally:\n    coroutine.close()\n"
    )
    assert perdure("run", "--flow", path) == code
    assert said in perdure.err
    assert perdure.err.startswith("perdure: ")
    assert "Traceback" not in perdure.err
    assert perdure.goals() == []


def test_debug_shows_where_a_module_failed(perdure: Terminal) -> None:
    Path("divides.py").write_text("1 / 0\n")
    assert perdure("run", "--flow", "divides:twice", "--debug") == 2
    assert "Traceback" in perdure.err


def test_a_flow_is_found_by_the_name_that_another_module_gives_it(perdure: Terminal) -> None:
    Path("other.py").write_text("from flows import twice as again\n")
    assert perdure("run", "--flow", "other:again", "--args", "[1]") == 0
    assert perdure.goals()[0]["text"] == "twice(1)"


def test_a_goal_whose_module_has_gone_or_fails_is_unchanged(perdure: Terminal) -> None:
    perdure("run", "--flow", "flows:greet")
    before = perdure.goals()
    text = Path("flows.py").read_text()
    Path("flows.py").unlink()
    forget("flows")
    assert perdure("run", "--continue") == 3
    assert "No module flows" in perdure.err
    Path("flows.py").write_text("1 / 0\n")
    assert perdure("run", "--continue") == 2
    assert "line 1" in perdure.err
    assert perdure.goals() == before
    Path("flows.py").write_text(text)
    assert perdure("goal", "answer", before[0]["id"], "no", "--resume") == 0


def test_changed_code_is_refused_and_a_fork_before_the_change_continues(perdure: Terminal) -> None:
    Path("flows.py").write_text(FLOWS.replace("    return number\n", '    return await goal.ask("Sure?")\n'))
    assert perdure("run", "--flow", "flows:twice", "--args", '{"number": 1, "times": 2}') == 5
    goal = perdure.newest()
    Path("flows.py").write_text(FLOWS.replace("return number\n", "return await goal.step(double, number)\n"))
    forget("flows")
    before = perdure.goals()
    assert perdure("run", "--resume", goal) == 4
    command = perdure.err.strip().rpartition(": ")[2]
    asked = perdure.json("goal", "show", goal)["timeline"][-1]
    assert perdure.goals() == before
    assert command == f"perdure goal fork {goal} --before {asked['step'].strip('/').partition('#')[0]}"
    assert perdure(*shlex.split(command)[1:]) == 0
    assert perdure("run", "--resume", perdure.newest()) == 0
    assert perdure.out == "doubling 4\n8\n"


@pytest.mark.parametrize("verb", [["run", "--resume"], ["goal", "resume"]])
def test_the_fork_that_is_offered_is_for_the_home_that_was_named(perdure: Terminal, verb: list[str]) -> None:
    home = str(Path("other home").absolute())
    perdure("run", "--flow", "flows:greet", "--home", home)
    goal = perdure.json("goal", "list", "--home", home)["goals"][0]["id"]
    Path("flows.py").write_text(FLOWS.replace("May I", "Shall I"))
    forget("flows")
    assert perdure(*verb, goal, "--home", home) == 4
    command = perdure.err.strip().rpartition(": ")[2]
    assert command == f"perdure goal fork {goal} --before ask --home '{home}'"
    assert perdure(*shlex.split(command)[1:]) == 0
    assert len(perdure.json("goal", "list", "--home", home)["goals"]) == 2
    assert perdure("goal", "answer", goal, "yes", "--resume", "--home", home) == 4
    assert command in perdure.err


@pytest.mark.parametrize("verb", [["goal", "resume", "ID"], ["goal", "answer", "ID", "yes", "--resume"]])
def test_a_flow_that_is_resumed_from_elsewhere_runs_in_the_folder_where_it_was_started(
    perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    assert perdure("run", "--flow", "flows:order", "--args", '["lamp"]') == 5
    goal_id = perdure.newest()
    if "answer" not in verb:
        perdure("goal", "answer", goal_id, "yes")
    elsewhere = ready / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert perdure(*[goal_id if word == "ID" else word for word in verb]) == 0
    assert (ready / "shipped.txt").read_text() == "lamp\n"
    assert not (elsewhere / "shipped.txt").exists()
    assert Path.cwd() == elsewhere


def test_a_flow_of_a_server_runs_in_the_current_folder_however_often_it_is_resumed(
    perdure: Terminal, ready: Path
) -> None:
    async def begin() -> str:
        async with Perdure.open() as p:
            new = replace(new_flow("flows:orders", '["lamp", "table"]'), workdir=None)  # as a server begins it
            return (await p.goals.begin(new, RunOptions(queue="server"))).state.goal_id

    goal_id = asyncio.run(begin())
    assert perdure("goal", "answer", goal_id, "yes", "--resume") == 5
    assert perdure("goal", "answer", goal_id, "yes", "--resume") == 0
    assert (ready / "shipped.txt").read_text() == "lamp\ntable\n"
    assert perdure("goal", "show", goal_id) == 0
    assert "folder" not in perdure.out, "the folder of its own is not where it ran"


def test_arguments_need_a_flow(perdure: Terminal) -> None:
    assert perdure("run", "--args", "[]", "--", "true") == 2
    assert perdure("run", "--plan", "plan.yaml", "--flow", "flows:twice") == 2


def test_a_flow_leaves_no_trace_when_it_is_ephemeral(perdure: Terminal) -> None:
    assert perdure("run", "--ephemeral", "--flow", "flows:twice", "--args", "[2]") == 0
    assert perdure.out == "doubling 2\n4\n"
    assert perdure.goals() == []


def test_a_mistake_in_a_flow_is_reported_with_its_line_and_whole_in_the_log_and_by_debug(
    perdure: Terminal, tmp_path: Path
) -> None:
    Path("wrong.py").write_text("from perdure import flow\n\n@flow\nasync def fails(goal):\n    return 1 / 0\n")
    assert perdure("run", "--flow", "wrong:fails") == 1
    assert "ZeroDivisionError: division by zero (wrong.py, line 5)\n" in perdure.err
    assert perdure.err.count("return 1 / 0") == 1
    assert "flow/mind.py" not in perdure.err
    (log,) = (tmp_path / "home" / "logs").iterdir()
    assert "flow/mind.py" in log.read_text()
    assert perdure("run", "--flow", "wrong:fails", "--debug") == 1
    assert "flow/mind.py" in perdure.err


def test_a_failure_is_printed_with_the_traceback_of_the_user(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flows:broken", "--args", "[{}]") == 1
    said, goal = perdure.err, perdure.newest()
    lines = r'    Traceback .*\n      File "flows.py", line \d+, in breaks\n        return item\["price"\]\n'
    frames = re.search(lines, said)
    assert frames is not None
    assert "    KeyError: 'price'\n" in said
    assert said.endswith(f"\n  perdure goal retry {goal}\n")
    perdure("goal", "show", goal)
    assert perdure.out.count(frames[0]) == 1
    shown = perdure.json("goal", "show", goal)
    assert (shown["error"]["type"], shown["error"]["args"]) == ("builtins:KeyError", ["price"])
    assert shown["timeline"][0]["error"] == shown["error"]
    assert shown["next"][0]["command"] == f"perdure goal retry {goal}"
    assert perdure.goals()[0]["error"] is None


def test_a_failure_that_the_flow_caught_is_shown_with_its_traceback(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flows:tolerant", "--args", "[{}]") == 0
    perdure("goal", "show", perdure.newest())
    assert "    KeyError: 'price'\n" in perdure.out
    assert perdure.json("goal", "show", perdure.newest())["error"] is None


def test_a_traceback_that_is_part_of_the_goals_own_is_shown_once(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flows:wraps", "--args", "[{}]") == 1
    perdure("goal", "show", perdure.newest())
    assert perdure.out.count('        return item["price"]\n') == 1, "the traceback of the step"
    assert perdure.out.count("    KeyError: 'price'\n") == 2, "of the step, and of goal.step in the flow"
    assert "    RuntimeError: gave up\n" in perdure.out


def test_a_fork_names_what_a_child_has_done_and_will_do_again(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "flows:shop", "--args", '["lamp"]') == 0
    parent = perdure.json("goal", "list", "--flow", "shop")["goals"][0]["id"]
    child = perdure.json("goal", "list", "--flow", "delivery")["goals"][0]["id"]
    assert perdure.json("goal", "fork", parent, "--before", "delivery")["done_again"] == [
        f"/delivery#0 (its child {child}: /ship#0)"
    ]
    assert perdure("goal", "fork", parent, "--before", "delivery", "--resume") == 0
    assert f"/delivery#0 (its child {child}: /ship#0) was done in {parent} and will be done again." in perdure.err
    assert Path("shipped.txt").read_text() == "lamp\nlamp\n"
