"""Who answers a turn when nobody sits at a terminal: a list of answers, or whoever takes what is suggested."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from perdure.app.forge import SessionView
from perdure.errors import Invalid, NotFound
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview

_LARGEST = 1 << 20


class Asker(Protocol):
    """Answers turns."""

    async def answer(self, session: SessionView) -> Any:
        """Return an answer to the pending turn, in its wire form.

        Raises: Invalid when there is none.
        """
        ...

    def tell(self, sentence: str) -> None:
        """Say why an answer was not taken; it is asked for again. Raises: Invalid where nobody could say another."""
        ...


class Suggested:
    """Takes the suggested option, or the first, and confirms everything."""

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        match session.turn:
            case AskQuestion(options=options, suggestion=suggestion):
                ids = [option.id for option in options]
                return {"option_index": ids.index(suggestion.option_id) if suggestion else 0}
            case Clarify():
                return {"free_text": session.initial_description}
            case _:
                return {"confirm": True}

    def tell(self, sentence: str) -> None:
        """See Asker.tell."""
        raise Invalid(sentence)


class Listed:
    """Reads answers from a list, one for each turn; what comes after them is asked of somebody else."""

    def __init__(self, answers: list[Any], then: Asker | None = None) -> None:
        self._answers: Iterator[Any] = iter(answers)
        self._then = then

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        nothing = object()
        found = next(self._answers, nothing)
        if found is not nothing:
            return found
        if self._then is not None:
            return await self._then.answer(session)
        raise Invalid(f"The answers have run out. Asked now: {headline(session)} {how_to_go_on(session)}")

    def tell(self, sentence: str) -> None:
        """See Asker.tell."""
        raise Invalid(sentence)


def read_answers(path: Path) -> list[Any]:
    """Read a file with a JSON list of answers.

    Raises: NotFound; Invalid
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        answers = json.loads(text)
    except FileNotFoundError:
        raise NotFound(f"There is no file {path}.") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} was expected to hold a JSON list of answers: {error}.") from None
    if not isinstance(answers, list) or len(text) > _LARGEST:
        raise Invalid(f"{path} was expected to hold a JSON list of answers, one for each turn.")
    return answers


def headline(session: SessionView) -> str:
    """Say in one line what is pending."""
    match session.turn:
        case AskQuestion(question=question):
            return question
        case Clarify(message=message):
            return message
        case ShowPreview(phase=phase):
            return f"the preview of {phase}"
        case ReadyToAssemble():
            return "everything is known; it is ready to be built"


def how_to_go_on(session: SessionView) -> str:
    """Name the command that takes a session up again."""
    return f"Nothing is lost; go on with: perdure new --resume {session.session_id}"
