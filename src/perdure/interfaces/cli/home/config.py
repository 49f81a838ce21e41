"""`perdure config`."""

from typing import Annotated

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "show")(show)


async def show(
    options: Options,
    *,
    origin: Annotated[bool, typer.Option("--origin", help="Show the origin of each value.")] = False,
) -> CommandResult:
    """Show the effective settings."""
    settings = options.settings()
    entries = settings.entries
    headers = ["setting", "value", *(["origin"] if origin else [])]
    rows = [[entry.name, entry.shown, *([entry.origin] if origin else [])] for entry in entries]
    data = {"settings": [{"name": e.name, "value": e.shown, "origin": e.origin} for e in entries]}
    problems = _problems(settings)
    return CommandResult({**data, "problems": problems}, [Table(headers, rows), *problems])


def _problems(settings: Settings) -> list[str]:
    """Return the errors of the memory settings, which are validated separately because nothing else depends on them."""
    try:
        _ = settings.memory
    except Invalid as error:
        return list(error.errors)
    return []
