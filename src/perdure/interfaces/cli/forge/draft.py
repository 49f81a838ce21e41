"""`perdure draft`: interviews that are not finished."""

from typing import Annotated

import typer

from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.confirm import require_sure
from perdure.interfaces.cli.forge.new import Answers, Yes
from perdure.interfaces.cli.remote import opened
from perdure.interfaces.cli.remote.opened import builder_of
from perdure.interfaces.cli.shell_hints import exact

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
) -> Answer:
    """List the drafts, the newest change first."""
    drafts = [draft.wire() for draft in await opened.list_drafts(options, limit=limit)]
    rows = [
        [each["session_id"], each["phase"] or "damaged", each["updated_at"][:19], each["initial_description"]]
        for each in drafts
    ]
    parts: list[str | Table] = (
        [Table(["draft", "phase", "changed (UTC)", "wish"], rows, whole=["draft"])] if rows else []
    )
    return Answer({"drafts": drafts}, parts or ["There are no drafts. `perdure new` begins one."])


async def show(options: Options, *, draft: SeenDraft) -> Answer:
    """Show a draft: where it is, what was answered, and what is asked."""
    from perdure.interfaces.cli.forge.asking import headline, offers

    async with builder_of(options) as builder:
        session = await builder.interviews.get(await builder.drafts.find(draft))
    parts = [
        f"{session.initial_description}",
        f"{session.phase}, {session.question_count} answered, revision {session.revision}",
        *(f"  {each.asked} {each.answer}" for each in session.conversation),
        f"Asked now: {headline(session)}",
        *(f"  {each}" for each in offers(session)),
        f"Go on: {exact(options, 'new', '--resume', session.session_id)}",
    ]
    return Answer(session.wire(), parts)


async def resume(options: Options, *, draft: Draft, answers: Answers = None, yes: Yes = False) -> Answer:
    """Go on with a draft where it was left."""
    from perdure.interfaces.cli.forge.interview import asker_for, interview

    asker = asker_for(options, answers, is_content=yes)
    async with builder_of(options) as builder:
        session = await builder.drafts.resume(await builder.drafts.require_whole_id(draft))
        return await interview(options, builder, session, asker)


async def delete(
    options: Options, *, draft: Draft, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False
) -> Answer:
    """Remove a draft, for good; asks on a terminal, needs --yes elsewhere."""
    async with builder_of(options) as builder:
        session_id = await builder.drafts.require_whole_id(draft)
        if not yes:
            require_sure(options, f"draft {session_id}")
        await builder.interviews.delete(session_id)
    return Answer({"deleted": True, "session_id": session_id}, [f"Deleted {session_id}."])
