"""What `from perdure import …` offers: every name is there, and asking for none of them costs next to nothing."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
import perdure.app
import perdure.app.wire.resources.builder
import perdure.app.wire.resources.memory
import perdure.store
from perdure.app.wire import resources as wire
from perdure.forge import ports as forge_ports
from perdure.kernel import ports as kernel_ports
from scripts.write_python_reference import WORDS
from tests.children import python

_OF_OTHERS = {
    "Callable",
    "Random",
    "UUID",
    "Any",
    "Coroutine",
    "Self",
    "Health",
    "T",
    "None",
    "Path",
    "Iterator",
    "SessionView",
    "DraftView",
    "Changes",
    "ChangedGoals",
    "SkillView",
}
"""What methods return and nobody has to name."""


@pytest.mark.parametrize("name", perdure.store.__all__)
def test_every_name_of_the_stores_imports(name: str) -> None:
    assert getattr(perdure.store, name) is not None


def test_the_package_of_stores_has_every_port_and_value_that_a_store_needs() -> None:
    wanted = {*kernel_ports.__all__, *forge_ports.__all__, "TaskDependencies", "TaskEdge"}
    assert sorted(wanted - set(perdure.store.__all__)) == []
    with pytest.raises(AttributeError, match="Nothing"):
        getattr(perdure.store, "Nothing")  # noqa: B009 (a type checker knows that it is not there)


def test_importing_the_package_of_stores_imports_no_driver() -> None:
    program = "import sys, perdure.store; print([name for name in ('sqlalchemy', 'psycopg') if name in sys.modules])"
    assert python(program) == "[]\n"


def test_importing_the_token_of_a_home_imports_no_store_and_no_kernel() -> None:
    program = (
        "import sys, perdure.app.access.token; heavy = ('perdure.store', 'perdure.kernel', 'sqlalchemy');"
        " print([name for name in sys.modules if name.startswith(heavy)])"
    )
    assert python(program) == "[]\n"


@pytest.mark.parametrize("name", perdure.app.__all__)
def test_every_name_of_the_composition_root_imports(name: str) -> None:
    assert getattr(perdure.app, name) is not None


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_imports_and_says_what_it_is(name: str) -> None:
    found = getattr(perdure, name)
    assert inspect.getdoc(found) or name in WORDS, "the words of a Literal say what they are"


def test_every_name_that_a_section_of_the_reference_has_imports_as_it_says() -> None:
    text = (Path(__file__).parent.parent.parent / "docs/reference/python.md").read_text()
    named = re.findall(r"^(?:## |- )`([A-Za-z]+)`", text, re.MULTILINE)
    returned = re.findall(r" -> (?:Sequence\[)?([A-Z]\w+)", text)
    assert {"GoalView", "Parted", "Replayed", "Effect", "Status"} <= {*named, *returned}
    of_testing = set(perdure.testing.__all__)
    of_wire = {*vars(wire.builder), *vars(wire.memory)}  # JSON objects, which have no class to import
    assert {*named, *returned} - _OF_OTHERS - of_testing - of_wire <= set(perdure.__all__)


def test_the_names_of_flows_are_public() -> None:
    from perdure import Event, Goal, GoalResult, GoalStatus, Perdure, StepFailed, current_step, flow

    assert {Event, Goal, GoalResult, GoalStatus, Perdure, StepFailed, flow, current_step}


def test_dir_lists_exactly_the_public_names() -> None:
    assert dir(perdure) == perdure.__all__
    assert dir(perdure.store) == sorted(perdure.store.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        _ = perdure.nothing_of_the_kind  # type: ignore[attr-defined]


def test_importing_perdure_alone_loads_nothing_else() -> None:
    loaded = python(
        "import sys; before = set(sys.modules); import perdure; print(*sorted(set(sys.modules) - before))"
    ).split()
    assert [name for name in loaded if name.startswith("perdure")] == ["perdure"]
    assert {name.partition(".")[0] for name in loaded} - {"perdure"} <= sys.stdlib_module_names
    assert {"asyncio", "inspect", "logging"} & set(loaded) == set()


def test_defining_a_flow_loads_no_database() -> None:
    loaded = python("import sys; from perdure import flow, Goal; print(*sorted(sys.modules))").split()
    assert {"sqlalchemy", "sqlite3", "alembic", "typer", "rich", "yaml"} & set(loaded) == set()


def test_opening_a_database_loads_none_of_the_types_of_forge() -> None:
    """Its ports are imported by whoever opens a database, and pydantic would take longer than all the rest."""
    program = (
        "import asyncio, sys; from perdure import DatabaseClient;"
        " import perdure.store.schema, perdure.store.builder.bots;"
        " asyncio.run(asyncio.wait_for(DatabaseClient.create(':memory:'), 60)).close().close(); print(*sys.modules)"
    )
    loaded = python(program).split()
    assert "perdure.forge.ports" in loaded
    assert {"pydantic", "pydantic_core"} & set(loaded) == set()


def test_listing_goals_loads_nothing_of_forge() -> None:
    program = (
        "import sys; sys.argv = ['perdure', 'goal', 'list'];\nfrom perdure.interfaces.cli import main\n"
        "try: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    )
    loaded = python(program).split()
    assert "sqlite3" in loaded
    assert not [name for name in loaded if name.startswith(("pydantic", "perdure.forge.", "perdure.bots."))]


def test_a_flow_with_plain_annotations_runs_without_pydantic_yaml_or_archives(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "import asyncio, sys\n"
        "from perdure import Goal, Perdure, flow\n"
        "async def double(number: int) -> dict[str, int]:\n"
        "    return {'doubled': 2 * number}\n"
        "@flow\n"
        "async def doubling(goal: Goal, number: int) -> int:\n"
        "    return (await goal.step(double, number))['doubled']\n"
        "async def main() -> None:\n"
        f"    async with Perdure.open({str(tmp_path / 'home')!r}) as p:\n"
        "        print((await p.goals.run(doubling, 21)).value)\n"
        "    print([name for name in ('pydantic', 'yaml', 'tarfile', 'sqlalchemy') if name in sys.modules])\n"
        "asyncio.run(main())\n"
    )
    program = [sys.executable, str(tmp_path / "plain.py")]
    made = subprocess.run(program, capture_output=True, text=True, check=True)
    assert made.stdout.startswith("42\n"), "it makes the database, by Alembic"
    again = subprocess.run(program, capture_output=True, text=True, check=True)
    assert again.stdout == "42\n[]\n"
