"""Asking a person whether they are sure."""

import signal
import sys

import typer

from perdure.errors import Conflict, Denied
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.output.terminal import one_line


def can_ask(options: Options) -> bool:
    """Tell whether a person is there who may be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty() and not (options.no_input or options.json)


def is_sure(question: str) -> bool:
    """Ask; an interrupt ends the question at once."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return typer.confirm(question, err=True)
    finally:
        signal.signal(signal.SIGINT, before)


def require_sure(options: Options, about: str) -> None:
    """Let a person think again before something is deleted.

    Raises: Conflict without a terminal; Denied when the answer is no.
    """
    if not can_ask(options):
        raise Conflict("Nothing was deleted: deletion cannot be undone and needs a confirmation. Give --yes.")
    print(one_line(about), file=sys.stderr)
    if not is_sure("Delete it for good?"):
        raise Denied("Nothing was deleted.")
