"""The wizard on a terminal: lists with arrow keys, the phase, the preview, and ways back and out."""

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import (
    AskQuestion,
    Clarify,
    ReadyToAssemble,
    ShowPreview,
    explain_turn,
    is_help,
    is_undecided,
    without_hint,
)
from perdure.app.builder.vocabulary import BuilderMode, BuilderPhase
from perdure.errors import Invalid, PerdureError
from perdure.interfaces.cli.forge.askers import (
    Pending,
    Restart,
    back_answer,
    default_option,
    description_prompt,
    earlier_text,
    is_back,
    label_of_answer,
    read_typed,
)
from perdure.interfaces.cli.forge.layout import config_rows, preview_rows
from perdure.interfaces.cli.forge.multiple_choice import MultipleChoice
from perdure.interfaces.cli.output.terminal import lines, one_line
from perdure.interfaces.cli.prompts.layout import Choice, exchange_text, wrapped
from perdure.interfaces.cli.prompts.lists import BACK, OTHER, select, words


class Wizard:
    """Asks a person. See Asker."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._phase: str | None = None
        self._has_shown_recap = False
        self._previous: dict[str, str] = {}
        """The previous answer to each question, preselected when the question is asked again."""
        self._unconfirmed: tuple[str, str] | None = None
        """The last question and answer, until the answer is accepted or rejected."""

    async def ask_description(self) -> str:
        """See Asker.ask_description."""
        return await self._ask_text("What should your bot do?")

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        self._print_accepted()
        self._show_recap(session)
        match session.turn:
            case AskQuestion() as turn:
                self._show_phase(turn.phase_label)
                if (earlier := earlier_text(turn)) is not None:
                    self._previous.setdefault(turn.question, earlier)
                return await self._ask(session, turn)
            case Clarify(message=message):
                return {"free_text": await self._ask_text(message)}
            case ShowPreview(phase=phase, preview=preview):
                self._show_phase(phase.label)
                self._console.print(_panel("Preview", preview_rows(preview, session.conversation)))
                return await self._confirm("Is this correct?", session, "ask this part again")
            case ReadyToAssemble(config=config):
                self._show_phase(BuilderPhase.REVIEW.label)
                self._console.print(_panel("Ready to be built", config_rows(config, session.conversation)))
                return await self._confirm("Build it?", session, "back to the last part")

    def show(self, session: SessionView, texts: Sequence[str]) -> None:
        """See Asker.show."""
        self._print_accepted()
        self._show_recap(session)
        self._show_phase(session.phase.label)
        for text in texts:
            self._console.print(Text(lines(text.rstrip("\n"))))

    def show_busy(self) -> AbstractContextManager[object]:
        """See Asker.show_busy."""
        return self._console.status("Thinking …")

    def show_error(self, error: PerdureError, pending: Pending | None = None) -> None:  # noqa: ARG002 (the caller asks again)
        """See Asker.show_error."""
        if self._unconfirmed is not None:
            self._print_exchange(*self._unconfirmed, mark="✗")
            self._unconfirmed = None
        self._console.print(Text(lines(error.detail), style="yellow"))

    def _show_recap(self, session: SessionView) -> None:
        """Print the description and the answers of a resumed session, once."""
        if not self._has_shown_recap and session.revision > 1:
            self._console.print(Text(f"Resuming: {one_line(session.initial_description[:200])}", style="dim"))
            for each in session.conversation:
                self._print_exchange(each.question, each.answer)
            for each in session.earlier:
                self._print_exchange(each.question, f"{each.answer} (asked again)", mark="·")
        self._has_shown_recap = True
        self._previous |= {each.question: each.answer for each in session.conversation}

    async def _ask(self, session: SessionView, turn: AskQuestion) -> Any:
        """Ask until there is an answer; BACK is turned into the answer that leads back."""
        while True:
            answer = await (self._choose_several(turn) if turn.multiple else self._choose(turn))
            if answer is not BACK:
                return answer
            back = await self._back(session, turn)
            if back is not None:
                return back

    async def _back(self, session: SessionView, turn: AskQuestion) -> Any:
        """Return the answer that leads back; before the first answer, the description can be changed."""
        self._print_exchange(turn.question, "Back", mark="←")
        back = back_answer(session)
        if back is not None:
            return back
        if session.mode is not BuilderMode.BOT:
            self._console.print(Text("This is the first question.", style="yellow"))
            return None
        question = description_prompt(session)
        text = await self._text(question, session.initial_description)
        self._print_exchange(question, text or session.initial_description)
        return Restart(text or session.initial_description)

    async def _choose(self, turn: AskQuestion) -> Any:
        offered = [Choice(each.label, each.description, _hint(turn, each.id)) for each in turn.options]
        choices = [*offered, *([OTHER] if turn.allow_free_text else []), BACK]
        at, text = self._initial_choice(turn, choices)
        while True:
            chosen = await self._select(turn, choices, at)
            if chosen is None:
                continue
            if isinstance(chosen, str):  # typed text instead of a choice
                at, text = choices.index(OTHER), chosen
            elif choices[chosen] is BACK:
                return BACK
            elif choices[chosen] is not OTHER:
                self._remember(turn.question, choices[chosen].label)
                return {"option_index": chosen}
            else:
                at = chosen
            typed = await self._words(turn, text)
            if typed is None:
                at, text = self._initial_choice(turn, choices)
            elif typed:
                return self._parse_typed(turn, typed)

    def _parse_typed(self, turn: AskQuestion, text: str) -> Any:
        """Return the answer that typed text means, or BACK.

        Raises: Invalid
        """
        if is_back(text):
            return BACK
        self._remember(turn.question, text)
        answer = read_typed(turn, text)
        self._remember(turn.question, label_of_answer(turn, answer, text))
        return answer

    async def _choose_several(self, turn: AskQuestion) -> Any:
        """Let a person mark options and add free text until they choose Done."""
        multiple = MultipleChoice(turn, self._previous.get(turn.question), lambda id_: _hint(turn, id_))
        while True:
            choices, at = multiple.choices(), multiple.at
            chosen = await self._select(turn, choices, at)
            if chosen is None:
                continue
            if isinstance(chosen, int) and choices[chosen] is BACK:
                self._previous[turn.question] = multiple.stored_text()
                return BACK
            if isinstance(chosen, str) or choices[chosen] is OTHER:
                text = await self._words(turn, chosen if isinstance(chosen, str) else "") or ""
                if is_undecided(text) or is_back(text):
                    self._previous[turn.question] = multiple.stored_text()
                    return self._parse_typed(turn, text)
                self._add(turn, multiple, text)
            elif multiple.choose(chosen):
                self._remember(turn.question, multiple.summary())
                self._previous[turn.question] = multiple.stored_text()
                return multiple.answer()

    def _add(self, turn: AskQuestion, multiple: MultipleChoice, text: str) -> None:
        """Add typed text as an answer; the number of an option marks that option."""
        try:
            answer = read_typed(turn, text)
        except Invalid as error:
            self._console.print(Text(error.detail, style="yellow"))
            return
        multiple.add(label_of_answer(turn, answer, text))

    async def _select(self, turn: AskQuestion, choices: Sequence[Choice], at: int) -> int | str | None:
        """Show a list and return the choice; None when the person asked for an explanation."""
        chosen = await select(self._wrapped(turn.question), choices, at, width=self._console.width)
        if isinstance(chosen, str) and is_help(chosen):
            self._explain(turn)
            return None
        return chosen

    async def _words(self, turn: AskQuestion, initial: str) -> str | None:
        """Ask for free text; return None after explaining the question on request."""
        text = await self._text(turn.question, initial)
        if not is_help(text):
            return text
        self._explain(turn)
        return None

    def _explain(self, turn: object) -> None:
        self._console.print(Text(explain_turn(turn), style="dim"))

    async def _ask_text(self, message: str) -> str:
        """Ask for a text, and remember it as the answer to the question."""
        if text := await self._text(message, self._previous.get(message, "")):
            self._remember(message, text)
        return text

    def _initial_choice(self, turn: AskQuestion, choices: Sequence[Choice]) -> tuple[int, str]:
        """Return the preselected index and the initial free text: the previous answer, else the default option."""
        previous = self._previous.get(turn.question)
        labels = [each.label for each in turn.options]
        if previous in labels:
            return labels.index(previous), ""
        if previous is None or OTHER not in choices:
            return default_option(turn), ""
        return choices.index(OTHER), previous

    async def _confirm(self, question: str, session: SessionView, otherwise: str) -> Any:
        """Ask for yes, no, or an earlier phase to answer again."""
        phases = list(dict.fromkeys(each.phase for each in session.conversation))
        earlier = [Choice(f"← {phase.capitalize()}", "back to that part") for phase in phases]
        choices = [Choice("Yes", "continue"), Choice("No", otherwise), *earlier]
        chosen = int(await select(self._wrapped(question), choices, 0, letters="yn", width=self._console.width))
        self._print_exchange(question, choices[chosen].label)
        return {"back": str(phases[chosen - 2])} if chosen > 1 else {"confirm": chosen == 0}

    async def _text(self, question: str, initial: str = "") -> str:
        """Ask for a line of text.

        Raises: KeyboardInterrupt
        """
        return await words(self._wrapped(question), initial)

    def _remember(self, question: str, answer: str) -> None:
        self._unconfirmed = question, answer
        self._previous[question] = answer

    def _print_accepted(self) -> None:
        """Show that the last answer was accepted."""
        if self._unconfirmed is not None:
            self._print_exchange(*self._unconfirmed)
            self._unconfirmed = None

    def _print_exchange(self, question: str, answer: str, mark: str = "✓") -> None:
        """Print a question and its answer on one line, or on two if they do not fit."""
        exchange = exchange_text(without_hint(question), answer, self._console.width, mark)
        self._console.print(exchange, no_wrap=True, overflow="ellipsis")

    def _wrapped(self, question: str) -> str:
        """Return a question broken into lines that fit the terminal."""
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
