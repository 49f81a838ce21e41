"""`perdure goal export | delete`: take the history of a goal along, and remove it."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals.query import older_than_us
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Invalid, Unavailable
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.confirm import require_sure
from perdure.interfaces.cli.files import write_file
from perdure.interfaces.cli.goals.bulk import DELETE, All, Yes, change_many, is_of_several
from perdure.interfaces.cli.goals.display.timeline import headline
from perdure.interfaces.cli.goals.filters import OF_SEVERAL, with_filters
from perdure.interfaces.cli.goals.flags import BY_HASH, MaybeGoal, SeenGoal
from perdure.interfaces.cli.goals.run_ui.writer import write_out
from perdure.interfaces.cli.output.terminal import one_line
from perdure.kernel.events import Event
from perdure.kernel.history.replay import require_unchanged


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "export", server=BY_HASH)(export)
    command(app, "delete", server="Goals are deleted where their home is; a server deletes old ones by itself.")(delete)


async def export(
    options: Options,
    *,
    goal: SeenGoal,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file; standard output when left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> Answer:
    """Write every event of a goal as one line of JSON, with the payload as it is stored, so that hashes can be checked.

    A file is there wholly or not at all; of a history that was changed, nothing is written (exit 7).
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        goal_id = (await p.goals.find(goal)).summary.goal_id
        events = await p.goals.history(goal_id)
    require_unchanged(events, goal_id)
    data = {"id": goal_id, "events": len(events), "last_hash": events[-1].hash.hex()}
    if output is not None:
        path = Path(os.path.abspath(output.expanduser()))
        write_file(path, "".join(f"{event.line()}\n" for event in events).encode(), force=force)
        return Answer({**data, "path": str(path)}, [f"Wrote {path}: {len(events)} events of {goal_id}."])
    if options.json:
        return Answer({**data, "lines": [event.line() for event in events]})
    _print(events)
    return Answer(data)


def _print(events: Sequence[Event]) -> None:
    """Print events as they are; on a terminal without what could change it.

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
        typer.Option("--older-than", metavar="TIME", help="Finished goals without events for this long: 12h, 30d."),
    ] = None,
    all_: All = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Delete a goal before it has finished, too, if its history is damaged."),
    ] = False,
    yes: Yes = False,
) -> Answer:
    """Delete the history of a finished goal without forks, or of all that match, for good.

    Asks for confirmation on a terminal; elsewhere it needs --yes.
    """
    if is_of_several(goal, filters, is_all=all_, is_narrowed=older_than is not None) or goal is None:
        if force:
            raise Invalid("--force deletes one goal: give its id.")
        now_us = time.time_ns() // 1000
        before_us = now_us if older_than is None else older_than_us(older_than, now_us, "--older-than")
        return await change_many(
            options, DELETE, filters, yes=yes, is_wanted=lambda each: each.summary.updated_us < before_us
        )
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = await p.goals.deletable(goal, force=force)
        if not yes:
            require_sure(options, f"{headline(found)}, {found.summary.last_seq} events")
        goal_id = await p.goals.delete(found.summary.goal_id, force=force)
    return Answer({"id": goal_id, "deleted": True}, [f"{goal_id} is deleted."])
