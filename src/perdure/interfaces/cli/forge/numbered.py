"""Questions with numbers, for a terminal that cannot move its cursor."""

import re
import sys
from collections.abc import Sequence
from typing import Any

from perdure.app.builder.sessions import SessionView
from perdure.errors import PerdureError
from perdure.forge.answers import is_help
from perdure.forge.interview.interview import explained
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderMode
from perdure.interfaces.cli.forge.asking import Pending, Restart, first_choice, read_words, say, way_back
from perdure.interfaces.cli.forge.layout import rows_of_config, rows_of_preview
from perdure.interfaces.cli.forge.several import read_said
from perdure.interfaces.cli.output.terminal import wrapped_for
from perdure.interfaces.cli.prompts.plain import read_line, read_number

_BACK = "back"


class Numbered:
    """Asks a person line by line. See Asker."""

    def __init__(self) -> None:
        self._phase: str | None = None
        self._has_begun = False
        self._said: dict[str, str] = {}
        """What was answered to each question, to show it when it is asked again."""

    async def wish(self) -> str:
        """See Asker.wish."""
        return await read_line("What should your bot do?")

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        self._begin(session)
        match session.turn:
            case AskQuestion() as turn:
                return await self._choose(session, turn)
            case Clarify(message=message):
                return {"free_text": await read_line(message)}
            case ShowPreview(preview=preview):
                say("\nSo far", *_shown(rows_of_preview(preview, session.conversation)))
                return await _confirm("Is that right?", session)
            case ReadyToAssemble(config=config):
                say("\nReady to be built", *_shown(rows_of_config(config, session.conversation)))
                return await _confirm("Build it?", session)

    def show(self, session: SessionView, texts: Sequence[str]) -> None:  # noqa: ARG002 (it is about the session)
        """See Asker.show."""
        say(*texts)

    def refused(self, error: PerdureError, pending: Pending | None = None) -> None:  # noqa: ARG002 (it is asked again)
        """See Asker.refused."""
        say(error.detail)

    def _begin(self, session: SessionView) -> None:
        """Remind a person who comes back of what was answered."""
        if not self._has_begun and session.conversation:
            say("Answered so far:", *(f"  {each.asked} {each.answer}" for each in session.conversation))
        self._has_begun = True
        self._said |= {each.question: each.answer for each in session.conversation}

    async def _choose(self, session: SessionView, turn: AskQuestion) -> Any:
        if turn.phase_label != self._phase:
            self._phase = turn.phase_label
            say("", self._phase)
        first = first_choice(turn)
        said_before = self._said.get(turn.question)
        say(turn.question, *([f"  (your answer was: {said_before})"] if said_before else []))
        for number, option in enumerate(turn.options):
            hint = f" (suggested: {turn.suggestion.reason})" if turn.suggestion and number == first else ""
            say(wrapped_for(f"  {number + 1}. {option.label}: {option.description}{hint}", sys.stderr))
        numbers = "Numbers" if turn.multiple else "A number"
        own_words = ", your own words" if turn.allow_free_text else ""
        usual, shown = _usual(turn, said_before)
        while True:
            said = await read_line(f"{numbers}{own_words}, back or ? [{shown}]:")
            if is_help(said):
                say(explained(turn))
            elif said == _BACK:
                if (back := await self._back(session)) is not None:
                    return back
            else:
                return _read(turn, said) if said else usual

    async def _back(self, session: SessionView) -> Any:
        """Return the answer that leads back; before the first answer, the description can be changed."""
        back = way_back(session)
        if back is not None:
            return back
        if session.mode is not BuilderMode.BOT:
            say("This is the first question.")
            return None
        text = await read_line(f"What should your bot do? [{session.initial_description}]")
        return Restart(text or session.initial_description)


def _usual(turn: AskQuestion, said: str | None) -> tuple[Any, str]:
    """Return what Enter answers, and how that is shown: what was said before, else what is suggested."""
    if not said:
        first = first_choice(turn)
        return {"option_index": first}, str(first + 1)
    marked, own = read_said(turn, said)
    if own:
        return {"free_text": said}, "your answer"
    shown = ", ".join(str(at + 1) for at in marked)
    return ({"option_indexes": marked} if len(marked) > 1 else {"option_index": marked[0]}), shown


def _read(turn: AskQuestion, said: str) -> Any:
    if (chosen := read_number(said, len(turn.options))) is not None:
        return {"option_index": chosen}
    several = [read_number(part, len(turn.options)) for part in re.split(r"[\s,]+", said.strip(", "))]
    numbers = list(dict.fromkeys(number for number in several if number is not None))
    if turn.multiple and None not in several:
        return {"option_indexes": numbers}
    return read_words(turn, said)


async def _confirm(question: str, session: SessionView) -> Any:
    while True:
        said = (await read_line(f"{question} yes, no, back or ? [yes]:")).lower()
        if is_help(said):
            say(explained(session.turn))
        if said == _BACK:
            return way_back(session) or {"confirm": False}
        if said in ("", "y", "yes", "n", "no"):
            return {"confirm": said in ("", "y", "yes")}


def _shown(rows: Sequence[tuple[str, str]]) -> list[str]:
    indents = {name: "\n" + " " * len(f"  {name}: ") for name, _ in rows}
    return [f"  {name}: {value}".replace("\n", indents[name]) for name, value in rows if value]
