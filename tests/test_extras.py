"""The printed commands that install extras."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perdure.extras import install_command

EXTRAS = tomllib.loads(Path("pyproject.toml").read_text())["project"]["optional-dependencies"]


def package(requirement: str) -> str:
    """Return the package of a requirement with its own extras, without the version."""
    found = re.match(r"[\w.-]+(\[[\w,]+\])?", requirement)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("extra", ["postgres", "models", "anthropic", "google", "local"])
def test_the_command_names_this_interpreter_and_every_requirement_and_never_the_package_itself(extra: str) -> None:
    command = shlex.split(install_command(extra))
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    named = {package(requirement) for requirement in command[4:]}
    own = {package(requirement) for requirement in EXTRAS[extra]} - {"perdure[models]"}
    assert own <= named
    assert "perdure" not in {each.partition("[")[0] for each in named}


def test_the_command_runs() -> None:
    offline = ["--no-index", "--dry-run", "--disable-pip-version-check"]  # here they are installed
    command = [*shlex.split(install_command("models", "PyYAML")), *offline]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
