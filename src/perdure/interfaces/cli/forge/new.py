"""`perdure new`: an interview that ends with a bot."""

from pathlib import Path
from typing import Annotated

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.remote.opened import builder_of

Description = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="What the bot is for; with --resume the whole id of a draft.")
]
Answers = Annotated[Path | None, typer.Option("--answers", metavar="FILE", help="A JSON list of answers, one a turn.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Take what is suggested, or the first option, and confirm.")]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "new", server=True)(new)


async def new(
    options: Options,
    *,
    description: Description = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume a draft: the newest, or the one given.")] = False,
    reconfigure: Annotated[str | None, typer.Option("--reconfigure", metavar="SLUG", help="Change a bot.")] = None,
    answers: Answers = None,
    yes: Yes = False,
) -> Answer:
    """Say what you want, answer a few questions, and have a bot. Every answer is kept before the next question."""
    from perdure.interfaces.cli.forge.interview import asker_for, draft_id, interview, wished

    if resume and reconfigure is not None:
        raise Invalid("A draft is resumed, or a bot reconfigured; not both.")
    asker = asker_for(options, answers, is_content=yes)
    async with builder_of(options) as builder:
        if resume:
            session = await builder.drafts.resume(await draft_id(builder, description))
        elif reconfigure is not None:
            session = await builder.interviews.reconfigure(reconfigure, description=description or "")
        elif description is not None:
            session = await builder.interviews.start(description)
        else:
            session = await wished(builder, asker)
        return await interview(options, builder, session, asker)
