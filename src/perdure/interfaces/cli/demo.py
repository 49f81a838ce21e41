"""`perdure demo`: see Perdure work, in a temporary home."""

import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import typer

from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.db import listed, migrated
from perdure.interfaces.cli.doctor import examined
from perdure.settings import Settings, load_settings

STEPS: tuple[tuple[str, str, Callable[[Settings], Awaitable[Answer]]], ...] = (
    ("A new home gets its database, in one step that a crash cannot halve:", "perdure db migrate", migrated),
    ("These are its tables:", "perdure db tables", listed),
    ("Everything that Perdure depends on is checked:", "perdure doctor", examined),
)


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "demo")(demo)


async def demo(options: Options) -> Answer:  # noqa: ARG001 (a demo needs no options, and no home of yours)
    """See Perdure work, in a temporary home that is gone afterwards."""
    parts: list[str | Table] = []
    steps = []
    logging.getLogger("perdure").handlers.clear()  # what happens in a demo is no business of your own log
    with tempfile.TemporaryDirectory(prefix="perdure-demo-") as folder:
        settings = load_settings({"home": str(Path(folder) / "home")}, environment={})
        for about, line, step in STEPS:
            answer = await step(settings)
            parts += [about, f"\n  $ {line}\n", *answer.parts, ""]
            steps.append({"command": line, "answer": answer.data})
    parts.append("That was in a temporary home. Yours is made by the first command: perdure db migrate")
    return Answer({"steps": steps}, parts)
