"""Write the reference pages that are generated from the code: commands, settings, tables, the APIs."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from perdure.interfaces.cli.command import COMMON
from perdure.interfaces.cli.commands import build
from perdure.setting_definitions import DEFINITIONS, Definition
from perdure.store.schema import metadata
from scripts.write_api_reference import api_page
from scripts.write_python_reference import client_page, python_page

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- Written by `make reference`; do not edit. -->\n"


def text_of(page: Path) -> str:
    """Return the text of a generated page."""
    title, write = PAGES[page]
    return f"# {title}\n\n{NOTE}\n{write()}"


def commands(command: Any, path: tuple[str, ...] = ("perdure",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Walk the tree of commands."""
    if hasattr(command, "commands"):
        for name, inner in sorted(command.commands.items()):
            yield from commands(inner, (*path, name))
    else:
        yield path, command


def _commands() -> str:
    tree = build()
    common = {name.replace("_", "-") for name in COMMON}
    parts = [
        "Results go to standard output, all other text to standard error. [Exit codes](errors.md).\n",
        "Options of every command:\n",
        *_options(next(commands(tree))[1], common, is_common=True),
        "\n`perdure --version` prints the version without loading anything else.",
    ]
    documented = [(path, command) for path, command in commands(tree) if path[-1] != "ls"]
    documented.sort(key=lambda each: len(each[0]) > 2)
    for group, members in itertools.groupby(documented, _group):
        parts.append(f"\n## `{group}`")
        if group != "perdure":
            parts.append(f"\n{_as_code(tree.commands[group.split()[1]].help)}")
        for path, command in members:
            parts += _command(path, command, common)
    return "\n".join(parts) + "\n"


def _group(each: tuple[tuple[str, ...], Any]) -> str:
    path, _ = each
    return " ".join(path[:2]) if len(path) > 2 else path[0]


def _command(path: tuple[str, ...], command: Any, common: set[str]) -> list[str]:
    arguments = [_argument(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    own = [
        *(f"- `{_argument(p)}`: {_as_code(p.help)}" for p in command.params if p.param_type_name == "argument"),
        *_options(command, common, is_common=False),
    ]
    heading = f"\n### `{' '.join([*path, *arguments])}`\n"
    alias = f" Short: `{' '.join(path[:-1])} ls`." if path[-1] == "list" else ""
    return [heading, _as_code(command.help) + alias, *(["", *own] if own else [])]


def _as_code(text: str | None) -> str:
    """Return a help text as one line of Markdown, with options and variables as code."""
    line = " ".join((text or "").split())
    return re.sub(
        r"`[^`]*`|(?<![\w-])(--[a-z][a-z-]*|[A-Z]+_[A-Z_]+)(?!\w)", lambda found: f"`{found[0].strip('`')}`", line
    )


def _argument(parameter: Any) -> str:
    name = str(parameter.name).upper()
    if " " in (parameter.metavar or ""):  # an argument of several words, such as [CALL] VALUE
        return str(parameter.metavar)
    return name if parameter.required else f"[{name}]"


def _options(command: Any, common: set[str], *, is_common: bool) -> list[str]:
    options = [p for p in command.params if p.param_type_name == "option"]
    chosen = [p for p in options if (p.opts[0].removeprefix("--") in common) is is_common]
    return [f"- `{', '.join(p.opts)}{' ' + p.metavar if p.metavar else ''}`: {_as_code(p.help)}" for p in chosen]


def _settings() -> str:
    rows = [_setting(definition) for definition in DEFINITIONS]
    return "\n".join(
        [
            "The order of precedence is: flag, environment, `config.toml` in the home, default. Of several variables,",
            "the first that is set applies; an empty variable counts as not set. An unknown key in `config.toml` is an",
            "error. `perdure config show --origin` prints the origin of each value. Files in the current folder are",
            "not read. A name with a dot is a key in a table: `[memory]`, then `enabled = false`. An error in the",
            "table `memory`, or in one of its variables, disables only the memory.\n",
            "| key in `config.toml` | flag, environment | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            'Tables `[models."NAME"]` in `config.toml`, NAME as in `perdure model list`, configure one model:\n',
            "| key | meaning |",
            "|---|---|",
            "| `context_window` | Tokens of a request and its answer together; default: the known value, else 8192. |",
            "| `price` | `{input, output, cache_read?, cache_write?}` in USD per million tokens; default: as known. |",
            "| `api_key` | `secret:NAME`: the key is in the variable NAME, or stored by `perdure model login`. |",
            "",
            "Commands that [use a server](../how-to/share-a-server.md) read these two:\n",
            "| flag | environment | meaning |",
            "|---|---|---|",
            "| `--url` | `PERDURE_URL` | The server to use instead of a home. |",
            "|  | `PERDURE_TOKEN` | The token of that server; `perdure token show` prints it there. |",
            "",
        ]
    )


def _setting(definition: Definition) -> str:
    key = f"`{definition.name}`" + ("" if definition.is_in_config else " (not in `config.toml`)")
    others = [f"`{name}`" for name in (definition.flag, *definition.environment) if name]
    default = str(definition.default(Path("~/.perdure")))
    return f"| {key} | {', '.join(others)} | {f'`{default}`' if default else 'none'} | {definition.help} |"


def _database() -> str:
    parts = [
        "The tables are the same on SQLite and PostgreSQL. Times are microseconds since 1970, UTC. The database",
        "enforces every rule below. Two views join other tables: `task_list` has `depends_on` and `blocked_by`,",
        "`requirement_list` has `linked_features`, each a JSON array in the order of creation.\n",
    ]
    for table in sorted(metadata.tables.values(), key=lambda table: table.name):
        parts.append(f"## `{table.name}`\n")
        parts += ["| column | type | notes |", "|---|---|---|"]
        parts += [f"| `{column.name}` | {_type(column)} | {_about(column)} |" for column in table.columns]
        parts += ["", *_rules(table), ""]
    return "\n".join(parts)


def _type(column: sa.Column[Any]) -> str:
    return {"TEXT": "text", "BIGINT": "integer", "DOUBLE": "real", "BOOLEAN": "flag"}.get(
        str(column.type).split()[0], str(column.type)
    )


def _about(column: sa.Column[Any]) -> str:
    said = ["primary key"] if column.primary_key else []
    said += ["optional"] if column.nullable else []
    if isinstance(column.server_default, sa.DefaultClause):
        default = str(column.server_default.arg).strip("'")
        said.append(f"default `{default}`")
    return ", ".join(said)


def _rules(table: sa.Table) -> list[str]:
    lines = []
    for constraint in table.constraints:
        if isinstance(constraint, sa.CheckConstraint) and constraint._ddl_if is None:  # noqa: SLF001
            lines.append(f"- check: `{constraint.sqltext}`")
        if isinstance(constraint, sa.UniqueConstraint):
            lines.append(f"- unique: `{', '.join(constraint.columns.keys())}`")
        if isinstance(constraint, sa.ForeignKeyConstraint):
            target = ", ".join(element.target_fullname for element in constraint.elements)
            also = "; deleted with it" if constraint.ondelete == "CASCADE" else ""
            lines.append(f"- reference: `{', '.join(constraint.column_keys)}` → `{target}`{also}")
    lines += [
        f"- {'unique index' if index.unique else 'index'} `{index.name}`: "
        f"`{', '.join(column.name for column in index.columns)}`"
        for index in table.indexes
    ]
    return sorted(lines)


PAGES: Mapping[Path, tuple[str, Callable[[], str]]] = {
    REFERENCE / "cli.md": ("Commands", _commands),
    REFERENCE / "settings.md": ("Settings", _settings),
    REFERENCE / "database.md": ("Database", _database),
    REFERENCE / "python.md": ("Python API", python_page),
    REFERENCE / "client.md": ("HTTP client", client_page),
    REFERENCE / "api.md": ("HTTP API", api_page),
}
"""The generated pages, with their titles and what writes their text."""


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(text_of(page), encoding="utf-8")
        print(f"wrote {page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page}")
