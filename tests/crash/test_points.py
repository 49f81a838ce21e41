"""Every fail-point is one at which some test dies: a new one without such a test is found here."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from perdure import failpoints
from tests.app import test_bot_memory
from tests.crash import (
    test_assembly,
    test_backup,
    test_database,
    test_exhaustion,
    test_forked_steps,
    test_kill_children,
    test_kill_files,
)
from tests.kernel import test_faults
from tests.memory import test_kill

FAULTS = (
    test_assembly,
    test_backup,
    test_bot_memory,
    test_database,
    test_exhaustion,
    test_faults,
    test_forked_steps,
    test_kill,
    test_kill_children,
    test_kill_files,
)
"""Each of their tests that is given a `point` fails when that point is not reached."""


def points_in(module: ModuleType) -> Iterator[str]:
    """Return what the tests of a module are given as their point."""
    for name, test in vars(module).items():
        for mark in getattr(test, "pytestmark", []) if name.startswith("test_") else []:
            names, values, *_ = mark.args if mark.name == "parametrize" else ("", ())
            if "point" in names:
                place = None if isinstance(names, str) else list(names).index("point")
                yield from (value if place is None else value[place] for value in values)


def test_every_fail_point_is_one_at_which_some_test_dies() -> None:
    assert not failpoints.POINTS - {point for module in FAULTS for point in points_in(module)}


def test_every_fail_point_is_hit_somewhere_in_the_product() -> None:
    source = Path(failpoints.__file__).parent
    text = "\n".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    assert set(re.findall(r'failpoints\.hit\("([^"]+)"\)', text)) == failpoints.POINTS
