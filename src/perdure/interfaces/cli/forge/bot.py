"""`perdure bot`: the bots of a home, or of a server."""

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from perdure.errors import Damaged
from perdure.forge.vocabulary import BotPurpose
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.completion import complete_bots
from perdure.interfaces.cli.confirm import require_sure
from perdure.interfaces.cli.files import write_file
from perdure.interfaces.cli.remote import opened
from perdure.interfaces.cli.remote.opened import bots_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import Bot, BotSummary

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
) -> Answer:
    """List the bots."""
    bots = [bot.wire() for bot in await opened.list_bots(options, limit=limit)]
    rows = [[each["slug"], each["name"], _purpose(each), str(each["version"])] for each in bots]
    parts: list[str | Table] = [Table(["bot", "name", "purpose", "version"], rows, whole=["bot"])] if rows else []
    return Answer({"bots": bots}, parts or ["There are no bots yet. `perdure new` makes one."])


def _purpose(bot: "Bot | BotSummary") -> str:
    """Return what a bot was made for; a purpose that only a newer server knows is called as its category."""
    is_known = bot["bot_purpose"] in set(BotPurpose)
    return (BotPurpose(bot["bot_purpose"]) if is_known else BotPurpose.OTHER).title_for(bot["category"])


async def show(
    options: Options,
    *,
    slug: Slug,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the prompt for a model, and nothing else.")] = False,
) -> Answer:
    """Show a bot as its files say it is now, and what was edited by hand; or its prompt alone."""
    async with bots_of(options) as bots:
        bot = (await bots.reader.whole(slug)).wire()
    edits = [f"Edited by hand:\n{text}" for text in bot["edits"].values()]
    table = Table([bot["slug"], ""], _rows(bot))
    said: list[str | Table] = [bot["prompt"].removesuffix("\n")] if prompt else [table, *edits]
    return Answer(bot, said)


def _rows(bot: "Bot") -> list[list[str]]:
    """Return what a bot is, each with its name."""
    model = bot["model_config"]
    answers = f"{model['model']}, temperature {model['temperature']:g}, up to {model['max_tokens']} tokens"
    return [
        ["name", bot["name"]],
        ["version", f"{bot['version']}, made {bot['updated_at'][:19]} (UTC)"],
        ["for", textwrap.shorten(bot["purpose"], _LONGEST, placeholder="…")],
        ["purpose", _purpose(bot)],
        ["tone", bot["tone"]],
        ["traits", ", ".join(bot["traits"])],
        ["holds to", "; ".join(bot["boundaries"]) or "nothing special"],
        ["model", answers],
        ["skills", ", ".join(bot["skills"]) or "none"],
        ["folder", bot["folder"]],
    ]


async def explain(
    options: Options,
    *,
    slug: Slug,
    place: Annotated[str, typer.Argument(metavar="FILE:LINE", help="Such as SOUL.md:12.")],
) -> Answer:
    """Tell which question and answer a line came from."""
    async with bots_of(options) as bots:
        explained = await bots.reader.explain(slug, place)
    found = explained.found
    return Answer(explained.wire(), [f"{found.path}:{found.line}  {found.text}", found.sentence])


async def versions(options: Options, *, slug: Slug) -> Answer:
    """List the versions of a bot, the newest first, each with the files edited by hand since the version before."""
    async with bots_of(options) as bots:
        found = [version.wire() for version in await bots.reader.versions(slug)]
    rows = [
        [str(each["number"]), each["state"], each["origin"], each["created_at"][:19], ", ".join(each["hand_edits"])]
        for each in found
    ]
    titles = ["version", "state", "by", "made (UTC)", "edited by hand"]
    return Answer({"slug": slug, "versions": found}, [Table(titles, rows)])


async def rollback(
    options: Options,
    *,
    slug: Slug,
    version: Annotated[int, typer.Argument(min=1, metavar="VERSION", help="The version to go back to.")],
) -> Answer:
    """Make a bot what it was in an earlier version, as a new version; files edited by hand are kept as NAME.old."""
    async with bots_of(options) as bots:
        result = await bots.writer.rollback(slug, version)
    kept = [f"{name} has your text: the file was edited by hand after version {version}." for name in result.set_aside]
    return Answer(
        {"result": result.model_dump(mode="json")},
        [f"{slug} is what it was in version {version}; that is version {result.version}.", *kept],
    )


async def verify(options: Options, *, slug: Slug) -> Answer:
    """See whether the files of a bot can be read."""
    async with bots_of(options) as bots:
        problems = list(await bots.reader.verify(slug))
    return Answer(
        {"slug": slug, "problems": problems},
        problems or [f"{slug} is well."],
        exit_code=Damaged.exit_code if problems else 0,
    )


async def export(
    options: Options,
    *,
    slug: Slug,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="A new file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> Answer:
    """Write a bot, as it is on disk, into one file."""
    path = Path(os.path.abspath(output.expanduser()))
    async with bots_of(options) as bots:
        data = await bots.reader.export(slug)
    write_file(path, data, force=force)
    return Answer({"slug": slug, "path": str(path), "bytes": len(data)}, [f"Wrote {path}: {len(data):,} bytes."])


async def import_bot(
    options: Options, *, file: Annotated[Path, typer.Argument(metavar="FILE", help="What `bot export` wrote.")]
) -> Answer:
    """Make a new bot of a file, each time; one that is there already is not changed. Nothing in the file is run."""
    from perdure.interfaces.cli.forge.made import imported

    async with bots_of(options) as bots:
        return imported(options, bots.home, await bots.writer.load(file))


async def delete(
    options: Options,
    *,
    slug: Slug,
    with_choices: Annotated[
        bool, typer.Option("--with-choices", help="Forget what was chosen for it, too; suggestions are made of that.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> Answer:
    """Remove a bot with its files and all its versions, for good; asks on a terminal, needs --yes elsewhere."""
    async with bots_of(options) as bots:
        if not yes:
            found = await bots.reader.versions(slug)
            many = "its one version" if len(found) == 1 else f"all {len(found)} versions"
            require_sure(options, f"{slug}, with its files and {many}")
        await bots.writer.delete(slug, with_choices=with_choices)
    return Answer({"deleted": True, "slug": slug}, [f"Deleted {slug}."])
