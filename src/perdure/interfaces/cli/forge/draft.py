"""`perdure draft`: unfinished interviews."""

from typing import TYPE_CHECKING, Annotated

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.confirm import require_confirmation
from perdure.interfaces.cli.forge.new import Answers, Yes
from perdure.interfaces.cli.remote import opened
from perdure.interfaces.cli.remote.opened import builder_of
from perdure.interfaces.cli.shell_hints import exact

if TYPE_CHECKING:
    from perdure.app.builder.sessions import SessionView

Draft = Annotated[str, typer.Argument(metavar="DRAFT", help="The whole id of a draft.")]
SeenDraft = Annotated[str, typer.Argument(metavar="DRAFT", help="The id of a draft, or a unique prefix of it.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, "list", server=True)(list_drafts)
    command(app, "ls", server=True)(list_drafts)
    for fn in (show, resume, delete):
        command(app, fn.__name__, server=True)(fn)


async def list_drafts(
    options: Options,
    *,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of entries.")] = 50,
) -> CommandResult:
    """List the drafts, the last changed first."""
    drafts = [draft.wire() for draft in await opened.list_drafts(options, limit=limit)]
    rows = [
        [each["session_id"], each["phase"] or "damaged", each["updated_at"][:19], each["initial_description"]]
        for each in drafts
    ]
    parts: list[str | Table] = (
        [Table(["draft", "phase", "changed (UTC)", "description"], rows, whole=["draft"])] if rows else []
    )
    return CommandResult({"drafts": drafts}, parts or ["There are no drafts. `perdure new` starts one."])


async def show(options: Options, *, draft: SeenDraft) -> CommandResult:
    """Show a draft: its phase, the answers, and the pending question."""
    from perdure.interfaces.cli.forge.askers import describe_options, pending_text

    async with builder_of(options) as builder:
        session = await builder.interviews.get(await builder.drafts.find(draft))
    parts = [
        f"{session.initial_description}",
        f"{session.phase}, {_progress(session)}, revision {session.revision}",
        *(f"  {each.question_text} {each.answer}" for each in session.conversation),
        *(f"  asked again: {each.question_text} {each.answer}" for each in session.earlier),
        f"Pending question: {pending_text(session)}",
        *(f"  {each}" for each in describe_options(session)),
        f"Resume: {exact(options, 'new', '--resume', session.session_id)}",
    ]
    return CommandResult(session.wire(), parts)


def _progress(session: "SessionView") -> str:
    """Return the number of answered questions, and of answers that are confirmed again after a step back."""
    answered = f"{session.question_count} answered"
    return f"{answered}, {len(session.earlier)} stored from before you went back" if session.earlier else answered


async def resume(options: Options, *, draft: Draft, answers: Answers = None, yes: Yes = False) -> CommandResult:
    """Resume a draft at its pending question."""
    from perdure.interfaces.cli.forge.interview import asker_for, require_subject, run_interview

    try:
        asker = asker_for(options, answers, is_content=yes)
    except Invalid:
        await require_subject(options, resume=True, draft=draft, slug=None)  # a wrong id comes first
        raise
    async with builder_of(options) as builder:
        session = await builder.drafts.resume(await builder.drafts.require_whole_id(draft))
        return await run_interview(options, builder, session, asker)


async def delete(
    options: Options, *, draft: Draft, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> CommandResult:
    """Delete a draft permanently. Asks for confirmation on a terminal; elsewhere, --yes is required."""
    async with builder_of(options) as builder:
        session_id = await builder.drafts.require_whole_id(draft)
        if not yes:
            require_confirmation(options, f"draft {session_id}")
        await builder.interviews.delete(session_id)
    return CommandResult({"deleted": True, "session_id": session_id}, [f"Deleted {session_id}."])
