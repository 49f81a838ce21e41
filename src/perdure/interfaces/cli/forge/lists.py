"""A list to choose from, and a line to type into, at a terminal that can move its cursor."""

import os
import sys
from collections.abc import Sequence

import questionary
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from perdure.interfaces.cli.forge.layout import Choice, laid_out

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


async def select(question: str, choices: Sequence[Choice], first: int, *, width: int, letters: str = "") -> int | str:
    """Let a person go through a list, and return the number of what was chosen; the list is gone then.

    Each of the letters chooses, too. Where there is OTHER, anything else that is typed is returned instead.

    Raises: KeyboardInterrupt; EOFError
    """
    shown = [questionary.Choice(list(title), value=number) for number, title in enumerate(laid_out(choices, width))]
    prompt = questionary.select(
        question,
        choices=shown,
        default=shown[first],
        style=_STYLE,
        qmark="?",
        instruction=_HOW if width > len(question) + len(_HOW) + 4 else " ",
        output=_output(),
        erase_when_done=True,
        use_jk_keys=False,
    )
    own = prompt.application.key_bindings
    prompt.application.key_bindings = merge_key_bindings([*([own] if own else []), _keys(choices, letters)])
    chosen: int | str = await prompt.unsafe_ask_async()
    return chosen


async def words(question: str, begun: str = "") -> str:
    """Let a person type a line, which may be begun already.

    Raises: KeyboardInterrupt
    """
    prompt = questionary.text(question, default=begun, style=_STYLE, qmark="?", output=_output(), erase_when_done=True)
    return str(await prompt.unsafe_ask_async()).strip()


def _output() -> Vt100_Output:
    """Write on standard error, and never ask a terminal where its cursor is: some do not answer."""
    output = Vt100_Output.from_pty(sys.stderr, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


def _keys(choices: Sequence[Choice], letters: str) -> KeyBindings:
    """Return the keys that lists of ours have beside those of questionary."""
    keys = KeyBindings()
    keys.add(Keys.SIGINT, eager=True)(lambda event: event.app.exit(exception=KeyboardInterrupt()))
    keys.add(Keys.ControlD, eager=True)(lambda event: event.app.exit(exception=EOFError()))
    numbered = {letter: number for number, letter in enumerate(letters)}
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
