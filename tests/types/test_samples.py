"""What the type checkers say of sample code: nothing of the right files, and one line of each wrong one.

A wrong file has one mistake, on the line that ends with `# error`. Each checker runs once over all files, because it is
slow to start.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import Goal

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "# error"
CACHE = ROOT / ".mypy_cache" / "samples"
"""Kept, because the first run of mypy reads all that we import."""
NEEDS = {"children.py": "child", "child_argument.py": "child", "child_value.py": "child"}
"""Samples of methods that `Goal` may not have yet."""
PYRIGHT = {
    "typeCheckingMode": "recommended",
    "extraPaths": [str(ROOT / "src")],
    "reportUnusedCallResult": False,  # assert_type returns its argument
    "reportExplicitAny": False,  # the result of a command line is Any, and is written so
}


def samples() -> Iterator[Path]:
    for path in sorted([*HERE.glob("right/*.py"), *HERE.glob("wrong/*.py")]):
        if path.name not in NEEDS or hasattr(Goal, NEEDS[path.name]):
            yield path


def marked(path: Path) -> set[int]:
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {number for number, line in lines if line.endswith(MARK)}


def run(*command: str) -> str:
    ended = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    return ended.stdout


def by_mypy(folder: Path) -> Iterator[tuple[str, int, str]]:
    config = folder / "mypy.ini"
    config.write_text("[mypy]\nstrict = true\nwarn_unreachable = true\n")
    options = ["--config-file", str(config), "--cache-dir", str(CACHE), "--output", "json"]
    for line in run("mypy", *options, *map(str, samples())).splitlines():
        if line.startswith("{") and (found := json.loads(line))["severity"] == "error":
            yield found["file"], found["line"], found["message"]


def by_basedpyright(folder: Path) -> Iterator[tuple[str, int, str]]:
    config = folder / "pyrightconfig.json"
    config.write_text(json.dumps({**PYRIGHT, "include": [*map(str, samples())]}))
    output = run("basedpyright", "--project", str(config), "--pythonpath", sys.executable, "--outputjson")
    for found in json.loads(output)["generalDiagnostics"]:
        yield found["file"], found["range"]["start"]["line"] + 1, found["message"]


def test_every_wrong_sample_has_one_mistake_and_no_right_one_has_any() -> None:
    for path in samples():
        assert len(marked(path)) == (path.parent.name == "wrong"), path
        assert "type: ignore" not in path.read_text(), path


@pytest.mark.parametrize("checker", [by_mypy, by_basedpyright], ids=["mypy", "basedpyright"])
def test_the_checker_finds_the_mistakes_and_nothing_else(
    checker: Callable[[Path], Iterator[tuple[str, int, str]]], tmp_path: Path
) -> None:
    expected = {str(path.relative_to(HERE)): marked(path) for path in samples()}
    found: dict[str, set[int]] = {name: set() for name in expected}
    messages = []
    for file, line, message in checker(tmp_path):
        name = str((ROOT / file).relative_to(HERE))
        found[name].add(line)
        messages.append(f"{name}:{line}: {message}")
    assert found == expected, "\n".join(messages)
