"""`perdure choice`: the choices made for earlier bots, from which suggestions are derived."""

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.app.builder.vocabulary import PurposeCategory, purpose_title
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.confirm import require_confirmation
from perdure.interfaces.cli.remote import opened
from perdure.interfaces.cli.remote.opened import builder_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import BotSummary
    from perdure.app.wire.resources.builder import PastChoice

_MOST_BOTS = 1000
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
) -> CommandResult:
    """List the past answers that Perdure keeps as suggestions for new bots, newest first."""
    async with builder_of(options) as builder:
        choices = [choice.wire() for choice in await builder.choices.choices(limit)]
    bots = [bot.wire() for bot in await opened.list_bots(options, limit=_MOST_BOTS)] if choices else []
    known = {bot["slug"]: bot for bot in bots}
    rows = [_row(choice, known.get(choice["bot_slug"] or "")) for choice in choices]
    table = Table(["choice", "bot", "purpose", "tone", "model", "skills"], rows, whole=["choice"])
    return CommandResult({"choices": choices}, [table] if rows else ["No choices are remembered."])


def _row(choice: "PastChoice", bot: "BotSummary | None") -> list[str]:
    """Return the row of a choice. Its purpose is that of its bot; of a deleted bot, only the category is known."""
    has_purpose = bot is not None and bot["category"] == choice["category"]
    title = purpose_title(bot) if bot and has_purpose else PurposeCategory.title_of(choice["category"])
    shown = (choice["id"], choice["bot_slug"], title, choice["tone"], choice["model"])
    return [*(each or "" for each in shown), ", ".join(choice["skills"])]


async def remove(
    options: Options, *, choice: Annotated[str, typer.Argument(metavar="ID", help="The whole id of a choice.")]
) -> CommandResult:
    """Delete one choice; its bot is unchanged."""
    async with builder_of(options) as builder:
        await builder.choices.remove_choice(choice)
    return CommandResult({"removed": 1, "id": choice}, [f"Removed the choice {choice}."])


async def clear(options: Options, *, yes: Yes = False) -> CommandResult:
    """Delete all choices; the bots are unchanged. Asks on a terminal; elsewhere, --yes is required."""
    async with builder_of(options) as builder:
        if not yes:
            require_confirmation(options, "all remembered choices")
        removed = await builder.choices.clear_choices()
    return CommandResult({"removed": removed}, [f"Removed {removed} choices."])
