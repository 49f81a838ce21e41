"""Shell completion of ids of goals, steps and calls, tags, and slugs of bots.

A completion must not disturb the line that is being typed: it prints nothing, creates nothing, and is short.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from perdure.app import Perdure, open_unchanged
from perdure.app.goals.query import STATUS_WORDS
from perdure.interfaces.cli.command import server_of
from perdure.interfaces.cli.output.terminal import cut_to, one_line
from perdure.settings import Settings, load_settings

if TYPE_CHECKING:
    from perdure.app.goals.values import GoalState

Offer = tuple[str, str]
"""A word and its description."""
_MOST_GOALS = 50
_MOST_HELP = 60
_WITHIN_S = 2.0


def complete_goals(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return the ids of the newest goals."""

    async def ask(p: Perdure) -> list[Offer]:
        goals = await p.goals.list(limit=_MOST_GOALS)
        return [(goal.id, f"{goal.status}: {goal.text}") for goal in goals]

    return _offers(ctx, incomplete, ask)


def complete_bots(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return the slugs of bots."""

    async def ask(p: Perdure) -> list[Offer]:
        from perdure.app.builder.list_views import listed_bots

        return [(bot.summary.slug, bot.summary.name) for bot in await listed_bots(p.database)]

    return _offers(ctx, incomplete, ask)


def complete_tags(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return the tags of the newest goals, with the number of those goals."""

    async def ask(p: Perdure) -> list[Offer]:
        counts = Counter(tag for goal in await p.goals.list(limit=_MOST_GOALS) for tag in goal.summary.tags)
        return [(tag, f"{count} of the newest goals") for tag, count in counts.items()]

    return _offers(ctx, incomplete, ask)


def complete_statuses(incomplete: str) -> list[str]:
    """Return the statuses for filters of goals."""
    return [word for word in STATUS_WORDS if word.startswith(incomplete)]


def complete_steps(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return the steps of the goal on the command line, and the calls of steps with several."""

    def named(state: "GoalState") -> list[Offer]:
        steps: dict[str, list[str]] = {}
        for call in state.calls.values():
            steps.setdefault(call.call.step, []).append(call.call.call_id)
        offers = [(step, "") for step in steps]
        return offers + [(call_id, "") for calls in steps.values() if len(calls) > 1 for call_id in calls]

    return _of_goal(ctx, incomplete, named)


def complete_calls(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Return the open calls of the goal on the command line."""
    return _of_goal(
        ctx, incomplete, lambda state: [(call_id, call.call.step) for call_id, call in state.open_calls.items()]
    )


def _of_goal(ctx: typer.Context, incomplete: str, named: "Callable[[GoalState], list[Offer]]") -> list[Offer]:
    # An option without its value, which is being completed, keeps the parser from assigning the arguments before it.
    goal = ctx.params.get("goal") or next((word for word in ctx.args if not word.startswith("-")), None)
    if not isinstance(goal, str):
        return []

    async def ask(p: Perdure) -> list[Offer]:
        return named(await p.goals.state((await p.goals.find(goal)).id))

    return _offers(ctx, incomplete, ask)


def _offers(ctx: typer.Context, incomplete: str, ask: Callable[[Perdure], Awaitable[list[Offer]]]) -> list[Offer]:
    """Return the offers with the typed prefix; none without a home, or if it cannot be read.

    With a server there are none: completion sends no requests over a network.
    """
    if server_of(ctx.params.get("url"), ctx.params.get("home")) is not None:
        return []
    with contextlib.suppress(Exception):  # no error may reach the prompt
        settings = load_settings({"home": ctx.params.get("home")})
        found = asyncio.run(_ask(settings, ask))
        return [(word, _help(text)) for word, text in found if word.startswith(incomplete)]
    return []


async def _ask(settings: Settings, ask: Callable[[Perdure], Awaitable[list[Offer]]]) -> list[Offer]:
    """Query a home without changing it: no migration, and no completion of an interrupted restore.

    Raises: NotFound when there is no home.
    """
    async with asyncio.timeout(_WITHIN_S), open_unchanged(settings) as p:
        return await ask(p)


def _help(text: str) -> str:
    """Return a shortened text without brackets, which shells would interpret as markup."""
    return cut_to(one_line(text).replace("[", "(").replace("]", ")"), _MOST_HELP)
