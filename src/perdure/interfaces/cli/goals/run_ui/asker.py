"""Asks one question on the terminal: a list or a line, or numbers if the cursor cannot move."""

import contextlib
import shutil
import sys
import termios

from perdure.interfaces.cli.goals.run_ui.offers import LATER, Offer, Option
from perdure.interfaces.cli.output.terminal import lines, wrapped_for
from perdure.interfaces.cli.prompts.layout import Choice, exchange_text, wrapped
from perdure.interfaces.cli.prompts.matching import match_options
from perdure.interfaces.cli.prompts.plain import can_move_cursor, read_line

_LEAVE = "leaves it open"


async def ask(offer: Offer) -> Option:
    """Ask, and return the chosen or typed option; LATER if the person leaves the question open.

    Raises: KeyboardInterrupt
    """
    if offer.why:
        print(wrapped_for(offer.why, sys.stderr), file=sys.stderr)
    if offer.shown:
        print(offer.shown, file=sys.stderr)
    _discard_typeahead()
    try:
        return await (_ask_in_place(offer) if can_move_cursor() else _ask_plainly(offer))
    except (EOFError, OSError):  # OSError: the terminal is closed
        return LATER


def print_accepted(offer: Offer, chosen: Option) -> None:
    """Print the question and its answer if the prompt was erased."""
    if can_move_cursor():
        from rich.console import Console

        console = Console(file=sys.stderr, highlight=False)
        console.print(
            exchange_text(offer.question, chosen.choice.label, console.width), no_wrap=True, overflow="ellipsis"
        )


def _discard_typeahead() -> None:
    """Discard input that was typed before the question was shown: it is not an answer to it."""
    with contextlib.suppress(termios.error):  # the terminal is closed; reading from it ends the question
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


async def _ask_in_place(offer: Offer) -> Option:
    from perdure.interfaces.cli.prompts.lists import select, words

    width = shutil.get_terminal_size().columns
    question = "\n  ".join(line for text in lines(offer.question).split("\n") for line in wrapped(text, width - 4))
    if not offer.options:
        return _typed(await words(question, leave=_LEAVE))
    choices = [option.choice for option in offer.options]
    chosen = await select(question, choices, offer.default, width=width, leave=_LEAVE)
    return offer.options[int(chosen)]


async def _ask_plainly(offer: Offer) -> Option:
    print(lines(offer.question), file=sys.stderr)
    if not offer.options:
        return _typed(await read_line("Your answer (empty: leave it open):"))
    for number, option in enumerate(offer.options, start=1):
        why = f": {option.choice.why}" if option.choice.why else ""
        print(lines(f"  {number}. {option.choice.label}{why}"), file=sys.stderr)
    while typed := await read_line("A number (empty: leave it open):"):
        matches = match_options(typed, [option.choice.label for option in offer.options])
        if len(matches) == 1:
            return offer.options[matches[0]]
        print(f"Expected a number from 1 to {len(offer.options)}.", file=sys.stderr)
    return LATER


def _typed(text: str) -> Option:
    return Option(Choice(text, ""), "answer", text) if text else LATER
