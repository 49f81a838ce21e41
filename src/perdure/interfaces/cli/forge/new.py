"""`perdure new`: creates or changes a bot by an interview."""

from pathlib import Path
from typing import Annotated

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.remote.opened import builder_of
from perdure.interfaces.cli.shell_hints import exact

Description = Annotated[
    str | None,
    typer.Argument(metavar="[DESCRIPTION]", help="Description of the bot; with --resume, the whole id of a draft."),
]
Answers = Annotated[
    Path | None,
    typer.Option(
        "--answers",
        metavar="FILE",
        help='A JSON list, an answer per question: {"option_index": 0}, {"free_text": "…"} or {"confirm": true}.',
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="What leads the interview: builtin, or model (default: model, if one is configured).",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Choose the suggested option of every question, else the first, and confirm."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "new", server=True)(new)


async def new(  # noqa: PLR0913 (each is an option of the command)
    options: Options,
    *,
    description: Description = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a draft: the newest, or the one with the id DESCRIPTION.")
    ] = False,
    reconfigure: Annotated[str | None, typer.Option("--reconfigure", metavar="SLUG", help="Change a bot.")] = None,
    answers: Answers = None,
    engine: Engine = None,
    yes: Yes = False,
) -> CommandResult:
    """Describe a bot, answer a few questions, and create it. Every answer is stored before the next question."""
    from perdure.interfaces.cli.forge.interview import (
        asker_for,
        find_draft_id,
        named_way_out,
        require_engine,
        require_subject,
        run_interview,
        start_interview,
    )

    require_engine(engine)
    if resume and reconfigure is not None:
        raise Invalid("Use --resume or --reconfigure, not both.")
    try:
        asker = asker_for(options, answers, is_content=yes)
    except Invalid:
        await require_subject(options, resume=resume, draft=description, slug=reconfigure)  # a wrong id comes first
        raise
    answered = [] if answers is None else ["--answers", str(answers)]
    how = [*answered, "--yes"] if yes else answered
    async with builder_of(options) as builder:
        if resume:
            session = await builder.drafts.resume(await find_draft_id(builder, description))
        elif reconfigure is not None:
            words = [] if description is None else [description]
            with named_way_out(exact(options, "new", "--reconfigure", reconfigure, *words, *how)):
                session = await builder.interviews.reconfigure(
                    reconfigure, description=description or "", engine=engine
                )
        elif description is not None:
            with named_way_out(exact(options, "new", description, *how)):
                session = await builder.interviews.start(description, engine=engine)
        else:
            session = await start_interview(options, builder, asker, engine)
        return await run_interview(options, builder, session, asker, engine)
