"""`perdure doctor`."""

from dataclasses import asdict
from typing import Annotated

import typer

from perdure.app.home.doctor import Check, examine
from perdure.errors import PerdureError
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.settings import Settings


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "doctor")(doctor)


async def doctor(
    options: Options,
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Restore the private permissions of the home's files.")] = False,
) -> CommandResult:
    """Check settings, files, database, memory and everything else that Perdure depends on."""
    try:
        settings = options.settings()
    except PerdureError as error:
        return _answer([Check("settings", "fail", error.detail, error.exit_code)])
    return await examined(settings, fix=fix)


async def examined(settings: Settings, *, fix: bool = False) -> CommandResult:
    """Check a home; the exit code is that of the first failed check."""
    return _answer(await examine(settings, fix=fix))


def _answer(checks: list[Check]) -> CommandResult:
    data = [{key: value for key, value in asdict(check).items() if key != "exit_code"} for check in checks]
    failed = [check for check in checks if check.status == "fail"]
    return CommandResult(
        {"ok": not failed, "checks": data},
        [Table(["check", "status", "detail"], [[check.name, check.status, check.detail] for check in checks])],
        exit_code=(failed[0].exit_code or 1) if failed else 0,
    )
