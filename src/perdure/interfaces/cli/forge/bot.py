"""`perdure bot`: the bots of a home, or of a server."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.app.builder.vocabulary import purpose_title
from perdure.errors import Damaged
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.completion import complete_bots
from perdure.interfaces.cli.confirm import require_confirmation
from perdure.interfaces.cli.files import write_file
from perdure.interfaces.cli.remote import opened
from perdure.interfaces.cli.remote.opened import bots_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import Bot

_LONGEST = 240

Slug = Annotated[str, typer.Argument(metavar="SLUG", help="The bot.", autocompletion=complete_bots)]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=True)(list_bots)
    command(app, "ls", server=True)(list_bots)
    command(app, "import", server=True)(import_bot)
    for fn in (show, explain, versions, rollback, verify, export, delete):
        command(app, fn.__name__, server=True)(fn)


async def list_bots(
    options: Options,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of entries.")] = 50,
) -> CommandResult:
    """List the bots of a home or server."""
    bots = [bot.wire() for bot in await opened.list_bots(options, limit=limit)]
    rows = [[each["slug"], each["name"], purpose_title(each), str(each["version"])] for each in bots]
    parts: list[str | Table] = [Table(["bot", "name", "purpose", "version"], rows, whole=["bot"])] if rows else []
    return CommandResult({"bots": bots}, parts or ["There are no bots yet. `perdure new` creates one."])


async def show(
    options: Options,
    *,
    slug: Slug,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print only the prompt for a model.")] = False,
) -> CommandResult:
    """Show the current files of a bot, including edits by hand, or only its prompt."""
    async with bots_of(options) as bots:
        bot = (await bots.reader.details(slug)).wire()
    edits = [f"Edited by hand:\n{text}" for text in bot["edits"].values()]
    table = Table([bot["slug"], ""], _bot_rows(bot))
    parts: list[str | Table] = [bot["prompt"].removesuffix("\n")] if prompt else [table, *edits]
    return CommandResult(bot, parts)


def _bot_rows(bot: "Bot") -> list[list[str]]:
    """Return the titles and values of a bot."""
    model = bot["model_config"]
    answers = f"{model['model']}, temperature {model['temperature']:g}, up to {model['max_tokens']} tokens"
    return [
        ["name", bot["name"]],
        ["version", f"{bot['version']}, created {bot['updated_at'][:19]} (UTC)"],
        ["for", textwrap.shorten(bot["purpose"], _LONGEST, placeholder="…")],
        ["purpose", purpose_title(bot)],
        ["tone", bot["tone"]],
        ["traits", ", ".join(bot["traits"])],
        ["holds to", "; ".join(rule.rstrip(".") for rule in bot["boundaries"]) or "nothing special"],
        ["model", answers],
        ["skills", ", ".join(bot["skills"]) or "none"],
        ["folder", bot["folder"]],
    ]


async def explain(
    options: Options,
    *,
    slug: Slug,
    place: Annotated[str, typer.Argument(metavar="FILE:LINE", help="A line of a file, for example SOUL.md:12.")],
) -> CommandResult:
    """Show the source of a line: the question and the answer it came from."""
    async with bots_of(options) as bots:
        explained = await bots.reader.explain(slug, place)
    found = explained.explanation
    return CommandResult(explained.wire(), [f"{found.path}:{found.line}  {found.text}", found.sentence])


async def versions(options: Options, *, slug: Slug) -> CommandResult:
    """List the versions of a bot, newest first, each with the files edited by hand since the version before it."""
    async with bots_of(options) as bots:
        found = [version.wire() for version in await bots.reader.versions(slug)]
    rows = [
        [str(each["number"]), each["state"], each["origin"], each["created_at"][:19], ", ".join(each["hand_edits"])]
        for each in found
    ]
    titles = ["version", "state", "by", "created (UTC)", "edited by hand"]
    return CommandResult({"slug": slug, "versions": found}, [Table(titles, rows)])


async def rollback(
    options: Options,
    *,
    slug: Slug,
    version: Annotated[int, typer.Argument(min=1, metavar="VERSION", help="The version to restore.")],
) -> CommandResult:
    """Restore an earlier version of a bot as a new version; files edited by hand are kept as NAME.old."""
    async with bots_of(options) as bots:
        result = await bots.writer.rollback(slug, version)
    kept = [f"{name} has your text: the file was edited by hand after version {version}." for name in result.set_aside]
    return CommandResult(
        {"result": result.model_dump(mode="json")},
        [f"Restored version {version} of {slug} as version {result.version}.", *kept],
    )


async def verify(options: Options, *, slug: Slug) -> CommandResult:
    """Check that the files of a bot can be read."""
    async with bots_of(options) as bots:
        problems = list(await bots.reader.verify(slug))
    return CommandResult(
        {"slug": slug, "problems": problems},
        problems or [f"{slug}: no problems found."],
        exit_code=Damaged.exit_code if problems else 0,
    )


async def export(
    options: Options,
    *,
    slug: Slug,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A new file (default: SLUG.bot in the current folder)."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> CommandResult:
    """Write the current files of a bot into one archive file."""
    async with bots_of(options) as bots:
        data = await bots.reader.export(slug)
    path = Path(os.path.abspath(output.expanduser() if output else f"{slug}.bot"))
    write_file(path, data, force=force)
    return CommandResult({"slug": slug, "path": str(path), "bytes": len(data)}, [f"Wrote {path}: {len(data):,} bytes."])


async def import_bot(
    options: Options,
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive written by `bot export`.")],
) -> CommandResult:
    """Create a new bot from an archive. Existing bots are unchanged, and nothing in the archive is run."""
    from perdure.interfaces.cli.forge.summary import describe_imported

    async with bots_of(options) as bots:
        return describe_imported(options, bots.home, await bots.writer.load(file))


async def delete(
    options: Options,
    *,
    slug: Slug,
    with_choices: Annotated[
        bool, typer.Option("--with-choices", help="Also delete its remembered choices, which later suggestions use.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> CommandResult:
    """Delete a bot with its files and versions permanently. Asks on a terminal; elsewhere, --yes is required."""
    async with bots_of(options) as bots:
        if not yes:
            found = await bots.reader.versions(slug)
            many = "its one version" if len(found) == 1 else f"all {len(found)} versions"
            require_confirmation(options, f"{slug}, with its files and {many}")
        await bots.writer.delete(slug, with_choices=with_choices)
    return CommandResult({"deleted": True, "slug": slug}, [f"Deleted {slug}."])
