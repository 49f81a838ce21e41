"""Answers turns without a terminal: from a list of answers, or by the suggested option."""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from perdure.app.builder.sessions import SessionView
from perdure.errors import Invalid, PerdureError
from perdure.forge.answers import is_undecided
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.interfaces.cli.files import read_file
from perdure.interfaces.cli.output.terminal import lines
from perdure.interfaces.cli.prompts.plain import read_number
from perdure.text.strict_json import SYNTAX, parse_json

_LARGEST = 1 << 20
_NUMBER = re.compile(r"\(Other: a (?:number|temperature)")
"""Questions that may be answered with a number which is not that of an option."""
_NUMBERS = re.compile(r"[0-9][0-9\s,]*")
"""What is typed to choose an option, or several where only one can be chosen."""


class Asker(Protocol):
    """Answers turns."""

    async def wish(self) -> str:
        """Return the description of the bot. Raises: Invalid when there is none and no person can be asked."""
        ...

    async def answer(self, session: SessionView) -> Any:
        """Return an answer to the pending turn, in its wire form, or a Restart.

        Raises: Invalid when there is none; KeyboardInterrupt or EOFError when the person wants to go.
        """
        ...

    def show(self, session: SessionView, texts: Sequence[str]) -> None:
        """Show what has to be known before the pending turn is answered."""
        ...

    def refused(self, error: PerdureError, pending: "Pending | None" = None) -> None:
        """Say why an answer was not taken; it is asked for again.

        Raises: the error, with the pending turn, when no other answer can be given.
        """
        ...


@dataclass(frozen=True)
class Restart:
    """The person wants another description; nothing was answered yet."""

    description: str


@dataclass(frozen=True)
class Pending:
    """A session that still waits for an answer, and the command to go on with it."""

    session: SessionView
    again: str

    def told(self, error: PerdureError, place: str = "") -> PerdureError:
        """Return an error that says what is asked now, what would answer it, and how to go on."""
        detail = f"{place}{error.detail} Asked now: {headline(self.session)} Nothing is lost; go on with: {self.again}"
        return type(error)(detail, errors=offers(self.session), current=self.session.wire())


class Suggested:
    """Takes the suggested option, or the first, and confirms everything."""

    async def wish(self) -> str:
        """See Asker.wish."""
        raise Invalid('Say what the bot is for: perdure new "I want a coding assistant".')

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        match session.turn:
            case AskQuestion() as turn:
                return {"option_index": first_choice(turn)}
            case Clarify():
                return {"free_text": session.initial_description}
            case _:
                return {"confirm": True}

    def show(self, session: SessionView, texts: Sequence[str]) -> None:  # noqa: ARG002 (it is about the session)
        """See Asker.show."""
        say(*texts)

    def refused(self, error: PerdureError, pending: Pending | None = None) -> None:
        """See Asker.refused."""
        raise error if pending is None else pending.told(error)


class Listed(Suggested):
    """Reads answers from a list, one for each question; what comes after them is left to another asker."""

    def __init__(self, answers: list[Any], then: Asker | None = None) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self._then = then
        self._taken = 0
        self._place = ""

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        nothing = object()
        found = next(self._answers, nothing)
        self._taken += 1
        self._place = "" if found is nothing else f"Answer {self._taken} of the list: "
        if found is not nothing:
            return found
        if self._then is not None:
            return await self._then.answer(session)
        raise Invalid("The answers have run out.")

    def refused(self, error: PerdureError, pending: Pending | None = None) -> None:
        """See Asker.refused."""
        raise error if pending is None else pending.told(error, self._place)


def say(*texts: str) -> None:
    """Tell a person something, beside what a program reads."""
    for text in texts:
        print(lines(text), file=sys.stderr)


def read_answers(path: Path) -> list[Any]:
    """Read a file with a JSON list of answers.

    Raises: NotFound; Invalid; Denied
    """
    answers = parse_json(read_file(path, _LARGEST), str(path), SYNTAX)
    if not isinstance(answers, list):
        raise Invalid(f"{path} must hold a JSON list of answers, one for each question.")
    return answers


def first_choice(turn: AskQuestion) -> int:
    """Return the number of the option that is suggested, or else of the first."""
    ids = [option.id for option in turn.options]
    return ids.index(turn.suggestion.option_id) if turn.suggestion else 0


def read_words(turn: AskQuestion, text: str) -> Any:
    """Read what was typed: words of one's own, the number of an option, or that the choice is left to us.

    Raises: Invalid when it is a number that no option has, or several, and the question does not ask for one.
    """
    if turn.options and is_undecided(text):
        return {"option_index": first_choice(turn)}
    if turn.options and _NUMBERS.fullmatch(text):
        if (chosen := read_number(text, len(turn.options))) is not None:
            return {"option_index": chosen}
        if not _NUMBER.search(turn.question):
            raise Invalid(f"There is no option {text[:20]}. Type 1 to {len(turn.options)}, or say it in words.")
    return {"free_text": text}


def label_of(turn: AskQuestion, answer: Any, text: str) -> str:
    """Return what an answer chose, as a person reads it; words of their own stay as they are."""
    return turn.options[answer["option_index"]].label if "option_index" in answer else text


def way_back(session: SessionView) -> Any:
    """Return the answer that leads back: to the beginning of this part, else to the part before; None at the start."""
    if any(each.phase == session.phase for each in session.conversation):
        return {"back": str(session.phase)}
    return "back" if session.conversation else None


def headline(session: SessionView) -> str:
    """Say in one line what is pending."""
    match session.turn:
        case AskQuestion(question=question):
            return question
        case Clarify(message=message):
            return message
        case ShowPreview(phase=phase):
            return f"Is the preview of {phase} right?"  # only in drafts of earlier versions
        case ReadyToAssemble():
            return "Everything is known. Is it to be built?"


def offers(session: SessionView) -> list[str]:
    """Show the options of what is pending, as an answer counts them."""
    if not isinstance(session.turn, AskQuestion):
        return []
    return [f"{number}: {each.label}: {each.description}" for number, each in enumerate(session.turn.options)]
