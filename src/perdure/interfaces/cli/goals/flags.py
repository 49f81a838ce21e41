"""The options that several commands for goals share, and what they mean."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import with_options
from perdure.interfaces.cli.completion import complete_goals
from perdure.kernel.events import Limits
from perdure.minds.durations import read_timeout_s

_WHOLE_ID = "The whole id of the goal, or key:KEY for the goal that a key has started."


BY_HASH = "It checks a history by its hashes, as a home has it: run it where the home is."
"""Why some commands do not work with a server."""


PolicyOfGoal = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="PRESET",
        help="What a model may do without asking from then on: ask or read-only; default: the policy of the goal.",
    ),
]


def filled(value: str | None) -> str | None:
    """Refuse an id that is empty, as that of a variable that was never set: it is a prefix of every id.

    Raises: Invalid
    """
    if value is not None and not value.strip():
        raise Invalid("Invalid id of a goal or call: it is empty.")
    return value


Goal = Annotated[
    str,
    typer.Argument(metavar="ID", help=_WHOLE_ID, callback=filled, autocompletion=complete_goals),
]
"""A goal that a command changes: a prefix could name another goal than the user thinks of."""
SeenGoal = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The goal's id, a unique prefix of it, or key:KEY for the goal that a key has started.",
        callback=filled,
        autocompletion=complete_goals,
    ),
]
"""A goal that a command only reads."""
MaybeGoal = Annotated[
    str | None,
    typer.Argument(metavar="ID", help=_WHOLE_ID, callback=filled, autocompletion=complete_goals),
]
JOBS = 4
"""How many steps run at once unless a command says otherwise."""
Jobs = Annotated[int, typer.Option("--jobs", min=1, metavar="N", help="How many steps may run at once.")]
Jsonl = Annotated[
    bool, typer.Option("--jsonl", help="Print each event of this run as one line of JSON, when it is durable.")
]
Limited = Mapping[str, Any]
"""The options of limits, as they were given."""
_LIMITS: Mapping[str, Any] = {
    "max_iterations": Annotated[
        int | None, typer.Option("--max-iterations", min=1, metavar="N", help="Pause and ask after N decisions.")
    ],
    "max_tokens": Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Pause and ask after N tokens.")
    ],
    "budget_usd": Annotated[
        float | None, typer.Option("--budget-usd", metavar="X", help="Pause and ask after X US dollars.")
    ],
    "time_limit": Annotated[
        str | None,
        typer.Option("--timeout", metavar="TIME", help="Pause and ask after this time of its tools: 90s, 5m, 2h, 1d."),
    ],
}
with_limits = with_options("limited", _LIMITS)
"""Gives a command the options of limits; it gets what was given as `limited`, for `limits_of`."""
Resume = Annotated[bool, typer.Option("--resume", help="Resume the goal afterwards.")]


def limits_of(limited: Limited) -> Limits:
    """Make limits of what was given on the command line.

    Raises: Invalid
    """
    usd, timeout = limited["budget_usd"], limited["time_limit"]
    if usd is not None and not (math.isfinite(usd) and usd > 0):
        raise Invalid(f"--budget-usd is a number above 0, found {usd:g}.")
    seconds = None if timeout is None else _seconds(timeout)
    return Limits(limited["max_iterations"], limited["max_tokens"], usd, seconds)


def refuse_both(*, json: bool, jsonl: bool) -> None:
    """Let there be one form of output.

    Raises: Invalid
    """
    if json and jsonl:
        raise Invalid("Choose --json (one object at the end) or --jsonl (each event as it happens), not both.")


def _seconds(text: str) -> float:
    try:
        return read_timeout_s(text)
    except ValueError as error:
        raise Invalid(f"--timeout: {error}") from None
