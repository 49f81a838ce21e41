"""`perdure new`: an interview that ends with a bot."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import Perdure, open_home
from perdure.app.forge import SessionView
from perdure.errors import Conflict, Invalid
from perdure.forge.assembly import AssemblyResult
from perdure.forge.changes import Changes
from perdure.forge.turns import ReadyToAssemble
from perdure.forge.vocabulary import BuilderMode
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.forge.asking import Asker, Listed, Suggested, how_to_go_on, read_answers
from perdure.interfaces.cli.terminal import lines

_INTERRUPTED = 130

Description = Annotated[
    str | None, typer.Argument(metavar="[TEXT]", help="What the bot is for; with --resume the id of a draft.")
]
Answers = Annotated[Path | None, typer.Option("--answers", metavar="FILE", help="A JSON list of answers, one a turn.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Take what is suggested, or the first option, and confirm.")]


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "new")(new)


async def new(
    options: Options,
    *,
    description: Description = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a draft: the newest, or the one named.")] = False,
    reconfigure: Annotated[str | None, typer.Option("--reconfigure", metavar="SLUG", help="Change a bot.")] = None,
    answers: Answers = None,
    yes: Yes = False,
) -> Answer:
    """Say what you want, answer a few questions, and have a bot. Every answer is kept before the next question."""
    if resume and reconfigure is not None:
        raise Invalid("A draft is resumed, or a bot reconfigured; not both.")
    asker = asker_for(options, answers, is_content=yes)
    async with open_home(options.settings(), debug=options.verbose) as p:
        if resume:
            session = await p.forge.get(await find_draft(p, description))
        elif reconfigure is not None:
            session = await p.forge.reconfigure(reconfigure, description=description or "")
        else:
            session = await p.forge.start(description if description is not None else await _ask_for_wish(asker))
        return await interview(p, session, asker)


def asker_for(options: Options, answers: Path | None, *, is_content: bool) -> Asker:
    """Return who answers: a file, whoever is content with everything, or the person at the terminal.

    Raises: Invalid when there is nobody.
    """
    content = Suggested() if is_content else None
    if answers is not None:
        return Listed(read_answers(answers), content)
    if content is not None:
        return content
    if options.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Invalid(
            "There is no terminal to ask on. Give the answers with --answers FILE, or take what comes: --yes."
        )
    from perdure.interfaces.cli.forge.prompts import Wizard

    return Wizard()


async def find_draft(p: Perdure, prefix: str | None) -> str:
    """Return the id of a draft: the one that is named, or the newest.

    Raises: NotFound; Invalid
    """
    if prefix is not None:
        return await p.forge.find(prefix)
    newest = await p.forge.drafts(limit=1)
    if not newest:
        raise Invalid("There is no draft to go on with. `perdure new` begins one.")
    return newest[0].summary.session_id


async def interview(p: Perdure, session: SessionView, asker: Asker) -> Answer:
    """Ask until everything is known and confirmed, then build; an interrupted interview is kept."""
    try:
        while True:
            if isinstance(session.turn, ReadyToAssemble) and session.mode == BuilderMode.RECONFIGURE:
                _show_changes(await p.forge.changes(session.session_id))
            said = await asker.answer(session)
            if isinstance(session.turn, ReadyToAssemble) and said in ({"confirm": True}, {"Confirm": True}):
                return _built(p, await p.forge.assemble(session.session_id))
            try:
                session = await p.forge.answer(session.session_id, said, session.revision)
            except Invalid as error:
                asker.tell(f"{error.detail} {_where(session)}")
            except Conflict as error:
                asker.tell(f"{error.detail} Somebody else has answered; this is what is asked now.")
                session = await p.forge.get(session.session_id)
    except (KeyboardInterrupt, EOFError):
        sentence = how_to_go_on(session)
        print(f"\n{sentence}", file=sys.stderr)
        return Answer({"session_id": session.session_id, "status": "kept"}, exit_code=_INTERRUPTED)


def _show_changes(changes: Changes) -> None:
    """Show on standard error what would be another on disk."""
    for text in changes.diffs.values() or ["Nothing would change.\n"]:
        print(lines(text), file=sys.stderr)
    for name in changes.clashes:
        print(f"Your text stays in {name}; what Forge would write comes beside it.", file=sys.stderr)


def _where(session: SessionView) -> str:
    return f"(question {session.question_count + 1}, {session.phase}; draft {session.session_id})"


async def _ask_for_wish(asker: Asker) -> str:
    from perdure.interfaces.cli.forge.prompts import Wizard

    if not isinstance(asker, Wizard):
        raise Invalid('Say what the bot is for: perdure new "I want a coding assistant".')
    return await asker.text("What should your bot do?")


def _built(p: Perdure, result: AssemblyResult) -> Answer:
    home = p.settings.home
    files = [result.soul_path, result.identity_path, result.user_path]
    clashes = [
        f"Your text was kept in {name}; what Forge would have written is in {name}.new." for name in result.clashes
    ]
    parts = [
        f"{result.bot_name} is ready: {result.bot_slug}, version {result.version}.",
        "\n".join(f"  {home / name}" for name in files),
        f"  skills: {', '.join(result.skills_attached) or 'none'}",
        *clashes,
        f"Look at it: perdure bot show {result.bot_slug}",
        f"Change it:  perdure new --reconfigure {result.bot_slug}",
    ]
    return Answer({"result": result.model_dump(mode="json")}, parts)
