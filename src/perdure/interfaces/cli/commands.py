"""The tree of commands: noun, then verb."""

import functools
import importlib
from collections.abc import Mapping
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from perdure import __version__
from perdure.interfaces.cli.command import group

_HERE = "perdure.interfaces.cli"

COMMANDS: Mapping[str, str] = {
    "new": "forge.new",
    "run": "goals.run",
    "serve": "home.serve",
    "doctor": "home.doctor",
    "demo": "demo",
}
GROUPS: Mapping[str, tuple[str, str]] = {
    "goal": (
        "goals.goal",
        "Goals: show, watch, resume, retry, decide, signal, fork, compare, export, cancel and delete them.",
    ),
    "memory": ("memory.memory", "The memory: add records, find related history, keep the log in order."),
    "bot": ("forge.bot", "Bots: look at them, explain them, take changes back, take them along."),
    "draft": ("forge.draft", "Interviews that are not finished: list, show, go on, delete."),
    "skill": ("forge.skill", "Skills: list, show, create, edit and validate them."),
    "choice": ("forge.choice", "What was chosen for earlier bots, for suggestions: list, remove, clear."),
    "model": ("home.model", "Models: list them, try one, store keys, choose the default."),
    "token": ("home.token", "The token that programs show to the server, and URLs for browsers."),
    "db": ("home.db", "The database: migrate, look, verify, back up, restore."),
    "config": ("home.config", "The settings and where each came from."),
}
"""Where each lives. A module is imported when it is put into the tree, because start-up time is a feature."""


@functools.lru_cache
def build(only: str | None = None) -> TyperGroup:
    """Put all commands together; when the first word of a call is known, only what that word names.

    Typer takes longer to examine the commands than a short one takes to run: a process that calls several keeps them.
    """
    is_wanted = {only} if only in COMMANDS or only in GROUPS else {*COMMANDS, *GROUPS}
    app = group("A home for AI agents that cannot lose their work.")
    app.callback()(_root)
    for name, module in COMMANDS.items():
        if name in is_wanted:
            importlib.import_module(f"{_HERE}.{module}").register(app)
    for name, (module, about) in GROUPS.items():
        if name in is_wanted:
            inner = group(about)
            importlib.import_module(f"{_HERE}.{module}").register(inner)
            app.add_typer(inner, name=name)
    return cast("TyperGroup", typer.main.get_command(app))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"perdure {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass
