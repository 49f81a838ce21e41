"""The interview on the command line: asks until the configuration is complete and confirmed, then builds the bot."""

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import Confirm, ReadyToAssemble, read_answer
from perdure.app.builder.vocabulary import WITHOUT_MODEL, BuilderMode, EngineName
from perdure.errors import Conflict, Invalid, Unavailable
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.forge.askers import AnswerList, Asker, DefaultAnswers, Pending, Restart, read_answers
from perdure.interfaces.cli.forge.summary import describe_built, describe_unchanged
from perdure.interfaces.cli.output.terminal import wrapped_for
from perdure.interfaces.cli.prompts.plain import can_move_cursor
from perdure.interfaces.cli.remote.opened import bots_of, builder_of
from perdure.interfaces.cli.remote.ports.builder import BuilderPorts
from perdure.interfaces.cli.shell_hints import exact

_INTERRUPTED = 130


def asker_for(options: Options, answers: Path | None, *, is_content: bool) -> Asker:
    """Return the asker for the options: a file of answers, the defaults (`--yes`), or the person at the terminal.

    Raises: Invalid when there is no file, no --yes and no terminal.
    """
    content = DefaultAnswers() if is_content else None
    if answers is not None:
        return AnswerList(read_answers(answers), content)
    if content is not None:
        return content
    if options.no_input or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Invalid(
            "There is no terminal to ask on. Pass the answers with --answers FILE, or accept the defaults with --yes."
        )
    return _terminal_asker()


def _terminal_asker() -> Asker:
    """Return the asker for this terminal; one that cannot move its cursor gets numbered questions."""
    if not can_move_cursor():
        from perdure.interfaces.cli.forge.numbered import Numbered

        return Numbered()
    from perdure.interfaces.cli.forge.prompts import Wizard

    return Wizard()


def require_engine(engine: str | None) -> None:
    """Check the name of an engine.

    Raises: Invalid
    """
    if engine is not None and engine not in get_args(EngineName):
        raise Invalid(f"--engine: {engine[:40]!r} must be one of {', '.join(get_args(EngineName))}.")


async def run_interview(
    options: Options, builder: BuilderPorts, session: SessionView, asker: Asker, engine: str | None = None
) -> CommandResult:
    """Ask until the configuration is complete and confirmed, then build the bot. An interrupted interview is kept.

    With `engine`, it leads the interview from the first answer on.

    Raises: Unavailable, with the command that resumes the interview; the errors of `assemble`.
    """
    dialogue = _Interview(options, builder, session, asker, engine)
    try:
        return await dialogue.run()
    except (KeyboardInterrupt, EOFError):
        _print_kept(dialogue.resume_command)
        return CommandResult({"session_id": dialogue.session.session_id, "status": "kept"}, exit_code=_INTERRUPTED)
    except asyncio.CancelledError:
        _print_kept(dialogue.resume_command)
        raise
    except Unavailable as error:
        kept = f"{error.detail} All accepted answers are stored. Resume with: {dialogue.resume_command}"
        is_model = WITHOUT_MODEL in error.detail
        without = f", or without a model: {dialogue.resume_command} --engine builtin" if is_model else ""
        raise Unavailable(f"{kept}{without}") from error


@contextlib.contextmanager
def named_way_out(command: str) -> Iterator[None]:
    """Name the command that repeats a call without a model, when the model does not answer.

    Raises: Unavailable
    """
    try:
        yield
    except Unavailable as error:
        if WITHOUT_MODEL not in error.detail:
            raise
        raise Unavailable(f"{error.detail} Nothing was stored. Without a model: {command} --engine builtin") from error


class _Interview:
    """The questions and answers of one session."""

    def __init__(
        self, options: Options, builder: BuilderPorts, session: SessionView, asker: Asker, engine: str | None
    ) -> None:
        self._options = options
        self._builder = builder
        self._asker = asker
        self._engine = engine
        self._noted: int | None = None
        """The revision whose note was shown last."""
        self.session = session

    @property
    def resume_command(self) -> str:
        """The command that resumes the interview."""
        return exact(self._options, "new", "--resume", self.session.session_id)

    async def run(self) -> CommandResult:
        """Ask until the bot is confirmed, and build it."""
        while True:
            changes = await self._show_changes()
            self._show_note()
            try:
                answer = await self._asker.answer(self.session)
                if _is_confirmed(self.session, answer):
                    break
                await self._submit(answer)
            except Invalid as error:
                self._asker.show_error(error, Pending(self.session, self.resume_command))
            except Conflict as error:
                self.session = await self._builder.interviews.get(self.session.session_id)
                self._asker.show_error(error, Pending(self.session, self.resume_command))
        return await self._assemble(changes)

    def _show_note(self) -> None:
        """Show once why the built-in interviewer asks in a session that a model leads."""
        note = getattr(self.session.turn, "note", "")
        if note and self._noted != self.session.revision:
            self._noted = self.session.revision
            self._asker.show(self.session, [note])

    async def _submit(self, answer: Any) -> None:
        """Send an answer, or start again with another description.

        Raises: Invalid; Conflict.
        """
        if isinstance(answer, Restart):
            self.session = await self._restart(answer)
        else:
            seen = self.session
            is_thinking = "model" in (self._engine, seen.engine)
            with self._asker.show_busy() if is_thinking else contextlib.nullcontext():
                self.session = await self._builder.interviews.answer(
                    seen.session_id, answer, seen.revision, engine=self._engine
                )

    async def _restart(self, wanted: Restart) -> SessionView:
        """Start a session with another description; the old draft, which has no answer, is removed afterwards."""
        if wanted.description == self.session.initial_description:
            return self.session
        started = await self._builder.interviews.start(wanted.description, engine=self._engine)
        await self._builder.interviews.delete(self.session.session_id)
        return started

    async def _assemble(self, changes: dict[str, Any]) -> CommandResult:
        """Build the confirmed bot; remove the draft if nothing changed."""
        result = await self._builder.interviews.assemble(self.session.session_id)
        if result.changed:
            return describe_built(self._options, self._builder.home, self.session, result, changes)
        await self._builder.interviews.delete(self.session.session_id)
        return describe_unchanged(self.session, result, changes)

    async def _show_changes(self) -> dict[str, Any]:
        """Show how the files would change, before a change of a bot is confirmed; return the changes."""
        session = self.session
        if not isinstance(session.turn, ReadyToAssemble) or session.mode != BuilderMode.RECONFIGURE:
            return {}
        changes = await self._builder.interviews.changes(session.session_id)
        if not self._options.json or sys.stderr.isatty():
            clashes = [
                f"Your edits of {name} conflict with the change: they are kept, and {name}.new gets the new text.\n"
                for name in changes.clashes
            ]
            self._asker.show(session, [*changes.diffs.values(), *clashes] or ["Nothing would change.\n"])
        return {"changes": changes.wire()}


async def require_subject(options: Options, *, resume: bool, draft: str | None, slug: str | None) -> None:
    """Check the draft to resume, or the bot to change.

    Raises: NotFound; Invalid when there are no drafts.
    """
    if resume:
        async with builder_of(options) as builder:
            await builder.drafts.resume(await find_draft_id(builder, draft))
    elif slug is not None:
        async with bots_of(options) as bots:
            await bots.reader.details(slug)


async def find_draft_id(builder: BuilderPorts, draft: str | None) -> str:
    """Return the id of the named draft, or of the newest one.

    Raises: NotFound; Invalid when there are no drafts.
    """
    if draft is not None:
        return await builder.drafts.require_whole_id(draft)
    newest = await builder.drafts.drafts(limit=1)
    if not newest:
        raise Invalid("There is no draft to resume. `perdure new` starts one.")
    return newest[0].wire()["session_id"]


async def start_interview(
    options: Options, builder: BuilderPorts, asker: Asker, engine: str | None = None
) -> SessionView:
    """Ask for a description until one is accepted, and start a session with it."""
    while True:
        try:
            description = await asker.ask_description()
            with named_way_out(exact(options, "new", description)):
                return await builder.interviews.start(description, engine=engine)
        except Invalid as error:
            asker.show_error(error)


def _is_confirmed(session: SessionView, answer: Any) -> bool:
    """Return whether an answer confirms the complete configuration.

    Raises: Invalid when it is not an answer.
    """
    return isinstance(session.turn, ReadyToAssemble) and read_answer(answer) == Confirm(confirm=True)


def _print_kept(resume_command: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be closed
        kept = "Each accepted answer is stored; what you typed or marked at this question is not. Resume with:"
        print(f"\n{wrapped_for(kept, sys.stderr)}\n  {resume_command}", file=sys.stderr, flush=True)
