"""The tree of commands."""

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
    "chat": "chat.chat",
    "serve": "home.serve",
    "doctor": "home.doctor",
    "demo": "demo",
}
GROUPS: Mapping[str, tuple[str, str]] = {
    "goal": (
        "goals.goal",
        "Goals: show, watch, resume, retry, decide, signal, fork, compare, export, cancel and delete them.",
    ),
    "memory": ("memory.memory", "The memory: add records, find related history, maintain the log."),
    "bot": ("forge.bot", "Bots: show, explain, roll back, verify, export, import and delete them."),
    "draft": ("forge.draft", "Unfinished interviews: list, show, resume and delete them."),
    "skill": ("forge.skill", "Skills: list, show, create, edit and validate them."),
    "choice": (
        "forge.choice",
        "Past answers that Perdure keeps as suggestions for new bots: list, remove and clear them.",
    ),
    "model": ("home.model", "Models: list and test them, store keys, set the default."),
    "token": ("home.token", "The access token for programs, and login URLs for browsers."),
    "db": ("home.db", "The database: migrate, show, verify, back up and restore it."),
    "config": ("home.config", "The settings and their origins."),
}
"""The module of each command. A module is imported only when its command is built, to keep the start-up fast."""


@functools.lru_cache
def build(only: str | None = None) -> TyperGroup:
    """Build the tree of commands; with the first word of a call, only that command or group.

    The result is cached: inspecting the commands takes Typer longer than a short command takes to run.
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
