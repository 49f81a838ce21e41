"""The interview on the command line: asks until everything is known and confirmed, then builds the bot."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from perdure.app import Perdure
from perdure.app.builder.sessions import SessionView
from perdure.errors import Conflict, Invalid
from perdure.forge.answers import Confirm, read_answer
from perdure.forge.turns import ReadyToAssemble
from perdure.forge.vocabulary import BuilderMode
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.forge.asking import Asker, Listed, Pending, Restart, Suggested, read_answers
from perdure.interfaces.cli.forge.made import built, unchanged
from perdure.interfaces.cli.prompts.plain import can_move_cursor
from perdure.interfaces.cli.shell_hints import exact

_INTERRUPTED = 130


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
    return _person()


def _person() -> Asker:
    """Return the person at the terminal; one that cannot move its cursor is asked by numbers."""
    if not can_move_cursor():
        from perdure.interfaces.cli.forge.numbered import Numbered

        return Numbered()
    from perdure.interfaces.cli.forge.prompts import Wizard

    return Wizard()


async def interview(options: Options, p: Perdure, session: SessionView, asker: Asker) -> Answer:
    """Ask until everything is known and confirmed, then build; an interrupted interview is kept."""
    again = exact(options, "new", "--resume", session.session_id)
    try:
        while True:
            changes = await _shown_changes(options, p, session, asker)
            try:
                said = await asker.answer(session)
                if isinstance(said, Restart):
                    session = await _restarted(p, session, said)
                    again = exact(options, "new", "--resume", session.session_id)
                    continue
                if _is_confirmed(session, said):
                    break
                session = await p.forge.answer(session.session_id, said, session.revision)
            except Invalid as error:
                asker.refused(error, Pending(session, again))
            except Conflict as error:
                session = await p.forge.get(session.session_id)
                asker.refused(error, Pending(session, again))
        return await _assembled(options, p, session, changes)
    except (KeyboardInterrupt, EOFError):
        _say_kept(again)
        return Answer({"session_id": session.session_id, "status": "kept"}, exit_code=_INTERRUPTED)
    except asyncio.CancelledError:
        _say_kept(again)
        raise


async def _assembled(options: Options, p: Perdure, session: SessionView, changes: dict[str, Any]) -> Answer:
    """Build what was confirmed; the draft of a change that changes nothing goes."""
    result = await p.forge.assemble(session.session_id)
    if result.changed:
        return built(options, p, session, result, changes)
    await p.forge.delete(session.session_id)
    return unchanged(session, result, changes)


async def _restarted(p: Perdure, session: SessionView, wanted: Restart) -> SessionView:
    """Begin anew with another description; the draft without an answer goes, once the new one is there."""
    if wanted.description == session.initial_description:
        return session
    begun = await p.forge.start(wanted.description)
    await p.forge.delete(session.session_id)
    return begun


async def draft_id(p: Perdure, given: str | None) -> str:
    """Return the id of a draft: the one that is named, or the newest.

    Raises: NotFound; Invalid
    """
    if given is not None:
        return await p.forge.require_whole_id(given)
    newest = await p.forge.drafts(limit=1)
    if not newest:
        raise Invalid("There is no draft to go on with. `perdure new` begins one.")
    return newest[0].summary.session_id


async def wished(p: Perdure, asker: Asker) -> SessionView:
    """Begin with what a person wishes for."""
    while True:
        try:
            return await p.forge.start(await asker.wish())
        except Invalid as error:
            asker.refused(error)


def _is_confirmed(session: SessionView, said: Any) -> bool:
    """Raises: Invalid when it is no answer at all."""
    return isinstance(session.turn, ReadyToAssemble) and read_answer(said) == Confirm(confirm=True)


def _say_kept(again: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that has gone
        kept = "Your answers are kept; what was only marked or typed is not. Go on where you were:"
        print(f"\n{kept}\n  {again}", file=sys.stderr, flush=True)


async def _shown_changes(options: Options, p: Perdure, session: SessionView, asker: Asker) -> dict[str, Any]:
    """Show what would be another on disk, before a change of a bot is confirmed."""
    if not isinstance(session.turn, ReadyToAssemble) or session.mode != BuilderMode.RECONFIGURE:
        return {}
    changes = await p.forge.changes(session.session_id)
    if not options.json or sys.stderr.isatty():
        beside = [f"Your text stays in {name}; what Forge would write comes beside it." for name in changes.clashes]
        asker.show(session, [*(changes.diffs.values() or ["Nothing would change.\n"]), *beside])
    return {"changes": {"diffs": dict(changes.diffs), "clashes": list(changes.clashes)}}
