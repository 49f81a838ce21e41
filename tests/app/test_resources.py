"""The resources name what Forge and the kernel write, and cost a client nothing."""

import subprocess
import sys
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from perdure.app.wire.resources import builder
from perdure.forge import turns
from perdure.forge.assembly import assembly

PAIRS: list[tuple[Any, type[BaseModel]]] = [
    (builder.Option, turns.Option),
    (builder.Suggestion, turns.Suggestion),
    (builder.Preview, turns.Preview),
    (builder.AssemblyResult, assembly.AssemblyResult),
]


@pytest.mark.parametrize(("form", "written"), PAIRS, ids=lambda each: each.__name__)
def test_a_form_has_the_keys_that_forge_writes(form: Any, written: type[BaseModel]) -> None:
    assert form.__annotations__.keys() == written.model_fields.keys()


def test_a_turn_has_the_keys_of_every_kind_of_turn() -> None:
    union, *_ = get_args(turns.BuilderTurn)
    keys = {key for kind in get_args(union) for key in kind.model_fields}
    assert builder.Turn.__annotations__.keys() == keys
    assert builder.Turn.__required_keys__ == {"action"}


def test_the_client_needs_no_resource_until_a_program_names_one() -> None:
    said = (
        "import sys, perdure.client as c; goals = 'perdure.app.wire.resources.goals'; print(goals in sys.modules);"
        " c.GoalDetail; print(goals in sys.modules); print(sorted(c.__all__))"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    names = "['CallProgress', 'Client', 'Event', 'Goal', 'GoalDetail', 'Session', 'Turn']"
    assert done.stdout.splitlines() == ["False", "True", names]


def test_a_list_of_goals_is_shown_without_importing_a_form() -> None:
    said = "import sys, perdure.app.wire.goal_view; print([n for n in sys.modules if n.endswith('resources.goals')])"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
