"""What a user gets from an installed wheel, not from our checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's files, as an installer would lay them."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("perdure-*.whl")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder / "site")
    return folder / "site"


def perdure(site: Path, cwd: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_works_from_a_wheel_also_when_the_home_is_a_file(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("mine")
    shown = json.loads(perdure(installed, tmp_path, "demo", "--json"))
    assert shown["killed"]["ledger"] == {"reserved ann": 1, "charged ann": 1, "shipped ann": 1}
    assert (tmp_path / "home").read_text() == "mine"


def test_it_is_really_the_wheel_that_runs(installed: Path, tmp_path: Path) -> None:
    program = "import perdure, sys; sys.stdout.write(perdure.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(installed))


def test_the_wheel_is_typed_and_holds_nothing_but_the_package(installed: Path) -> None:
    assert (installed / "perdure" / "py.typed").exists()
    assert sorted(path.name.split("-")[0] for path in installed.iterdir()) == ["perdure", "perdure"]
