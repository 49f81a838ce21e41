"""The wizard in a terminal: arrow keys, the phase, what is known so far, and ways back and out."""

import sys
from collections.abc import Sequence
from typing import Any

import questionary
from prompt_toolkit.output import create_output
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perdure.app.forge import SessionView
from perdure.forge.config import BuilderConfig
from perdure.forge.turns import AskQuestion, Clarify, Preview, ReadyToAssemble, ShowPreview
from perdure.interfaces.cli.terminal import lines, one_line

_STYLE = Style(
    [
        ("qmark", "fg:ansicyan bold"),
        ("question", "bold"),
        ("pointer", "fg:ansicyan bold"),
        ("highlighted", "fg:ansicyan bold"),
        ("answer", "fg:ansicyan"),
        ("why", "fg:ansibrightblack"),
        ("hint", "fg:ansiyellow"),
    ]
)
_OTHER = object()
_BACK = object()


class Wizard:
    """Asks a person. See Asker."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False)
        self._phase: str | None = None

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        match session.turn:
            case AskQuestion() as turn:
                self._show_phase(turn.phase_label)
                return await self._choose(turn, has_past=session.phase != "basics")
            case Clarify(message=message):
                return {"free_text": await self.text(message)}
            case ShowPreview(preview=preview):
                self._console.print(_panel("So far", _rows_of_preview(preview)))
                return await self._confirm("Is that right?", "ask this part again", has_past=session.phase != "basics")
            case ReadyToAssemble(config=config):
                self._console.print(_panel("Ready to be built", _rows_of_config(config)))
                return await self._confirm("Build it?", "go back to the skills", has_past=True)

    def tell(self, sentence: str) -> None:
        """See Asker.tell."""
        self._console.print(Text(lines(sentence), style="yellow"))

    async def text(self, question: str) -> str:
        """Ask for a few words.

        Raises: KeyboardInterrupt
        """
        prompt = questionary.text(one_line(question), style=_STYLE, qmark="?", output=create_output(sys.stderr))
        return str(await prompt.unsafe_ask_async())

    async def _choose(self, turn: AskQuestion, *, has_past: bool) -> Any:
        choices = [
            questionary.Choice(_title(option.label, option.description, _hint(turn, option.id)), value=number)
            for number, option in enumerate(turn.options)
        ]
        if turn.allow_free_text:
            choices.append(questionary.Choice(_title("Other…", "say it in your own words"), value=_OTHER))
        if has_past:
            choices.append(questionary.Choice(_title("← Back", "to the part before"), value=_BACK))
        chosen = await self._select(turn.question, choices, _place_of_suggestion(turn))
        if chosen is _BACK:
            return "back"
        if chosen is _OTHER:
            return {"free_text": await self.text(turn.question)}
        return {"option_index": chosen}

    async def _confirm(self, question: str, otherwise: str, *, has_past: bool) -> Any:
        choices = [
            questionary.Choice(_title("Yes", "go on"), value=True),
            questionary.Choice(_title("No", otherwise), value=False),
        ]
        if has_past:
            choices.append(questionary.Choice(_title("← Back", "to the part before"), value=_BACK))
        chosen = await self._select(question, choices, 0)
        return "back" if chosen is _BACK else {"confirm": chosen}

    async def _select(self, question: str, choices: Sequence[questionary.Choice], first: int) -> Any:
        prompt = questionary.select(
            one_line(question),
            choices=choices,
            default=choices[first],
            style=_STYLE,
            qmark="?",
            instruction=" ",
            output=create_output(sys.stderr),
        )
        return await prompt.unsafe_ask_async()

    def _show_phase(self, label: str) -> None:
        if label != self._phase:
            self._phase = label
            self._console.rule(Text(label, style="bold"), align="left", style="dim")


def _title(label: str, why: str, hint: str = "") -> list[tuple[str, str]]:
    return [
        ("class:text", one_line(label)),
        ("class:why", f"  {one_line(why)}"),
        *([("class:hint", f"  ★ {one_line(hint)}")] if hint else []),
    ]


def _hint(turn: AskQuestion, option_id: str) -> str:
    return turn.suggestion.reason if turn.suggestion and turn.suggestion.option_id == option_id else ""


def _place_of_suggestion(turn: AskQuestion) -> int:
    ids = [option.id for option in turn.options]
    return ids.index(turn.suggestion.option_id) if turn.suggestion else 0


def _panel(title: str, rows: Sequence[tuple[str, str]]) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(name, Text(lines(value)))
    return Panel(table, title=title, title_align="left", border_style="cyan", expand=False)


def _rows_of_preview(preview: Preview) -> list[tuple[str, str]]:
    return [
        ("name", preview.name or ""),
        ("for", preview.description or ""),
        ("manner", preview.personality_summary or ""),
        ("model", preview.model or ""),
        ("skills", ", ".join(preview.skills)),
    ]


def _rows_of_config(config: BuilderConfig) -> list[tuple[str, str]]:
    settings = config.model_settings
    return [
        ("name", config.name),
        ("for", config.description),
        ("kind", config.category),
        ("manner", f"{config.personality.tone}; {', '.join(config.personality.traits)}"),
        ("holds to", "\n".join(config.personality.boundaries)),
        ("model", f"{settings.model}, temperature {settings.temperature:g}, up to {settings.max_tokens} tokens"),
        ("skills", ", ".join(skill.name for skill in config.skills) or "none"),
    ]
