"""Questions with numbers, for a terminal that cannot move its cursor."""

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import AskQuestion, Clarify, ReadyToAssemble, ShowPreview, explain_turn, is_help
from perdure.app.builder.vocabulary import BuilderMode
from perdure.errors import PerdureError
from perdure.interfaces.cli.forge.askers import (
    Pending,
    Restart,
    back_answer,
    default_option,
    description_prompt,
    earlier_text,
    is_back,
    print_text,
    read_typed,
)
from perdure.interfaces.cli.forge.layout import config_rows, preview_rows
from perdure.interfaces.cli.forge.multiple_choice import read_stored_answer
from perdure.interfaces.cli.output.terminal import wrapped_for
from perdure.interfaces.cli.prompts.plain import read_line, read_number


class Numbered:
    """Asks a person line by line. See Asker."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._has_shown_recap = False
        self._previous: dict[str, str] = {}
        """The previous answer to each question, shown when the question is asked again."""

    async def ask_description(self) -> str:
        """See Asker.ask_description."""
        return await read_line("What should your bot do?")

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        self._show_recap(session)
        match session.turn:
            case AskQuestion() as turn:
                return await self._choose(session, turn)
            case Clarify(message=message):
                return {"free_text": await read_line(message)}
            case ShowPreview(preview=preview):
                print_text("\nPreview", *_indented_rows(preview_rows(preview, session.conversation)))
                return await _confirm("Is this correct?", session)
            case ReadyToAssemble(config=config):
                print_text("\nReady to be built", *_indented_rows(config_rows(config, session.conversation)))
                return await _confirm("Build it?", session)

    def show(self, session: SessionView, texts: Sequence[str]) -> None:  # noqa: ARG002 (the texts describe the session)
        """See Asker.show."""
        print_text(*texts)

    def show_busy(self) -> AbstractContextManager[object]:
        """See Asker.show_busy."""
        print_text("Thinking …")
        return nullcontext()

    def show_error(self, error: PerdureError, pending: Pending | None = None) -> None:  # noqa: ARG002 (the caller asks again)
        """See Asker.show_error."""
        print_text(error.detail)

    def _show_recap(self, session: SessionView) -> None:
        """Print the answers of a resumed session, once."""
        if not self._has_shown_recap and session.conversation:
            print_text("Answered so far:", *(f"  {each.question_text} {each.answer}" for each in session.conversation))
        if not self._has_shown_recap and session.earlier:
            asked_again = (f"  {each.question_text} {each.answer}" for each in session.earlier)
            print_text("Asked again, with your answer as the default:", *asked_again)
        self._has_shown_recap = True
        self._previous |= {each.question: each.answer for each in session.conversation}

    async def _choose(self, session: SessionView, turn: AskQuestion) -> Any:
        if turn.phase_label != self._phase:
            self._phase = turn.phase_label
            print_text("", self._phase)
        first = default_option(turn)
        previous = self._previous.get(turn.question, earlier_text(turn))
        print_text(turn.question, *([f"  (your answer was: {previous})"] if previous else []))
        for number, option in enumerate(turn.options):
            hint = f" (suggested: {turn.suggestion.reason})" if turn.suggestion and number == first else ""
            print_text(wrapped_for(f"  {number + 1}. {option.label}: {option.description}{hint}", sys.stderr))
        numbers = "Numbers" if turn.multiple else "A number"
        own_words = ", your own words" if turn.allow_free_text else ""
        default, shown = _default_answer(turn, previous)
        while True:
            typed = await read_line(f"{numbers}{own_words}, back or ? [{shown}]:")
            if is_help(typed):
                print_text(explain_turn(turn))
            elif is_back(typed):
                if (back := await self._back(session)) is not None:
                    return back
            else:
                return _parse_typed(turn, typed) if typed else default

    async def _back(self, session: SessionView) -> Any:
        """Return the answer that leads back; before the first answer, the description can be changed."""
        back = back_answer(session)
        if back is not None:
            return back
        if session.mode is not BuilderMode.BOT:
            print_text("This is the first question.")
            return None
        text = await read_line(f"{description_prompt(session)} [{session.initial_description}]")
        return Restart(text or session.initial_description)


def _default_answer(turn: AskQuestion, previous: str | None) -> tuple[Any, str]:
    """Return the answer that Enter sends, and its display: the previous answer, else the default option."""
    if not previous:
        first = default_option(turn)
        return {"option_index": first}, str(first + 1)
    marked, own = read_stored_answer(turn, previous)
    if own:
        return {"free_text": previous}, "your answer"
    shown = ", ".join(str(at + 1) for at in marked)
    return ({"option_indexes": marked} if len(marked) > 1 else {"option_index": marked[0]}), shown


def _parse_typed(turn: AskQuestion, typed: str) -> Any:
    if (chosen := read_number(typed, len(turn.options))) is not None:
        return {"option_index": chosen}
    several = [read_number(part, len(turn.options)) for part in re.split(r"[\s,]+", typed.strip(", "))]
    numbers = list(dict.fromkeys(number for number in several if number is not None))
    if turn.multiple and None not in several:
        return {"option_indexes": numbers}
    return read_typed(turn, typed)


async def _confirm(question: str, session: SessionView) -> Any:
    while True:
        typed = (await read_line(f"{question} yes, no, back or ? [yes]:")).lower()
        if is_help(typed):
            print_text(explain_turn(session.turn))
        if is_back(typed):
            return back_answer(session) or {"confirm": False}
        if typed in ("", "y", "yes", "n", "no"):
            return {"confirm": typed in ("", "y", "yes")}


def _indented_rows(rows: Sequence[tuple[str, str]]) -> list[str]:
    indents = {name: "\n" + " " * len(f"  {name}: ") for name, _ in rows}
    return [f"  {name}: {value}".replace("\n", indents[name]) for name, value in rows if value]
