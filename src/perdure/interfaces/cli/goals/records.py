"""`perdure goal export | delete`: write the history of a goal into a file, and delete goals."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals.query import older_than_us
from perdure.app.goals.values import Event
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Invalid, Unavailable
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.confirm import require_confirmation
from perdure.interfaces.cli.files import write_file
from perdure.interfaces.cli.goals.bulk import DELETE, AllFinished, Yes, change_many, selects_several
from perdure.interfaces.cli.goals.display.timeline import headline
from perdure.interfaces.cli.goals.filters import OF_SEVERAL, with_filters
from perdure.interfaces.cli.goals.flags import BY_HASH, MaybeGoal, SeenGoal
from perdure.interfaces.cli.goals.run_ui.writer import write_out
from perdure.interfaces.cli.output.terminal import one_line


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "export", server=BY_HASH)(export)
    command(app, "delete", server="Run it on the machine of the home; a server deletes old goals by its settings.")(
        delete
    )


async def export(
    options: Options,
    *,
    goal: SeenGoal,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file (default: standard output).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> CommandResult:
    """Write every event of a goal as one line of JSON, with the stored payload, so that hashes can be verified.

    A file is written completely or not at all. A history that was changed is not exported (exit 7).
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        goal_id = (await p.goals.find(goal)).summary.goal_id
        events = await p.goals.unchanged_history(goal_id)
    data = {"id": goal_id, "events": len(events), "last_hash": events[-1].hash.hex()}
    if output is not None:
        path = Path(os.path.abspath(output.expanduser()))
        write_file(path, "".join(f"{event.line()}\n" for event in events).encode(), force=force)
        return CommandResult({**data, "path": str(path)}, [f"Wrote {path}: {len(events)} events of {goal_id}."])
    if options.json:
        return CommandResult({**data, "lines": [event.line() for event in events]})
    _print(events)
    return CommandResult(data)


def _print(events: Sequence[Event]) -> None:
    """Print events unchanged; on a terminal, escape control characters.

    Raises: Unavailable
    """
    is_terminal = sys.stdout.isatty()
    lines = [one_line(event.line()) if is_terminal else event.line() for event in events]
    try:
        write_out("".join(f"{line}\n" for line in lines), sys.stdout)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unavailable(f"Standard output cannot be written: {error.strerror}.") from error


@with_filters(OF_SEVERAL)
async def delete(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    filters: GoalFilters,
    goal: MaybeGoal = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Only finished goals without events for this long: 12h, 30d."
        ),
    ] = None,
    all_: AllFinished = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Delete a damaged goal even if it has not finished."),
    ] = False,
    yes: Yes = False,
) -> CommandResult:
    """Permanently delete the history of a finished goal without forks, or of all such goals that match.

    Asks for confirmation on a terminal; elsewhere, --yes is required.
    """
    if selects_several(goal, filters, is_all=all_, is_narrowed=older_than is not None) or goal is None:
        if force:
            raise Invalid("--force applies to one goal: pass its id.")
        now_us = time.time_ns() // 1000
        before_us = now_us if older_than is None else older_than_us(older_than, now_us, "--older-than")
        return await change_many(
            options, DELETE, filters, yes=yes, is_selected=lambda each: each.summary.updated_us < before_us
        )
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.deletable(goal, force=force)
        if not yes:
            require_confirmation(options, f"{headline(found)}, {found.summary.last_seq} events")
        goal_id = await p.goals.delete(found.summary.goal_id, force=force)
    return CommandResult({"id": goal_id, "deleted": True}, [f"{goal_id} is deleted."])
