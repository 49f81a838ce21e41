"""The wizard in a terminal: arrow keys, the phase, what is known so far, and ways back and out."""

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perdure.app.builder.sessions import SessionView
from perdure.errors import Invalid, PerdureError
from perdure.forge.answers import is_help, is_undecided
from perdure.forge.interview.interview import explained
from perdure.forge.state import without_hint
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderMode, BuilderPhase
from perdure.interfaces.cli.forge.asking import Pending, Restart, first_choice, label_of, read_words, way_back
from perdure.interfaces.cli.forge.layout import rows_of_config, rows_of_preview
from perdure.interfaces.cli.forge.several import Several
from perdure.interfaces.cli.output.terminal import lines, one_line
from perdure.interfaces.cli.prompts.layout import Choice, answered, wrapped
from perdure.interfaces.cli.prompts.lists import BACK, OTHER, select, words


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
        match session.turn:
            case AskQuestion() as turn:
                self._show_phase(turn.phase_label)
                return await self._ask(session, turn)
            case Clarify(message=message):
                return {"free_text": await self._more(message)}
            case ShowPreview(phase=phase, preview=preview):
                self._show_phase(phase.label)
                self._console.print(_panel("So far", rows_of_preview(preview, session.conversation)))
                return await self._confirm("Is that right?", session, "ask this part again")
            case ReadyToAssemble(config=config):
                self._show_phase(BuilderPhase.REVIEW.label)
                self._console.print(_panel("Ready to be built", rows_of_config(config, session.conversation)))
                return await self._confirm("Build it?", session, "back to the last part")

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
        """Remind a person who comes back of what it was about, and of what they answered."""
        if not self._has_begun and session.revision > 1:
            self._console.print(Text(f"Going on: {one_line(session.initial_description[:200])}", style="dim"))
            for each in session.conversation:
                self._tell(each.question, each.answer)
        self._has_begun = True
        self._said |= {each.question: each.answer for each in session.conversation}

    async def _ask(self, session: SessionView, turn: AskQuestion) -> Any:
        """Ask until there is an answer, or a way back."""
        while True:
            said = await (self._choose_several(turn) if turn.multiple else self._choose(turn))
            if said is not BACK:
                return said
            back = await self._back(session, turn)
            if back is not None:
                return back

    async def _back(self, session: SessionView, turn: AskQuestion) -> Any:
        """Return the answer that leads back; before the first answer, the description can be changed."""
        self._tell(turn.question, BACK.label)
        back = way_back(session)
        if back is not None:
            return back
        if session.mode is not BuilderMode.BOT:
            self._console.print(Text("This is the first question.", style="yellow"))
            return None
        question = "What should your bot do?"
        text = await self._text(question, session.initial_description)
        self._tell(question, text or session.initial_description)
        return Restart(text or session.initial_description)

    async def _choose(self, turn: AskQuestion) -> Any:
        offered = [Choice(each.label, each.description, _hint(turn, each.id)) for each in turn.options]
        choices = [*offered, *([OTHER] if turn.allow_free_text else []), BACK]
        at, text = self._beginning(turn, choices)
        while True:
            chosen = await self._select(turn, choices, at)
            if chosen is None:
                continue
            if isinstance(chosen, str):  # what was typed, instead of choosing
                at, text = choices.index(OTHER), chosen
            elif choices[chosen] is BACK:
                return BACK
            elif choices[chosen] is not OTHER:
                self._remember(turn.question, choices[chosen].label)
                return {"option_index": chosen}
            else:
                at = chosen
            if text := await self._words(turn, text):
                return self._read(turn, text)

    def _read(self, turn: AskQuestion, text: str) -> Any:
        """Return what typed words answer.

        Raises: Invalid
        """
        self._remember(turn.question, text)
        answer = read_words(turn, text)
        self._remember(turn.question, label_of(turn, answer, text))
        return answer

    async def _choose_several(self, turn: AskQuestion) -> Any:
        """Let a person mark options, and add words of their own, until they are done."""
        several = Several(turn, self._said.get(turn.question), lambda id_: _hint(turn, id_))
        while True:
            choices, at = several.choices(), several.at
            chosen = await self._select(turn, choices, at)
            if chosen is None:
                continue
            if isinstance(chosen, int) and choices[chosen] is BACK:
                self._said[turn.question] = several.said()
                return BACK
            if isinstance(chosen, str) or choices[chosen] is OTHER:
                text = await self._words(turn, chosen if isinstance(chosen, str) else "")
                if is_undecided(text):
                    return self._read(turn, text)
                self._add(turn, several, text)
            elif several.choose(chosen):
                self._remember(turn.question, several.told())
                self._said[turn.question] = several.said()
                return several.answer()

    def _add(self, turn: AskQuestion, several: Several, text: str) -> None:
        """Add typed words; the number of an option marks it."""
        try:
            answer = read_words(turn, text)
        except Invalid as error:
            self._console.print(Text(error.detail, style="yellow"))
            return
        several.add(label_of(turn, answer, text))

    async def _select(self, turn: AskQuestion, choices: Sequence[Choice], at: int) -> int | str | None:
        """Show a list; None when the person only wanted to know what the question means."""
        chosen = await select(self._asked(turn.question), choices, at, width=self._console.width)
        if isinstance(chosen, str) and is_help(chosen):
            self._explain(turn)
            return None
        return chosen

    async def _words(self, turn: AskQuestion, begun: str) -> str:
        """Ask for words, and explain the question when that is what was asked for."""
        text = await self._text(turn.question, begun)
        if not is_help(text):
            return text
        self._explain(turn)
        return ""

    def _explain(self, turn: object) -> None:
        self._console.print(Text(explained(turn), style="dim"))

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

    async def _confirm(self, question: str, session: SessionView, otherwise: str) -> Any:
        """Ask for a yes, a no, or which earlier part is to be answered again."""
        phases = list(dict.fromkeys(each.phase for each in session.conversation))
        earlier = [Choice(f"← {phase.capitalize()}", "back to that part") for phase in phases]
        choices = [Choice("Yes", "go on"), Choice("No", otherwise), *earlier]
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
