"""The options that choose goals: the same for a list and for commands that change several goals."""

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
            help=f"Only goals of this status: {', '.join(STATUS_WORDS)}. May be repeated, or a list with commas.",
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
    "parent": Annotated[
        str | None, typer.Option("--parent", metavar="ID", help="Only children that this goal has started.")
    ],
    "since": Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Only goals created at this time or later: {_TIME}.")
    ],
    "until": Annotated[
        str | None, typer.Option("--until", metavar="TIME", help=f"Only goals created before this time: {_TIME}.")
    ],
}
ALL = tuple(_OPTIONS)
OF_SEVERAL = tuple(name for name in _OPTIONS if name != "key")
"""For commands that change several goals: a key names one."""


def with_filters(names: tuple[str, ...] = ALL) -> Callable[[Command], Command]:
    """Give a command the options of some filters; it gets what was given as `filters`."""
    return with_options("filters", {name: _OPTIONS[name] for name in names}, _filters)


def _filters(given: Mapping[str, Any]) -> GoalFilters:
    """Return the filters that were given; a list of statuses may have commas."""
    found = {name: value for name, value in given.items() if value is not None and value != []}
    if "status" in found:
        found["status"] = [word.strip() for each in found["status"] for word in each.split(",")]
    filters: GoalFilters = found  # type: ignore[assignment]  # its keys are those of `_OPTIONS`
    return filters


def told(filters: GoalFilters) -> str:
    """Write filters as they are typed: `--status failed --since 2h`."""
    words = [f"--{name} {','.join(value) if isinstance(value, list) else value}" for name, value in filters.items()]
    return " ".join(words)
