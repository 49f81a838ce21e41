"""Two flows under one name never swap, and moved code is found."""

import asyncio
import gc
import importlib
import sys
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Flow, Goal, GoalWaiting, Invalid, NotFound, flow
from perdure.app.goals.goals import Goals
from perdure.app.workers.flows import load_flow
from perdure.minds.flow import registry


def answer_with(answer: str, name: str | None = None) -> Flow[[], str]:
    """Make a flow; all that are made here have the same function name, file and line."""

    @flow(name=name)
    async def answers(goal: Goal) -> str:
        await goal.options(effect="pure").step(str, answer)
        return answer

    return answers


def ask_with(answer: str, name: str | None = None) -> Flow[[], str]:
    @flow(name=name)
    async def asks(goal: Goal) -> str:
        await goal.signal("go")
        return answer

    return asks


@pytest.fixture
def place() -> None:
    """Keep goals in memory: which flow a goal runs does not depend on the store."""


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of modules that this test writes; what is imported from there is forgotten afterwards."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = dict(sys.modules)
    yield folder
    forget(*(set(sys.modules) - set(before)), *(path.stem for path in folder.iterdir()))


def write(folder: Path, name: str, text: str) -> None:
    head = "from perdure import Goal, flow\n"
    (folder / f"{name}.py").write_text(head + textwrap.dedent(text))
    importlib.invalidate_caches()


def forget(*names: str) -> None:
    """Forget modules and their flows, as a new process would."""
    for name in names:
        sys.modules.pop(name, None)
    for key in [key for key, each in registry._FLOWS.items() if each.path.partition(":")[0] in names]:
        del registry._FLOWS[key]


WAITS = """
    @flow{options}
    async def {function}(goal: Goal) -> str:
        await goal.signal("go")
        return "{answer}"
"""


def waits(answer: str, function: str = "main", options: str = "") -> str:
    return WAITS.format(answer=answer, function=function, options=options)


async def test_flows_of_one_factory_never_swap(goals: Goals) -> None:
    first, second = answer_with("first"), answer_with("second")
    assert (await goals.run(second)).value == "second"
    with pytest.raises(Invalid, match=r"test_flow_names\.py, line .*newest is .*test_flow_names\.py.*@flow\(name="):
        await goals.run(first)
    with pytest.raises(Invalid, match=r"@flow\(name="):
        await goals.start(first)
    assert len(await goals.list()) == 1


async def test_flows_of_one_factory_with_names_of_their_own_run_side_by_side(goals: Goals) -> None:
    made = [answer_with(name, name) for name in ("first", "second")]
    results = await asyncio.gather(*(goals.run(each) for each in made))
    assert [result.value for result in results] == ["first", "second"]
    assert [goal.summary.flow for goal in await goals.list()] == ["second", "first"]


async def test_a_flow_that_is_defined_while_another_begins_does_not_replace_it(goals: Goals) -> None:
    async def run(answer: str) -> Any:
        return (await goals.run(answer_with(answer))).value

    answers = [str(number) for number in range(5)]
    assert await asyncio.gather(*map(run, answers)) == answers


async def test_a_flow_that_only_its_goal_refers_to_is_kept_until_the_goal_has_ended(goals: Goals) -> None:
    handle = await goals.start(ask_with("made"))
    ask_with("newer")
    gc.collect()
    await goals.signal(handle.id, "go")
    assert (await handle.result(timeout_s=20)).value == "made"


def test_a_flow_that_nothing_refers_to_is_not_kept_alive() -> None:
    class Big:
        pass

    big = Big()
    seen = weakref.ref(big)
    answer_with(big, "big")  # type: ignore[arg-type]
    del big
    gc.collect()
    assert seen() is None
    assert registry.named_flow("big") is None


def test_a_flow_is_found_as_long_as_its_function_lives() -> None:
    async def lives(goal: Goal) -> None: ...

    path = Flow(lives).path
    gc.collect()
    assert registry.find_flow(path).fn is lives
    newest = Flow(lives)
    gc.collect()
    assert registry.find_flow(path) is newest
    assert "__perdure_flow__" not in vars(newest)


def test_when_the_newest_is_gone_an_older_flow_can_run() -> None:
    older = answer_with("older")
    answer_with("newer")
    gc.collect()
    registry.require_newest(older)
    assert registry.find_flow(older.path) is older


async def test_two_modules_may_each_have_a_flow_of_one_name(goals: Goals, modules: Path) -> None:
    write(modules, "names_a", waits("a"))
    write(modules, "names_b", waits("b"))
    for name in ("a", "b"):
        with pytest.raises(GoalWaiting):
            await goals.options(key=name).run(load_flow(f"names_{name}:main"))
    for name in ("b", "a"):
        forget("names_a", "names_b")
        (goal,) = await goals.list(key=name)
        await goals.signal(goal.id, "go")
        assert (await goals.resume(goal.id)).value == name


async def test_one_name_in_two_modules_is_refused_for_the_older(goals: Goals, modules: Path) -> None:
    write(modules, "names_a", waits("a", options='(name="report")'))
    write(modules, "names_b", waits("b", options='(name="report")'))
    older, newest = load_flow("names_a:main"), load_flow("names_b:main")
    with pytest.raises(Invalid, match=r"report was defined again.*names_a\.py, line 3.*names_b\.py, line 3"):
        await goals.run(older)
    with pytest.raises(GoalWaiting):
        await goals.run(newest)


async def waiting(goals: Goals, path: str, key: str | None = None) -> str:
    with pytest.raises(GoalWaiting) as parked:
        await goals.options(key=key).run(load_flow(path))
    await goals.signal(parked.value.id, "go")
    return parked.value.id


@pytest.mark.parametrize("options", ["", '(name="report")'])
async def test_code_that_was_moved_is_found_in_imports(goals: Goals, modules: Path, options: str) -> None:
    write(modules, "names_old", waits("old", options=options))
    write(modules, "names_new", waits("new", options=options))
    goal_id = await waiting(goals, "names_old:main")
    forget("names_old")
    (modules / "names_old.py").unlink()
    with pytest.raises(NotFound, match=r"No module names_old.*`imports` \(which is empty\).*--import MODULE"):
        await goals.resume(goal_id)
    goals._runner.contexts.imports = ("names_new",)
    assert (await goals.resume(goal_id)).value == "new"


async def test_a_renamed_function_is_found_by_the_name_of_its_flow(goals: Goals, modules: Path) -> None:
    write(modules, "names_old", waits("old", "main", '(name="report")'))
    goal_id = await waiting(goals, "names_old:main", "k")
    forget("names_old")
    write(modules, "names_old", waits("new", "create_the_report", '(name="report")'))
    renamed = load_flow("names_old:create_the_report")
    assert (await goals.options(key="k").run(renamed)).value == "new"
    assert (await goals.resume(goal_id)).value == "new"


async def test_a_goal_finds_its_flow_when_that_gets_a_name_or_loses_it(goals: Goals, modules: Path) -> None:
    for before, after in (("", '(name="report")'), ('(name="report")', "")):
        write(modules, "names_old", waits("old", options=before))
        goal_id = await waiting(goals, "names_old:main", f"k{before}")
        forget("names_old")
        write(modules, "names_old", waits("new again", options=after))
        assert (await goals.options(key=f"k{before}").run(load_flow("names_old:main"))).value == "new again"
        assert (await goals.resume(goal_id)).value == "new again"
        forget("names_old")


async def test_a_goal_never_gets_the_flow_of_another_name(goals: Goals, modules: Path) -> None:
    write(modules, "names_old", waits("old", options='(name="report")'))
    goal_id = await waiting(goals, "names_old:main", "k")
    forget("names_old")
    write(modules, "names_old", waits("other", options='(name="invoice")'))
    with pytest.raises(NotFound):
        await goals.resume(goal_id)
    with pytest.raises(Conflict, match=r"report \(names_old:main\), and not invoice \(names_old:main\)"):
        await goals.options(key="k").run(load_flow("names_old:main"))


async def test_a_flow_that_two_modules_may_have_taken_over_is_ambiguous(goals: Goals, modules: Path) -> None:
    for name in ("old", "b", "c"):
        write(modules, f"names_{name}", waits(name))
    goal_id = await waiting(goals, "names_old:main")
    forget("names_old")
    (modules / "names_old.py").unlink()
    goals._runner.contexts.imports = ("names_b", "names_c")
    with pytest.raises(Invalid, match=r"names_b:main, names_c:main.*@flow\(name="):
        await goals.resume(goal_id)


async def test_a_module_in_imports_that_is_not_there_or_fails_is_named(goals: Goals, modules: Path) -> None:
    write(modules, "names_old", waits("old"))
    goal_id = await waiting(goals, "names_old:main")
    forget("names_old")
    (modules / "names_old.py").unlink()
    goals._runner.contexts.imports = ("names_nowhere",)
    with pytest.raises(NotFound, match="No module names_nowhere"):
        await goals.resume(goal_id)
    write(modules, "names_fails", "1 / 0")
    goals._runner.contexts.imports = ("names_fails",)
    with pytest.raises(Invalid, match=r"names_fails.*ZeroDivisionError.*line 2"):
        await goals.resume(goal_id)


@pytest.mark.parametrize("name", ["", "a:b", " a", "a\n", "x" * 201, 3])
def test_what_cannot_be_the_name_of_a_flow_is_invalid(name: Any) -> None:
    with pytest.raises(Invalid, match="name of a flow"):
        answer_with("x", name)


def test_a_flow_is_loaded_by_its_name(modules: Path) -> None:
    write(modules, "names_a", waits("a", options='(name="report")') + waits("b", "other"))
    with pytest.raises(NotFound, match=r"No flow 'report' is loaded.*--import MODULE"):
        load_flow("report")
    assert load_flow("report", ["names_a"]).path == "names_a:main"
    assert load_flow("report").path == "names_a:main"
    assert load_flow("other", ["names_a"]).path == "names_a:other"


async def test_children_of_one_factory_never_swap(goals: Goals) -> None:
    first, second = answer_with("first", "first"), answer_with("second", "second")
    older, _newest = answer_with("older"), answer_with("newest")

    @flow
    async def parent(goal: Goal) -> list[str]:
        with pytest.raises(Invalid, match="was defined again"):
            await goal.child(older)
        return [await goal.child(first), await goal.child(second)]

    assert (await goals.run(parent)).value == ["first", "second"]


async def test_a_method_can_be_a_flow(goals: Goals) -> None:
    class Shop:
        async def order(self, goal: Goal) -> str:
            return f"ordered in {goal.id}"

    made = flow(Shop().order)
    assert (await goals.run(made)).value.startswith("ordered in")
