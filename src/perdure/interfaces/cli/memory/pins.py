"""`perdure memory pins`."""

from typing import Annotated

import typer

from perdure.app.memory.pins import pins_wire, unpinned
from perdure.errors import NotFound
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.memory.records import record_lines
from perdure.interfaces.cli.remote.opened import records_of


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "pins", server=True)(pins)


async def pins(
    options: Options,
    *,
    bot: Annotated[str, typer.Argument(metavar="SLUG", help="The bot; `assistant` is the built-in one.")],
    remove: Annotated[
        str | None,
        typer.Option("--remove", metavar="ID", help="Unpin this record; it stays in the memory. The whole id."),
    ] = None,
) -> CommandResult:
    """List the records that a bot has pinned: they are in each of its prompts."""
    async with records_of(options) as memory:
        found = await memory.reader.pins(bot)
        if remove is not None:
            pin = next((each for each in found if each["id"] == remove), None)
            if pin is None:
                raise NotFound(f"{bot} has not pinned {remove!r}. `perdure memory pins {bot}` lists its pins.")
            answer = await memory.writer.update(remove, unpinned(pin))
            return CommandResult(
                {**answer, "removed": remove}, [f"Unpinned {remove} for {bot}. It stays in the memory."]
            )
    lines = [line for pin in found for line in record_lines(pin)]
    data = pins_wire(found)
    total = [f"{data['bytes']:,} of {data['max_bytes']:,} bytes are used."] if found else []
    return CommandResult(data, [*(lines or [f"{bot} has pinned nothing."]), *total])
