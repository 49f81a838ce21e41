"""The layout of the source: who may import whom, how large things are, and what they are called."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from perdure import failpoints

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "perdure"
MODULES = sorted(SOURCE.rglob("*.py"))

LAYERS = "Who may import whom"
PORTS = "The store sees of a feature only its ports"
SURFACES = "Interfaces reach everything below through app"
SQL = "SQL is in the store"
DRIVERS = "SQLite and PostgreSQL know nothing of each other"
VENDORS = "Only requests to models import pydantic-ai and the packages of vendors"

LONGEST_FOLDER = 12
LONGEST_PORT = 7
LONGEST_CLASS = 300
FORBIDDEN_WORDS = {"Manager", "Service", "Helper", "Util", "Utils", "Base", "Impl"}
FORBIDDEN_MODULES = {"core", "common", "util", "utils", "helper", "helpers"}


@dataclass(frozen=True)
class Violation:
    """One line in one file that breaks one contract."""

    file: str
    line: str
    contract: str


VIOLATIONS = [
    Violation("errors.py", "from perdure import settings", LAYERS),
    Violation("errors.py", "from perdure import failpoints", LAYERS),
    Violation("failpoints.py", "from perdure.settings import Settings", LAYERS),
    Violation("settings.py", "from perdure.store.client import DatabaseClient", LAYERS),
    Violation("store/client.py", "from perdure.app import Perdure", LAYERS),
    Violation("store/client.py", "from perdure.interfaces.cli.command_result import Answer", LAYERS),
    Violation("app.py", "import perdure.interfaces.cli", LAYERS),
    Violation("forge/ports.py", "import perdure.projects.ports", LAYERS),
    Violation("projects/ports.py", "import perdure.forge.ports", LAYERS),
    Violation("projects/vocabulary.py", "from perdure.store import schema", LAYERS),
    Violation("utils.py", '"""A module on no layer."""', LAYERS),
    Violation("helpers/__init__.py", '"""A folder on no layer."""', LAYERS),
    Violation("store/schema/projects.py", "from perdure.projects.vocabulary import TaskStatus as Direct", PORTS),
    Violation("store/schema/types.py", "import perdure.forge.vocabulary", PORTS),
    Violation("store/client.py", "from perdure.memory import log", PORTS),
    Violation("store/client.py", "from perdure.minds.plan.plan_file import read_plan", PORTS),
    Violation("store/goals/rows.py", "import perdure.memory", PORTS),
    Violation("store/sqlite/files.py", "from perdure.bots import folder", PORTS),
    Violation("store/__init__.py", "import perdure.forge", PORTS),
    Violation("store/client.py", "def late() -> None:\n    from perdure.memory import log", PORTS),
    Violation("store/client.py", "def late() -> None:\n    from perdure.bots import folder", PORTS),
    Violation("store/client.py", "def late() -> None:\n    from perdure.forge import state", PORTS),
    Violation("store/client.py", "def late() -> None:\n    import perdure.minds", PORTS),
    Violation("store/client.py", "def late() -> None:\n    from perdure.projects import vocabulary", PORTS),
    Violation("store/client.py", "def late() -> None:\n    from perdure.tools import exec", PORTS),
    Violation("interfaces/cli/home/db.py", "from perdure.store.client import DatabaseClient", SURFACES),
    Violation("interfaces/cli/goals/show.py", "from perdure.kernel.fold import GoalState as Direct", SURFACES),
    Violation("interfaces/cli/forge/bot.py", "from perdure.forge.vocabulary import BotPurpose", SURFACES),
    Violation("interfaces/cli/memory/add.py", "def late() -> None:\n    from perdure.memory import log", SURFACES),
    Violation("interfaces/api/server.py", "def late() -> None:\n    import perdure.tools.files", SURFACES),
    Violation("interfaces/api/routes/bots.py", "from perdure.bots import folder", SURFACES),
    Violation("app.py", "import sqlalchemy", SQL),
    Violation("interfaces/cli/home/db.py", "import sqlite3", SQL),
    Violation("interfaces/cli/home/doctor.py", "def late() -> None:\n    import psycopg", SQL),
    Violation("memory/query/related.py", "import sqlite3", SQL),
    Violation("memory/index/index_db.py", "import sqlalchemy", SQL),
    Violation("settings.py", "from alembic import op", SQL),
    Violation("files/atomic.py", "from perdure.settings import Settings", LAYERS),
    Violation("text/storable.py", "from perdure.files.folders import ensure_folder", LAYERS),
    Violation("store/sqlite/files.py", "import perdure.store.postgres.connection", DRIVERS),
    Violation("store/postgres/database.py", "from perdure.store.sqlite import faults as other", DRIVERS),
    Violation("app/composition.py", "import pydantic_ai", VENDORS),
    Violation("minds/model/providers/client.py", "def late() -> None:\n    import openai", VENDORS),
]


LINTER = """
import contextlib, io, json, sys
from importlinter.cli import lint_imports
for _ in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = lint_imports(no_cache=True, no_logo=True)
    print(json.dumps([code, said.getvalue()]), flush=True)
"""
"""Lints once for each line that it reads: to start import-linter takes longer than to lint."""


@dataclass(frozen=True)
class Linter:
    """A copy of the package beside a copy of its configuration, and a process that lints this copy."""

    package: Path
    process: "subprocess.Popen[str]"

    def lint(self) -> tuple[int, str]:
        """Run import-linter on the copy, not on the package that is installed; return its exit code and its output."""
        asked, told = self.process.stdin, self.process.stdout
        assert asked is not None
        assert told is not None
        asked.write("lint\n")
        asked.flush()
        code, output = json.loads(told.readline())
        return code, output

    @contextmanager
    def broken_by(self, violation: Violation) -> Iterator[None]:
        """Append the line of a violation, and restore the copy afterwards."""
        file = self.package / violation.file
        before = file.read_text(encoding="utf-8") if file.exists() else None
        folder = None if file.parent.exists() else file.parent
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{before or ''}\n{violation.line}\n", encoding="utf-8")
        try:
            yield
        finally:
            if folder is not None:
                shutil.rmtree(folder)
            elif before is None:
                file.unlink()
            else:
                file.write_text(before, encoding="utf-8")


@pytest.fixture(scope="module")
def linter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Linter]:
    """One copy and one process for all violations."""
    folder = tmp_path_factory.mktemp("linted")
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(SOURCE, folder / "perdure", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    with subprocess.Popen(
        [sys.executable, "-c", LINTER],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Linter(folder / "perdure", process)


def broken_contracts(output: str) -> set[str]:
    return {line.partition(" BROKEN")[0] for line in output.splitlines() if " BROKEN" in line}


def test_the_source_keeps_every_contract(linter: Linter) -> None:
    code, output = linter.lint()
    assert code == 0, output
    assert broken_contracts(output) == set()
    assert all(f"{contract} KEPT" in output for contract in (LAYERS, PORTS, SURFACES, SQL, DRIVERS, VENDORS))


@pytest.mark.parametrize("violation", VIOLATIONS, ids=lambda violation: f"{violation.file}: {violation.line}")
def test_a_line_that_breaks_a_layer_breaks_the_build(violation: Violation, linter: Linter) -> None:
    with linter.broken_by(violation):
        code, output = linter.lint()
    assert code == 1, output
    assert violation.contract in broken_contracts(output), output


def test_a_violation_that_was_taken_back_breaks_nothing(linter: Linter) -> None:
    for violation in VIOLATIONS[:2]:
        with linter.broken_by(violation):
            assert linter.lint()[0] == 1
    assert linter.lint()[0] == 0


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def shown(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_no_module_is_longer_than_500_lines() -> None:
    lengths = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > 500} == {}


def test_no_function_is_longer_than_50_lines() -> None:
    lengths = {
        f"{shown(path)}: {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for path in MODULES
        for function in functions(path)
    }
    assert {name: length for name, length in lengths.items() if length > 50} == {}


def classes(path: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)}


def bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0] for base in node.bases}


def methods(node: ast.ClassDef, beside: dict[str, ast.ClassDef]) -> set[str]:
    """Return the methods of a class, with those of classes of the same module that it extends."""
    own = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    return own.union(*(methods(beside[base], beside) for base in bases(node) if base in beside))


def test_no_folder_has_more_than_12_modules() -> None:
    scripts = SOURCE / "store" / "migrations" / "versions"  # one more with every change of the schema
    folders = [path.parent for path in MODULES if path.name != "__init__.py" and path.parent != scripts]
    sizes = {shown(folder): folders.count(folder) for folder in set(folders)}
    assert {name: size for name, size in sizes.items() if size > LONGEST_FOLDER} == {}


def is_composite(node: ast.ClassDef) -> bool:
    """Return whether a port declares no method of its own: it is the sum of others, for the composition root."""
    return not any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)


def test_no_port_has_more_than_7_methods() -> None:
    """A port that only adds up others, such as `GoalStore`, is exempt: what it sums is limited port by port."""
    sizes = {
        f"{shown(path)}: {name}": len(methods(node, found))
        for path in MODULES
        for found in [classes(path)]
        for name, node in found.items()
        if "Protocol" in bases(node) and not is_composite(node)
    }
    assert len(sizes) > 20
    assert {name: size for name, size in sizes.items() if size > LONGEST_PORT} == {}


def test_no_class_is_longer_than_300_lines() -> None:
    lengths = {
        f"{shown(path)}: {name}": (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for name, node in classes(path).items()
    }
    assert {name: size for name, size in lengths.items() if size > LONGEST_CLASS} == {}


DENSE = {
    "app/wire/goal_detail.py wire": "every part of a goal has its own value for a history that cannot be read",
}
"""Functions with a statement of several conditional expressions, each with the reason."""


def conditionals(node: ast.AST) -> int:
    """Count the conditional expressions of a statement, without those of the statements inside it."""
    inner = (ast.stmt, ast.excepthandler, ast.match_case)
    parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, inner)]
    return sum(isinstance(part, ast.IfExp) + conditionals(part) for part in parts)


def dense_functions(path: Path) -> Iterator[str]:
    """Yield the functions with a statement of several conditional expressions, as `path name`."""
    statements = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.stmt))
    for dense in filter(lambda statement: conditionals(statement) > 1, statements):
        around = [each.name for each in functions(path) if dense in ast.walk(each)]
        yield f"{shown(path)} {around[-1] if around else ''}".rstrip()


def test_no_statement_has_two_conditional_expressions() -> None:
    """A chain of conditionals needs two readings; intermediate values with names do not."""
    found = {name for path in MODULES for name in dense_functions(path)}
    assert sorted(found - DENSE.keys()) == []
    assert sorted(DENSE.keys() - found) == [], "no longer dense"


def hits(path: Path) -> Iterator[ast.expr]:
    """What each call of `hit` is given."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("hit", "failpoints.hit"):
            yield node.args[0]


def test_every_fail_point_is_hit_by_the_name_that_it_is_listed_under() -> None:
    named = [ast.literal_eval(argument) for path in MODULES for argument in hits(path)]
    assert set(named) == failpoints.POINTS


@pytest.mark.parametrize("path", MODULES, ids=shown)
def test_every_module_says_what_lives_in_it(path: Path) -> None:
    assert ast.get_docstring(parsed(path))


def test_every_folder_of_modules_is_a_package_that_says_what_lives_in_it() -> None:
    folders = {path.parent for path in MODULES}
    scripts = {SOURCE / "store" / "migrations" / "versions"}  # Alembic reads these by their path
    assert {shown(folder) for folder in folders - scripts if not (folder / "__init__.py").is_file()} == set()


def test_no_class_is_named_after_nothing() -> None:
    names = [node.name for path in MODULES for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef)]
    words = {name: set(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)) for name in names}
    assert names
    assert {name for name in names if words[name] & FORBIDDEN_WORDS} == set()


def test_no_module_is_named_after_nothing() -> None:
    parts = {part for path in MODULES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert parts & FORBIDDEN_MODULES == set()


LEAVES = ("files/", "filelock/", "text/")
"""Where files are made durable and locked, and text from outside is parsed."""
RESERVED = {
    *("os.fsync", "os.fdatasync", "os.replace", "os.rename", "os.link", "os.O_EXCL", "os.O_NOFOLLOW", "os.O_DIRECTORY"),
    *("fcntl.flock", "fcntl.lockf", "json.loads", "json.load"),
    *("yaml.SafeLoader", "yaml.BaseLoader", "yaml.safe_load", "yaml.load"),
    *("tempfile.mkstemp", "tempfile.NamedTemporaryFile", "shutil.copyfile", "shutil.copy", "shutil.move"),
}
EXCEPTIONS = {
    ("memory/log/log.py", "rename"): "the log is swapped under its lock, after its draft was flushed and identified",
    ("memory/log/repair.py", "os.O_EXCL"): "a flag that `open_file` of the memory passes on to `files.opening`",
    ("memory/index/index.py", "replace"): "an index is derived: its side files go between its flush and its name",
    ("tools/exec/forks.py", "replace"): "the note of a forked child is not flushed: after a power cut no child runs",
    (
        "store/migrations/versions/0013_list_conversations.py",
        "json.loads",
    ): "migrations import nothing that changes",
    ("store/backup/restore_plan.py", "rename"): "a database and its side files move together, and are flushed once",
}


def reserved(path: Path) -> Iterator[str]:
    """What a module does that belongs in a leaf; `a.replace(b)` with one argument is that of a path."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in RESERVED:
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
            name = node.func.attr
            is_of_a_path = name == "rename" or (name == "replace" and len(node.args) == 1)
            if is_of_a_path and ast.unparse(node.func.value) != "os":
                yield name


def test_files_are_made_durable_and_text_is_parsed_in_the_leaves_alone() -> None:
    found = {(shown(path), name) for path in MODULES if not shown(path).startswith(LEAVES) for name in reserved(path)}
    assert found == set(EXCEPTIONS)


FLOWS = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Five ways through the code\n")[2]
HOP = re.compile(r"([a-z_/]+\.py):(\w+)|(?<=→ )(\w+)(?= |$)")


def hops(line: str) -> list[tuple[str, str]]:
    """Return the module and function of each hop in one line of the guide; a bare name is of the module before."""
    found: list[tuple[str, str]] = []
    for match in HOP.finditer(line.partition("    ")[0]):
        module, function, bare = match.groups()
        found.append((module, function) if module else (found[-1][0], bare))
    return found


def ways() -> dict[str, list[str]]:
    """Return the lines of each way of the guide, by its title."""
    parts = re.findall(r"^### ([^\n]*)\n\n```\n(.*?)\n```$", FLOWS, re.MULTILINE | re.DOTALL)
    return {title: block.splitlines() for title, block in parts}


def count(title: str, *kinds: str) -> int:
    """Count the hops of a way: those of some kinds of lines, and those of lines of no kind."""
    lines = [(re.match(r"([a-z ]+): ", line), line) for line in ways()[title]]
    return sum(len(hops(line)) for kind, line in lines if kind is None or kind[1] in kinds)


def test_the_guide_names_only_functions_that_exist() -> None:
    named = [hop for lines in ways().values() for line in lines for hop in hops(line)]
    assert len(named) > 150
    defined = {path: {function.name for function in functions(SOURCE / path)} for path in {path for path, _ in named}}
    assert [f"{path}:{name}" for path, name in named if name not in defined[path]] == []


def test_the_guide_shows_five_ways_of_at_most_12_lines() -> None:
    assert len(ways()) == 5
    assert {title: len(lines) for title, lines in ways().items() if len(lines) > 12} == {}
    assert [line for lines in ways().values() for line in lines if not hops(line)] == []


def test_the_table_of_the_guide_counts_its_hops() -> None:
    run, answer, memory, step, event = ways()
    counted = [
        count(run),
        count(answer),
        count(answer, "read first"),
        count(memory, "both", "add"),
        count(memory, "both", "query"),
        count(step, "down"),
        count(step, "up"),
        count(event),
    ]
    assert [int(now) for now in re.findall(r"^\| [^|]+ \| \d+ \| \d+ \| (\d+) \|", FLOWS, re.MULTILINE)] == counted
