"""Asks a person for confirmation."""

import signal
import sys

import typer

from perdure.errors import Conflict, Denied
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.output.terminal import one_line


def can_ask(options: Options) -> bool:
    """Return whether questions can be asked: there is a terminal, and no option forbids it."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not (options.no_input or options.json)


def ask_yes_no(question: str) -> bool:
    """Ask for yes or no; an interrupt ends the question at once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def require_confirmation(options: Options, about: str) -> None:
    """Ask for confirmation of a deletion.

    Raises: Conflict without a terminal; Denied when the answer is no.
    """
    if not can_ask(options):
        raise Conflict("Nothing was deleted: deletion cannot be undone and needs a confirmation. Use --yes.")
    print(one_line(about), file=sys.stderr)
    if not ask_yes_no("Delete it permanently?"):
        raise Denied("Nothing was deleted.")
