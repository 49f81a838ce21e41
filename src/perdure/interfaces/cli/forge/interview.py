"""The interview on the command line: asks until everything is known and confirmed, then builds the bot."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from perdure.app.builder.sessions import SessionView
from perdure.errors import Conflict, Invalid, Unavailable
from perdure.forge.answers import Confirm, read_answer
from perdure.forge.turns import ReadyToAssemble
from perdure.forge.vocabulary import BuilderMode
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.forge.asking import Asker, Listed, Pending, Restart, Suggested, read_answers
from perdure.interfaces.cli.forge.made import built, unchanged
from perdure.interfaces.cli.output.terminal import wrapped_for
from perdure.interfaces.cli.prompts.plain import can_move_cursor
from perdure.interfaces.cli.remote.ports.builder import BuilderPorts
from perdure.interfaces.cli.shell_hints import exact

_INTERRUPTED = 130


def asker_for(options: Options, answers: Path | None, *, is_content: bool) -> Asker:
    """Return what answers the turns: a file, the suggestions (`--yes`), or the person at the terminal.

    Raises: Invalid without any of them.
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


async def interview(options: Options, builder: BuilderPorts, session: SessionView, asker: Asker) -> Answer:
    """Ask until everything is known and confirmed, then build; an interrupted interview is kept.

    Raises: Unavailable, with the command that resumes it; what building a bot raises.
    """
    talk = _Interview(options, builder, session, asker)
    try:
        return await talk.run()
    except (KeyboardInterrupt, EOFError):
        _say_kept(talk.again)
        return Answer({"session_id": talk.session.session_id, "status": "kept"}, exit_code=_INTERRUPTED)
    except asyncio.CancelledError:
        _say_kept(talk.again)
        raise
    except Unavailable as error:
        raise Unavailable(f"{error.detail} Every answer that was taken is kept. Resume: {talk.again}") from error


class _Interview:
    """One session, asked and answered."""

    def __init__(self, options: Options, builder: BuilderPorts, session: SessionView, asker: Asker) -> None:
        self._options = options
        self._builder = builder
        self._asker = asker
        self.session = session

    @property
    def again(self) -> str:
        """The command that resumes it."""
        return exact(self._options, "new", "--resume", self.session.session_id)

    async def run(self) -> Answer:
        """Ask until the bot is confirmed, and build it."""
        while True:
            changes = await self._shown_changes()
            try:
                said = await self._asker.answer(self.session)
                if _is_confirmed(self.session, said):
                    break
                await self._take(said)
            except Invalid as error:
                self._asker.refused(error, Pending(self.session, self.again))
            except Conflict as error:
                self.session = await self._builder.interviews.get(self.session.session_id)
                self._asker.refused(error, Pending(self.session, self.again))
        return await self._assembled(changes)

    async def _take(self, said: Any) -> None:
        """Take an answer, or begin again with another description.

        Raises: Invalid; Conflict.
        """
        if isinstance(said, Restart):
            self.session = await self._restarted(said)
        else:
            seen = self.session
            self.session = await self._builder.interviews.answer(seen.session_id, said, seen.revision)

    async def _restarted(self, wanted: Restart) -> SessionView:
        """Begin again with another description; the draft without an answer is removed once the new one is stored."""
        if wanted.description == self.session.initial_description:
            return self.session
        begun = await self._builder.interviews.start(wanted.description)
        await self._builder.interviews.delete(self.session.session_id)
        return begun

    async def _assembled(self, changes: dict[str, Any]) -> Answer:
        """Build what was confirmed; the draft of a change that changes nothing is removed."""
        result = await self._builder.interviews.assemble(self.session.session_id)
        if result.changed:
            return built(self._options, self._builder.home, self.session, result, changes)
        await self._builder.interviews.delete(self.session.session_id)
        return unchanged(self.session, result, changes)

    async def _shown_changes(self) -> dict[str, Any]:
        """Show what would be another on disk, before a change of a bot is confirmed."""
        session = self.session
        if not isinstance(session.turn, ReadyToAssemble) or session.mode != BuilderMode.RECONFIGURE:
            return {}
        changes = await self._builder.interviews.changes(session.session_id)
        if not self._options.json or sys.stderr.isatty():
            beside = [f"Your text stays in {name}; what Forge would write comes beside it." for name in changes.clashes]
            self._asker.show(session, [*(changes.diffs.values() or ["Nothing would change.\n"]), *beside])
        return {"changes": changes.wire()}


async def draft_id(builder: BuilderPorts, given: str | None) -> str:
    """Return the id of a draft: the one that is named, or the newest.

    Raises: NotFound; Invalid
    """
    if given is not None:
        return await builder.drafts.require_whole_id(given)
    newest = await builder.drafts.drafts(limit=1)
    if not newest:
        raise Invalid("There is no draft to resume. `perdure new` starts one.")
    return newest[0].wire()["session_id"]


async def wished(builder: BuilderPorts, asker: Asker) -> SessionView:
    """Begin with what a person wishes for."""
    while True:
        try:
            return await builder.interviews.start(await asker.wish())
        except Invalid as error:
            asker.refused(error)


def _is_confirmed(session: SessionView, said: Any) -> bool:
    """Raises: Invalid when it is not an answer."""
    return isinstance(session.turn, ReadyToAssemble) and read_answer(said) == Confirm(confirm=True)


def _say_kept(again: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that has gone
        kept = "Your answers are kept; what was only marked or typed is not. Go on where you were:"
        print(f"\n{wrapped_for(kept, sys.stderr)}\n  {again}", file=sys.stderr, flush=True)
