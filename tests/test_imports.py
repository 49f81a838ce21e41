"""Imports at run time: no cycles, and those inside functions have a reason."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src"

SLOW = {
    "alembic": "needed for migrations only",
    "fastapi": "needed by the server only",
    "genai_prices": "an extra, which may be absent",
    "prompt_toolkit": "needed for questions on a terminal only",
    "psycopg": "an extra, which may be absent",
    "pydantic_ai": "an extra, which may be absent, and slow to import",
    "pydantic": "needed for annotations that no plain reader understands",
    "questionary": "needed for questions on a terminal only",
    "rich": "needed on a terminal only",
    "sqlalchemy": "not needed for events, which use the driver's connection",
    "tomlkit": "needed to write settings and bots only",
    "uuid_utils": "needed by writers only",
    "xllamacpp": "an extra, which may be absent",
    "yaml": "needed for plans and skills only",
}
"""Libraries whose import would delay commands that do not need them, and who needs them."""

HIDDEN: Mapping[str, frozenset[str]] = {
    "start-up: `--version` imports nothing": frozenset(
        {"interfaces.cli -> interfaces.cli.errors", "interfaces.cli -> interfaces.cli.signals"}
    ),
    "start-up: goals that are no flow load nothing of flows": frozenset(
        {
            "app.goals.updates.skipped_values -> minds.flow.mind",
            "app.goals.updates.skipped_values -> minds.flow.values.values",
            "app.home.script_interrupts -> minds.flow.scripts",
            "app.workers.children -> app.workers.flows",
            "app.workers.children -> minds.flow.values.values",
            "app.workers.run_context -> app.workers.flows",
            "interfaces.cli.goals.run_ui.flows -> app.workers.flows",
            "interfaces.cli.home.serve -> app.workers.flows",
        }
    ),
    "start-up: a server and its client are loaded with --url only, a home without it only": frozenset(
        {
            "interfaces.cli.goals.decisions -> interfaces.cli.remote.runs",
            "interfaces.cli.goals.goal -> interfaces.cli.remote.runs",
            "interfaces.cli.goals.retry -> interfaces.cli.remote.runs",
            "interfaces.cli.goals.run -> interfaces.cli.remote.runs",
            "interfaces.cli.goals.watch -> interfaces.cli.remote.following",
            "interfaces.cli.remote.opened -> app",
            "interfaces.cli.remote.opened -> app.builder.list_views",
            "interfaces.cli.remote.opened -> interfaces.cli.remote.connection",
            "interfaces.cli.remote.opened -> interfaces.cli.remote.goals",
            "interfaces.cli.remote.opened -> interfaces.cli.remote.ports.goals",
        }
    ),
    "start-up: commands that only read goals load no minds": frozenset(
        {
            "app.goals.options -> app.goals.new_goal",
            "app.workers.children -> app.goals.new_goal",
            "app.workers.run_context -> minds.factory",
            "interfaces.cli.goals.run_ui.flows -> app.goals.new_goal",
        }
    ),
    "start-up: this part of a home is not used by most programs": frozenset(
        {
            "app.composition -> app.goals.arguments.policies",
            "app.composition -> store.backup.restore",
            "app.composition -> store.idempotency",
            "app.goals.goals -> app.workers.app_worker",
            "app.memory.memory -> app.idempotency",
            "interfaces.cli.completion -> app.builder.list_views",
            "interfaces.cli.goals.run_ui.asker -> rich.console",
            "testing.home -> testing.goals",
        }
    ),
    "start-up: git, reports and sections are read when an option asks for them": frozenset(
        {
            "app.memory.arguments -> memory.ingest.git",
            "app.memory.repositories -> memory.ingest.git",
            "interfaces.cli.memory.find -> interfaces.cli.memory.sections",
            "interfaces.cli.memory.ingest -> app.memory.goal_ingest",
            "interfaces.cli.memory.ingest -> app.memory.sources",
            "interfaces.cli.remote.records -> app.memory.sources",
        }
    ),
    "start-up: one kind of database does not load the adapter of the other": frozenset(
        {
            "store.backup.restore -> store.postgres.restore_tables",
            "store.backup.restore_plan -> store.postgres.restore_tables",
            "store.client -> store.goals.postgres",
            "store.client -> store.goals.sqlite",
            "store.client -> store.postgres.database",
            "store.client -> store.sqlite.file_database",
            "store.client -> store.sqlite.files",
            "store.client -> store.sqlite.memory_database",
        }
    ),
    "a state store that is given a path makes the client, which makes state stores": frozenset(
        {"store.goals.sql_state_store -> store.on_demand"}
    ),
    "a flow, the registry that holds it and the goal that it is given refer to each other": frozenset(
        {"minds.flow.children -> minds.flow.flow", "minds.flow.registry -> minds.flow.flow"}
    ),
    "a library that is needed for one kind of annotation, or in a forked child only": frozenset(
        {"minds.flow.values.hints -> typing_extensions", "store.sqlite.connection -> ctypes"}
    ),
    "the package of a vendor, an extra that may be absent": frozenset(
        {
            "minds.model.providers.requests.connections -> pydantic_ai.models.anthropic",
            "minds.model.providers.requests.connections -> pydantic_ai.models.google",
            "minds.model.providers.requests.connections -> pydantic_ai.providers.anthropic",
            "minds.model.providers.requests.connections -> pydantic_ai.providers.google",
        }
    ),
}
"""Imports inside functions that load no slow library, by reason."""


def name_of(path: Path) -> str:
    """Return the dotted name of a module."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name_of(path): path for path in sorted((ROOT / "perdure").rglob("*.py"))}


@dataclass
class Imports:
    """What a module imports when it is imported, and what its functions import when they run."""

    at_top: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        yield whole if whole in PATHS else str(node.module)


def collect(node: ast.AST, found: Imports, *, is_inside: bool = False) -> Imports:
    for child in ast.iter_child_nodes(node):
        if is_for_type_checkers(child):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            (found.hidden if is_inside else found.at_top).update(targets(child))
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        collect(child, found, is_inside=is_inside or is_function)
    return found


@cache
def imports() -> dict[str, Imports]:
    """Return the imports of every module of the package."""
    return {name: collect(ast.parse(path.read_text(encoding="utf-8")), Imports()) for name, path in PATHS.items()}


def with_packages(name: str) -> Iterator[str]:
    """Return a module and the packages that Python imports before it."""
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def loaded_by(name: str) -> set[str]:
    """Return everything that the import of a module imports, itself included."""
    seen: set[str] = set()
    waiting = list(with_packages(name))
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        if module in imports():
            waiting += [each for target in imports()[module].at_top for each in with_packages(target)]
    return seen


def libraries(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names} & SLOW.keys()


def short(name: str) -> str:
    return name.removeprefix("perdure.")


def hidden_imports() -> Iterator[str]:
    """Return the imports inside functions that load no slow library, as `importer -> imported`."""
    for importer, found in imports().items():
        already = libraries(loaded_by(importer)) if found.hidden else set()
        for imported in sorted(found.hidden):
            if not libraries(loaded_by(imported)) - already:
                yield f"{short(importer)} -> {short(imported)}"


def test_no_module_imports_itself_over_others() -> None:
    graph = {name: found.at_top & PATHS.keys() for name, found in imports().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"import cycle: {' <- '.join(error.args[1])}") from None


def test_every_import_inside_a_function_has_a_reason() -> None:
    """One that loads a slow library for the first time has that reason; every other one is listed with its own."""
    listed = [each for those in HIDDEN.values() for each in those]
    found = list(hidden_imports())
    assert len(listed) == len(set(listed))
    assert set(found) - set(listed) == set(), "move these to the top of their module, or list them with a reason"
    assert set(listed) - set(found) == set(), "these are not there any more"
