"""A list to choose from, and a line to type into, at a terminal that can move its cursor."""

import os
import sys
from collections.abc import Sequence

import questionary
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from perdure.interfaces.cli.prompts.layout import Choice, laid_out

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
BACK = Choice("← Back", "to the part before")
_HOW = "(↑ ↓ Enter; Ctrl-C keeps it for later)"


async def select(
    question: str, choices: Sequence[Choice], first: int, *, width: int, letters: str = "", leave: str | None = None
) -> int | str:
    """Show a list, and return the index of what was chosen; the list is erased then.

    Each of the letters chooses, too. Where there is OTHER, anything else that is typed is returned instead. `leave`
    says what Esc does; without it, Esc does nothing.

    Raises: KeyboardInterrupt; EOFError at Ctrl-D, or Esc.
    """
    shown = [questionary.Choice(list(title), value=number) for number, title in enumerate(laid_out(choices, width))]
    how = _HOW if leave is None else f"(↑ ↓ Enter; Esc {leave})"
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
    _bind(prompt, _keys(choices, letters), leave)
    chosen: int | str = await prompt.unsafe_ask_async()
    return chosen


async def words(question: str, begun: str = "", *, leave: str | None = None) -> str:
    """Read a line that is typed, which may be begun already. `leave` says what Esc does, as in `select`.

    Raises: KeyboardInterrupt; EOFError at Ctrl-D on an empty line, or Esc.
    """
    how = None if leave is None else f"(Esc {leave})"
    prompt = questionary.text(
        question, default=begun, style=_STYLE, qmark="?", instruction=how, output=_output(), erase_when_done=True
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
    """Write on standard error, and never ask a terminal where its cursor is: some do not answer."""
    output = Vt100_Output.from_pty(sys.stderr, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


def _keys(choices: Sequence[Choice], letters: str) -> KeyBindings:
    """Return the keys that lists of ours have beside those of questionary."""
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
    """Leave a list for what is typed; other keys do nothing."""
    if event.data.strip() and event.data.isprintable():
        event.app.exit(result=event.data)
