"""`perdure choice`: what was chosen for earlier bots, which suggestions are made of."""

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.forge.vocabulary import PurposeCategory
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.confirm import require_sure
from perdure.interfaces.cli.remote.opened import builder_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.builder import PastChoice

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=True)(list_choices)
    command(app, "ls", server=True)(list_choices)
    for fn in (remove, clear):
        command(app, fn.__name__, server=True)(fn)


async def list_choices(
    options: Options,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of choices.")] = 50,
) -> Answer:
    """List what was chosen for bots, the newest first."""
    async with builder_of(options) as builder:
        choices = [choice.wire() for choice in await builder.choices.choices(limit)]
    rows = [_row(choice) for choice in choices]
    table = Table(["choice", "bot", "category", "tone", "model", "skills"], rows, whole=["choice"])
    return Answer({"choices": choices}, [table] if rows else ["No choices are remembered."])


def _row(choice: "PastChoice") -> list[str]:
    title = PurposeCategory.title_of(choice["category"])
    shown = (choice["id"], choice["bot_slug"], title, choice["tone"], choice["model"])
    return [*(each or "" for each in shown), ", ".join(choice["skills"])]


async def remove(
    options: Options, *, choice: Annotated[str, typer.Argument(metavar="ID", help="The whole id of a choice.")]
) -> Answer:
    """Forget one choice; the bot stays as it is."""
    async with builder_of(options) as builder:
        await builder.choices.remove_choice(choice)
    return Answer({"removed": 1, "id": choice}, [f"Removed the choice {choice}."])


async def clear(options: Options, *, yes: Yes = False) -> Answer:
    """Forget all choices; the bots stay as they are. Asks on a terminal, needs --yes elsewhere."""
    async with builder_of(options) as builder:
        if not yes:
            require_sure(options, "all remembered choices")
        removed = await builder.choices.clear_choices()
    return Answer({"removed": removed}, [f"Removed {removed} choices."])
