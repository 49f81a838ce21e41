"""The wizard in a terminal: arrow keys, the phase, what is known so far, and ways back and out."""

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perdure.app.forge import SessionView
from perdure.errors import PerdureError
from perdure.forge.state import without_hint
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderPhase
from perdure.interfaces.cli.forge.asking import Pending, first_choice
from perdure.interfaces.cli.forge.layout import rows_of_config, rows_of_preview
from perdure.interfaces.cli.prompts.layout import Choice, answered, wrapped
from perdure.interfaces.cli.prompts.lists import BACK, OTHER, select, words
from perdure.interfaces.cli.terminal import lines, one_line


class Wizard:
    """Asks a person. See Asker."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._phase: str | None = None
        self._has_begun = False
        self._said: dict[str, str] = {}
        """What was answered to each question, to begin there when it is asked again."""
        self._untold: tuple[str, str] | None = None
        """What was answered last, while it is not sure yet that it was taken."""

    async def wish(self) -> str:
        """See Asker.wish."""
        return await self._more("What should your bot do?")

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        self._tell_last()
        self._begin(session)
        has_past = session.phase != BuilderPhase.BASICS
        match session.turn:
            case AskQuestion() as turn:
                self._show_phase(turn.phase_label)
                return await self._choose(turn, has_past=has_past)
            case Clarify(message=message):
                return {"free_text": await self._more(message)}
            case ShowPreview(phase=phase, preview=preview):
                self._show_phase(phase.label)
                self._console.print(_panel("So far", rows_of_preview(preview, session.conversation)))
                return await self._confirm("Is that right?", "ask this part again", has_past=has_past)
            case ReadyToAssemble(config=config):
                self._show_phase(BuilderPhase.REVIEW.label)
                self._console.print(_panel("Ready to be built", rows_of_config(config, session.conversation)))
                return await self._review("Build it?")

    def show(self, session: SessionView, texts: Sequence[str]) -> None:
        """See Asker.show."""
        self._tell_last()
        self._begin(session)
        self._show_phase(session.phase.label)
        for text in texts:
            self._console.print(Text(lines(text.rstrip("\n"))))

    def refused(self, error: PerdureError, pending: Pending | None = None) -> None:  # noqa: ARG002 (it is asked again)
        """See Asker.refused."""
        if self._untold is not None:
            self._tell(*self._untold, mark="✗")
            self._untold = None
        self._console.print(Text(lines(error.detail), style="yellow"))

    def _begin(self, session: SessionView) -> None:
        """Remind a person who comes back of what it was about."""
        if not self._has_begun and session.revision > 1:
            self._console.print(Text(f"Going on: {one_line(session.initial_description[:200])}", style="dim"))
        self._has_begun = True

    async def _choose(self, turn: AskQuestion, *, has_past: bool) -> Any:
        offered = [Choice(each.label, each.description, _hint(turn, each.id)) for each in turn.options]
        choices = [*offered, *([OTHER] if turn.allow_free_text else []), *([BACK] if has_past else [])]
        at, text = self._beginning(turn, choices)
        while True:
            chosen = await select(self._asked(turn.question), choices, at, width=self._console.width)
            if isinstance(chosen, str):  # what was typed, instead of choosing
                at, text = choices.index(OTHER), chosen
            elif choices[chosen] is BACK:
                self._tell(turn.question, BACK.label)
                return "back"
            elif choices[chosen] is not OTHER:
                self._remember(turn.question, choices[chosen].label)
                return {"option_index": chosen}
            else:
                at = chosen
            if text := await self._text(turn.question, text):
                self._remember(turn.question, text)
                return {"free_text": text}

    async def _more(self, message: str) -> str:
        """Ask for more words about the wish."""
        if text := await self._text(message, self._said.get(message, "")):
            self._remember(message, text)
        return text

    def _beginning(self, turn: AskQuestion, choices: Sequence[Choice]) -> tuple[int, str]:
        """Return where a list begins, and a text to begin with: what was said before, else what is suggested."""
        said = self._said.get(turn.question)
        labels = [each.label for each in turn.options]
        if said in labels:
            return labels.index(said), ""
        return (first_choice(turn), "") if said is None or OTHER not in choices else (choices.index(OTHER), said)

    async def _confirm(self, question: str, otherwise: str, *, has_past: bool) -> Any:
        choices = [Choice("Yes", "go on"), Choice("No", otherwise), *([BACK] if has_past else [])]
        chosen = choices[int(await select(self._asked(question), choices, 0, letters="yn", width=self._console.width))]
        self._tell(question, chosen.label)
        return "back" if chosen is BACK else {"confirm": chosen is choices[0]}

    async def _review(self, question: str) -> Any:
        """Ask for the last word: yes, no, or which earlier part is to be answered again."""
        phases = (BuilderPhase.BASICS, BuilderPhase.PERSONALITY, BuilderPhase.MODEL)
        earlier = [Choice(f"← {phase.capitalize()}", "back to that part") for phase in phases]
        choices = [Choice("Yes", "go on"), Choice("No", "back to the skills"), *earlier]
        chosen = int(await select(self._asked(question), choices, 0, letters="yn", width=self._console.width))
        self._tell(question, choices[chosen].label)
        return {"back": str(phases[chosen - 2])} if chosen > 1 else {"confirm": chosen == 0}

    async def _text(self, question: str, begun: str = "") -> str:
        """Ask for a few words.

        Raises: KeyboardInterrupt
        """
        return await words(self._asked(question), begun)

    def _remember(self, question: str, answer: str) -> None:
        self._untold = question, answer
        self._said[question] = answer

    def _tell_last(self) -> None:
        """Say that the last answer was taken."""
        if self._untold is not None:
            self._tell(*self._untold)
            self._untold = None

    def _tell(self, question: str, answer: str, mark: str = "✓") -> None:
        """Leave one line of what was asked and answered, or two where both do not fit into one."""
        told = answered(without_hint(question), answer, self._console.width, mark)
        self._console.print(told, no_wrap=True, overflow="ellipsis")

    def _asked(self, question: str) -> str:
        """Return a question in lines that a terminal does not have to break."""
        return "\n  ".join(wrapped(one_line(question), self._console.width - 4))

    def _show_phase(self, label: str) -> None:
        if label != self._phase:
            self._phase = label
            self._console.print()
            self._console.rule(Text(label, style="bold"), align="left", style="dim")


def _hint(turn: AskQuestion, option_id: str) -> str:
    return turn.suggestion.reason if turn.suggestion and turn.suggestion.option_id == option_id else ""


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(name, Text(lines(value)))
    return Panel(table, title=title, title_align="left", border_style="cyan", expand=False)
