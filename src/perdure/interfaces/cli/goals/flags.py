"""Options that several commands for goals share."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from perdure.app.goals.arguments.limits import Limits
from perdure.errors import Invalid
from perdure.interfaces.cli.command import with_options
from perdure.interfaces.cli.completion import complete_goals
from perdure.text.durations import read_timeout_s

_WHOLE_ID = "The whole id of the goal, or key:KEY for the goal with a start key."


BY_HASH = "It verifies the hashes of a history in a home: run it on the machine of the home."
"""Why some commands do not work with a server."""


WHAT_PRESETS_ALLOW = (
    "`ask`: the model loads skills, reads earlier results and recalls memories without a question; other calls need"
    " approval. `read-only`: it also reads files, and calls that write files or run programs are denied."
)
"""What the presets of policies allow. See `perdure.tools.goal_policy`."""
PolicyOfGoal = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="PRESET",
        help=f"The policy for calls of a model from now on (default: the policy of the goal). {WHAT_PRESETS_ALLOW}",
    ),
]


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="The model, as provider:name (default: that of the goal or bot, else PERDURE_MODEL, else the model of"
        " `perdure model default`).",
    ),
]


def require_id(value: str | None) -> str | None:
    """Reject an empty id, for example of an unset variable: it is a prefix of every id.

    Raises: Invalid
    """
    if value is not None and not value.strip():
        raise Invalid("Invalid id of a goal or call: it is empty.")
    return value


Goal = Annotated[
    str,
    typer.Argument(metavar="ID", help=_WHOLE_ID, callback=require_id, autocompletion=complete_goals),
]
"""A goal that a command changes; a prefix is rejected, because it could match an unintended goal."""
SeenGoal = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id of the goal, a unique prefix of it, or key:KEY for the goal with a start key.",
        callback=require_id,
        autocompletion=complete_goals,
    ),
]
"""A goal that a command only reads."""
MaybeGoal = Annotated[
    str | None,
    typer.Argument(metavar="ID", help=_WHOLE_ID, callback=require_id, autocompletion=complete_goals),
]
JOBS = 4
"""The default number of steps that run at the same time."""
Jobs = Annotated[
    int, typer.Option("--jobs", min=1, metavar="N", help=f"Maximum number of parallel steps (default: {JOBS}).")
]
Jsonl = Annotated[
    bool, typer.Option("--jsonl", help="Print each event of this run as one line of JSON after it is durable.")
]
Limited = Mapping[str, Any]
"""The values of the options for limits."""
_LIMITS: Mapping[str, Any] = {
    "max_iterations": Annotated[
        int | None,
        typer.Option(
            "--max-iterations",
            min=1,
            metavar="N",
            help="Pause and ask after N iterations. An iteration is one answer of the model, or one decision of the"
            " plan or flow about its next steps.",
        ),
    ],
    "max_tokens": Annotated[
        int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Pause and ask after N tokens.")
    ],
    "budget": Annotated[
        float | None, typer.Option("--budget", metavar="USD", help="Pause and ask after this cost in US dollars.")
    ],
    "time_limit": Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="TIME",
            help="Pause and ask when the tools of the goal have run for this time in total: 90s, 5m, 2h, 1d. It does"
            " not end a running step.",
        ),
    ],
}
with_limits = with_options("limited", _LIMITS)
"""Adds the options for limits to a command, which gets their values as `limited`, for `limits_of`."""
Resume = Annotated[bool, typer.Option("--resume", help="Resume the goal afterwards.")]


def limits_of(limited: Limited) -> Limits:
    """Return the limits that the options set.

    Raises: Invalid
    """
    usd, timeout = limited["budget"], limited["time_limit"]
    if usd is not None and not (math.isfinite(usd) and usd > 0):
        raise Invalid(f"--budget must be a number above 0, got {usd:g}.")
    seconds = None if timeout is None else _seconds(timeout)
    return Limits(limited["max_iterations"], limited["max_tokens"], usd, seconds)


def reject_both(*, json: bool, jsonl: bool) -> None:
    """Reject two forms of output.

    Raises: Invalid
    """
    if json and jsonl:
        raise Invalid("Choose --json (one object at the end) or --jsonl (each event as it happens), not both.")


def _seconds(text: str) -> float:
    try:
        return read_timeout_s(text)
    except ValueError as error:
        raise Invalid(f"--timeout: {error}") from None
