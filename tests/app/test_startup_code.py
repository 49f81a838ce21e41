"""Code that runs when Python starts: found by its line, known by the whole of it, and told by the doctor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.app.home.startup_code import pth_code

FINDER = "__editable___shop_1_0_finder"
SETUPTOOLS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == 'local';"
    " enabled and __import__('_distutils_hack').add_shim(); "
)
COVERAGE = (
    r"""import sys; exec('import os\n\nif os.getenv("COVERAGE_PROCESS_START") or os.getenv("COVERAGE_PROCESS_CONFIG")"""
    r""":\n try:\n  import coverage\n except:\n  pass\n else:\n  coverage.process_startup(slug="pth")')"""
)


@pytest.mark.parametrize(
    ("name", "line", "is_known"),
    [
        ("distutils-precedence.pth", SETUPTOOLS, True),
        ("distutils-precedence.pth", f"{SETUPTOOLS}import evil", False),
        ("other.pth", SETUPTOOLS, False),
        ("_virtualenv.pth", "import _virtualenv", True),
        ("_virtualenv.pth", "import _virtualenv; import evil", False),
        (
            "__editable__.shop-1.0.pth",
            "import __editable___shop_1_0_finder; __editable___shop_1_0_finder.install()",
            True,
        ),
        ("__editable__.shop-1.0.pth", f"import {FINDER}; __editable___evil.install()", False),
        ("_shop.pth", "import _editable_impl_shop", True),
        ("a1_coverage.pth", COVERAGE, True),
        ("a1_coverage.pth", f"{COVERAGE}; import evil", False),
        ("shop.pth", "import evil", False),
        ("shop.pth", "import\tevil", False),
    ],
)
def test_a_line_that_runs_is_found_and_known_by_the_whole_of_it(
    tmp_path: Path, name: str, line: str, is_known: bool
) -> None:
    (tmp_path / name).write_text(f"# a comment\n/some/folder\n{line}\n")
    (found,) = pth_code([tmp_path])
    assert (found.path.name, found.line, found.is_known) == (name, 3, is_known)


def test_lines_that_only_name_a_folder_are_not_code(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_text("../shop\nimporting\n#import x\n import x\n")
    (tmp_path / "a.txt").write_text("import evil\n")
    assert list(pth_code([tmp_path, tmp_path / "missing"])) == []


def test_a_line_is_shown_shortened_and_without_control_characters(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_text(f"import x; '\x1b[2J'{'y' * 500}\n")
    (found,) = pth_code([tmp_path])
    assert str(found).startswith(f"{tmp_path / 'a.pth'}, line 1: import x; '?[2J'yyy")
    assert len(str(found)) < len(str(tmp_path)) + 120


@pytest.fixture
def doctor(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python with a user site, where a stranger has left code."""
    ours = Path(__file__).parents[2] / "src"
    return {**os.environ, "PYTHONUSERBASE": str(tmp_path / "base"), "PYTHONPATH": str(ours)}


def checked(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perdure", "doctor", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_the_doctor_warns_of_a_customize_module(doctor: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("")
    told = checked({**doctor, "PYTHONPATH": f"{tmp_path}{os.pathsep}{doctor['PYTHONPATH']}"}, "--json")
    found = {check["name"]: check for check in json.loads(told.stdout)["checks"]}["python-path"]
    assert found["status"] == "warn"
    assert str(tmp_path / "sitecustomize.py") in found["detail"]


def test_the_doctor_has_a_line_on_what_runs_when_python_starts(doctor: dict[str, str]) -> None:
    (line,) = (line for line in checked(doctor).stdout.splitlines() if line.startswith("python-path"))
    assert "runs when Python starts" in line
