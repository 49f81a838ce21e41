"""The options that select goals, for lists and for commands that change several goals."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from perdure.app.goals.query import STATUS_WORDS
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.interfaces.cli.command import Command, with_options
from perdure.interfaces.cli.completion import complete_bots, complete_statuses, complete_tags

_TIME = "2h (ago), 2026-11-16, or 2026-11-16T08:00:00Z"
_OPTIONS: Mapping[str, Any] = {
    "status": Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help=f"Only goals of this status: {', '.join(STATUS_WORDS)} (`open` means running or interrupted). May be"
            " used several times, or with a list with commas.",
            autocompletion=complete_statuses,
        ),
    ],
    "flow": Annotated[
        str | None,
        typer.Option("--flow", metavar="FLOW", help="Only goals of this flow: its name, or MODULE:FUNCTION."),
    ],
    "key": Annotated[str | None, typer.Option("--key", metavar="TEXT", help="Only the goal with this start key.")],
    "bot": Annotated[
        str | None,
        typer.Option("--bot", metavar="SLUG", help="Only goals of this bot.", autocompletion=complete_bots),
    ],
    "tag": Annotated[
        str | None,
        typer.Option("--tag", metavar="TAG", help="Only goals with this tag.", autocompletion=complete_tags),
    ],
    "parent": Annotated[str | None, typer.Option("--parent", metavar="ID", help="Only children of this goal.")],
    "since": Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Only goals created at this time or later: {_TIME}.")
    ],
    "until": Annotated[
        str | None, typer.Option("--until", metavar="TIME", help=f"Only goals created before this time: {_TIME}.")
    ],
}
ALL = tuple(_OPTIONS)
OF_SEVERAL = tuple(name for name in _OPTIONS if name != "key")
"""The filters of commands that change several goals; a start key names only one."""


def with_filters(names: tuple[str, ...] = ALL) -> Callable[[Command], Command]:
    """Add the options of filters to a command, which gets their values as `filters`."""
    return with_options("filters", {name: _OPTIONS[name] for name in names}, _filters)


def _filters(values: Mapping[str, Any]) -> GoalFilters:
    """Return the filters that are set; a list of statuses may have commas."""
    found = {name: value for name, value in values.items() if value is not None and value != []}
    if "status" in found:
        found["status"] = [word.strip() for each in found["status"] for word in each.split(",")]
    filters: GoalFilters = found  # type: ignore[assignment]  # its keys are those of `_OPTIONS`
    return filters


def filter_text(filters: GoalFilters) -> str:
    """Return filters as options: `--status failed --since 2h`."""
    words = [f"--{name} {','.join(value) if isinstance(value, list) else value}" for name, value in filters.items()]
    return " ".join(words)
