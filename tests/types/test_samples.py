"""What the type checkers say of sample code: nothing of the right files, and one line of each wrong one.

A wrong file has one mistake, on the line that ends with `# error`. Each checker runs once over all files, because it is
slow to start, and both run at the same time. mypy has the configuration and the cache of `make check`: it reads all
that the samples import only if nothing has done so before.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MARK = "# error"
PYRIGHT = {
    "typeCheckingMode": "recommended",
    "extraPaths": [str(ROOT / "src")],
    "reportUnusedCallResult": False,  # assert_type returns its argument
    "reportExplicitAny": False,  # the result of a command line is Any, and is written so
}


def samples() -> list[Path]:
    return sorted([*HERE.glob("right/*.py"), *HERE.glob("wrong/*.py")])


def marked(path: Path) -> set[int]:
    lines = enumerate(path.read_text().splitlines(), start=1)
    return {number for number, line in lines if line.endswith(MARK)}


def start(*command: str) -> "subprocess.Popen[str]":
    whole = [sys.executable, "-m", *command]
    return subprocess.Popen(whole, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(checker: "subprocess.Popen[str]") -> str:
    out, errors = checker.communicate()
    assert checker.returncode in (0, 1), out + errors
    return out


def by_mypy(output: str) -> Iterator[tuple[str, int, str]]:
    for line in output.splitlines():
        if line.startswith("{") and (found := json.loads(line))["severity"] == "error":
            yield found["file"], found["line"], found["message"]


def by_basedpyright(output: str) -> Iterator[tuple[str, int, str]]:
    for found in json.loads(output)["generalDiagnostics"]:
        yield found["file"], found["range"]["start"]["line"] + 1, found["message"]


def require_marked_lines(diagnostics: Iterator[tuple[str, int, str]]) -> None:
    """Check that what a checker has found are the marked lines."""
    expected = {str(path.relative_to(HERE)): marked(path) for path in samples()}
    found: dict[str, set[int]] = {name: set() for name in expected}
    messages = []
    for file, line, message in diagnostics:
        name = str((ROOT / file).relative_to(HERE))
        found[name].add(line)
        messages.append(f"{name}:{line}: {message}")
    assert found == expected, "\n".join(messages)


def test_every_wrong_sample_has_one_mistake_and_no_right_one_has_any() -> None:
    for path in samples():
        assert len(marked(path)) == (path.parent.name == "wrong"), path
        assert "type: ignore" not in path.read_text(), path


def test_the_checkers_find_the_mistakes_and_nothing_else(tmp_path: Path) -> None:
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({**PYRIGHT, "include": [*map(str, samples())]}))
    basedpyright = start("basedpyright", "--project", str(config), "--pythonpath", sys.executable, "--outputjson")
    mypy = start("mypy", "--output", "json", *map(str, samples()))
    outputs = output_of(mypy), output_of(basedpyright)
    require_marked_lines(by_mypy(outputs[0]))
    require_marked_lines(by_basedpyright(outputs[1]))
