"""Questions with numbers, for a terminal that cannot move its cursor."""

from collections.abc import Sequence
from typing import Any

from perdure.app.forge import SessionView
from perdure.errors import PerdureError
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderPhase
from perdure.interfaces.cli.forge.asking import Pending, first_choice, say
from perdure.interfaces.cli.forge.layout import rows_of_config, rows_of_preview
from perdure.interfaces.cli.prompts.plain import read_line, read_number

_BACK = "back"


class Numbered:
    """Asks a person line by line. See Asker."""

    def __init__(self) -> None:
        self._phase: str | None = None

    async def wish(self) -> str:
        """See Asker.wish."""
        return await read_line("What should your bot do?")

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        way_back = "" if session.phase == BuilderPhase.BASICS else f", or {_BACK}"
        match session.turn:
            case AskQuestion() as turn:
                return await self._choose(turn, way_back)
            case Clarify(message=message):
                return {"free_text": await read_line(message)}
            case ShowPreview(preview=preview):
                say("\nSo far", *_shown(rows_of_preview(preview, session.conversation)))
                return await _confirm("Is that right?", way_back)
            case ReadyToAssemble(config=config):
                say("\nReady to be built", *_shown(rows_of_config(config, session.conversation)))
                return await _confirm("Build it?", way_back)

    def show(self, session: SessionView, texts: Sequence[str]) -> None:  # noqa: ARG002 (it is about the session)
        """See Asker.show."""
        say(*texts)

    def refused(self, error: PerdureError, pending: Pending | None = None) -> None:  # noqa: ARG002 (it is asked again)
        """See Asker.refused."""
        say(error.detail)

    async def _choose(self, turn: AskQuestion, way_back: str) -> Any:
        if turn.phase_label != self._phase:
            self._phase = turn.phase_label
            say("", self._phase)
        first = first_choice(turn)
        say(turn.question)
        for number, option in enumerate(turn.options):
            hint = f" (suggested: {turn.suggestion.reason})" if turn.suggestion and number == first else ""
            say(f"  {number + 1}. {option.label}: {option.description}{hint}")
        own_words = ", your own words" if turn.allow_free_text else ""
        while True:
            said = await read_line(f"A number{own_words}{way_back} [{first + 1}]:")
            if not said:
                return {"option_index": first}
            if way_back and said == _BACK:
                return _BACK
            if (chosen := read_number(said, len(turn.options))) is not None:
                return {"option_index": chosen}
            if turn.allow_free_text:
                return {"free_text": said}
            say(f"Expected a number from 1 to {len(turn.options)}.")


async def _confirm(question: str, way_back: str) -> Any:
    while True:
        said = (await read_line(f"{question} yes, no{way_back} [yes]:")).lower()
        if way_back and said == _BACK:
            return _BACK
        if said in ("", "y", "yes", "n", "no"):
            return {"confirm": said in ("", "y", "yes")}


def _shown(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"  {name}: {value}" for name, value in rows if value]
