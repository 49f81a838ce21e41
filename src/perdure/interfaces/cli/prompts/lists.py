"""A selectable list and a text line, for a terminal that can move its cursor."""

import os
import sys
from collections.abc import Sequence

import questionary
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, FormattedTextControl, HSplit, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from questionary.prompts.common import InquirerControl

from perdure.interfaces.cli.prompts.layout import Choice, layout_choices
from perdure.interfaces.cli.prompts.matching import match_options

_STYLE = Style(
    [
        ("qmark", "fg:ansicyan bold"),
        ("question", "bold"),
        ("instruction", "fg:ansibrightblack"),
        ("pointer", "fg:ansicyan bold"),
        ("text", ""),
        ("why", "fg:ansibrightblack"),
        ("hint", "fg:ansiyellow"),
    ]
)
OTHER = Choice("Other…", "say it in your own words")
BACK = Choice("← Back", "to an earlier question")
_HOW = "(↑ ↓ Enter; Ctrl-C keeps it for later)"
_HOW_TYPED = "(↑ ↓ Enter; ? explains; Ctrl-C keeps it for later)"


async def select(
    question: str, choices: Sequence[Choice], first: int, *, width: int, letters: str = "", leave: str | None = None
) -> int | str:
    """Show a list, return the index of the choice, and erase the list.

    Each of `letters` selects the option at its position. If the list has OTHER, any other typed text is returned;
    otherwise it moves the selection to the option that it names. `leave` labels the action of Esc; without it, Esc
    does nothing.

    Raises: KeyboardInterrupt; EOFError at Ctrl-D, or Esc.
    """
    shown = [
        questionary.Choice(list(title), value=number) for number, title in enumerate(layout_choices(choices, width))
    ]
    how = _HOW_TYPED if OTHER in choices else _HOW
    if leave is not None:
        how = f"(↑ ↓ Enter; Esc {leave})"
    prompt = questionary.select(
        question,
        choices=shown,
        default=shown[first],
        style=_STYLE,
        qmark="?",
        instruction=how if width > len(question) + len(how) + 4 else " ",
        output=_output(),
        erase_when_done=True,
        use_jk_keys=False,
    )
    keys = _keys(choices, letters)
    if OTHER not in choices:
        _Typing(prompt, [choice.label for choice in choices]).bind(keys)
    _bind(prompt, keys, leave)
    chosen: int | str = await prompt.unsafe_ask_async()
    return chosen


class _Typing:
    """Typed text at a list: it moves the selection, and Enter accepts it only if it names exactly one option.

    Without this, the keys of a typed `no` would be ignored, and Enter would accept the first option.
    """

    def __init__(self, prompt: questionary.Question, labels: Sequence[str]) -> None:
        layout = prompt.application.layout
        self._labels = labels
        self._text = ""
        self._list = next(each for each in layout.find_all_controls() if isinstance(each, InquirerControl))
        line = Window(FormattedTextControl(lambda: [("class:hint", self._hint())]), wrap_lines=True)
        has_text = Condition(lambda: bool(self._text))
        layout.container = HSplit([layout.container, ConditionalContainer(line, filter=has_text)])

    def bind(self, keys: KeyBindings) -> None:
        """Add the keys that type, move and accept; they replace those of questionary."""
        keys.add(Keys.Any)(self._type)
        keys.add(Keys.BracketedPaste)(self._type)
        keys.add(Keys.Backspace, eager=True)(lambda _event: self._set(self._text[:-1]))
        keys.add(Keys.Enter, eager=True)(self._accept)
        for key, step in ((Keys.Down, 1), (Keys.ControlN, 1), (Keys.Up, -1), (Keys.ControlP, -1)):
            keys.add(key, eager=True)(lambda _event, step=step: self._move(step))

    def _type(self, event: KeyPressEvent) -> None:
        self._set(self._text + "".join(each for each in event.data if each.isprintable()))

    def _set(self, text: str) -> None:
        self._text = text
        matches = self._matches()
        if matches:
            self._list.pointed_at = matches[0]

    def _move(self, step: int) -> None:
        self._text = ""
        self._list.pointed_at = (self._list.pointed_at + step) % len(self._labels)

    def _accept(self, event: KeyPressEvent) -> None:
        if not self._text or len(self._matches()) == 1:
            event.app.exit(result=self._list.pointed_at)

    def _matches(self) -> list[int]:
        return match_options(self._text, self._labels)

    def _hint(self) -> str:
        found = len(self._matches())
        if found == 1:
            return f"  {self._text}"
        problem = "names several options" if found else "names none of the options"
        return f"  {self._text!r} {problem}: type the beginning of one or its number (Backspace deletes)"


async def words(question: str, initial: str = "", *, leave: str | None = None) -> str:
    """Read a typed line, with an editable initial text. `leave` labels the action of Esc, as in `select`.

    Raises: KeyboardInterrupt; EOFError at Ctrl-D on an empty line, or Esc.
    """
    how = None if leave is None else f"(Esc {leave})"
    prompt = questionary.text(
        question, default=initial, style=_STYLE, qmark="?", instruction=how, output=_output(), erase_when_done=True
    )
    _bind(prompt, KeyBindings(), leave)
    return str(await prompt.unsafe_ask_async()).strip()


def _bind(prompt: questionary.Question, keys: KeyBindings, leave: str | None) -> None:
    """Add keys to those of a prompt, and Esc if it leaves the question."""
    if leave is not None:
        keys.add(Keys.Escape, eager=True)(_leave)
    own = prompt.application.key_bindings
    prompt.application.key_bindings = merge_key_bindings([*([own] if own else []), keys])


def _leave(event: KeyPressEvent) -> None:
    event.app.exit(exception=EOFError())


def _output() -> Vt100_Output:
    """Return an output to standard error that does not query the cursor position: some terminals do not answer."""
    depth = ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else None
    output = Vt100_Output.from_pty(sys.stderr, term=os.environ.get("TERM"), default_color_depth=depth)
    output.enable_cpr = False
    return output


def _keys(choices: Sequence[Choice], letters: str) -> KeyBindings:
    """Return the key bindings that are added to those of questionary."""
    keys = KeyBindings()
    keys.add(Keys.SIGINT, eager=True)(lambda event: event.app.exit(exception=KeyboardInterrupt()))
    keys.add(Keys.ControlD, eager=True)(_leave)
    numbered: dict[str | Keys, int] = {letter: number for number, letter in enumerate(letters)}
    if BACK in choices:
        numbered[Keys.Left] = choices.index(BACK)
    for key, number in numbered.items():
        keys.add(key, eager=True)(lambda event, number=number: event.app.exit(result=number))
    if OTHER in choices:
        keys.add(Keys.Any)(_typed)
        keys.add(Keys.BracketedPaste)(_typed)
    return keys


def _typed(event: KeyPressEvent) -> None:
    """Leave the list with typed text; other keys do nothing."""
    if event.data.strip() and event.data.isprintable():
        event.app.exit(result=event.data)
