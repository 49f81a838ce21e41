"""What the shell offers for ids of goals, steps and calls, tags, and slugs of bots.

A completion must not disturb the line that is being typed: it prints nothing, makes nothing, and is short.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable

import typer

from perdure.app import Perdure, open_home
from perdure.app.goals.query import STATUS_WORDS
from perdure.errors import NotFound
from perdure.interfaces.cli.command import server_of
from perdure.interfaces.cli.output.terminal import cut_to, one_line
from perdure.kernel.fold import GoalState
from perdure.settings import Settings, load_settings
from perdure.store.backup.places import is_restore_pending
from perdure.store.client import DatabaseClient

Offer = tuple[str, str]
"""A word, and what it stands for."""
_MOST_GOALS = 50
_MOST_HELP = 60
_WITHIN_S = 2.0


def complete_goals(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the ids of the newest goals."""

    async def ask(p: Perdure) -> list[Offer]:
        goals = await p.goals.list(limit=_MOST_GOALS)
        return [(goal.id, f"{goal.status}: {goal.text}") for goal in goals]

    return _offered(ctx, incomplete, ask)


def complete_bots(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the slugs of bots."""

    async def ask(p: Perdure) -> list[Offer]:
        from perdure.app.builder.list_views import listed_bots

        return [(bot.summary.slug, bot.summary.name) for bot in await listed_bots(p.database)]

    return _offered(ctx, incomplete, ask)


def complete_tags(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the tags of the newest goals, with the number of those goals."""

    async def ask(p: Perdure) -> list[Offer]:
        counts = Counter(tag for goal in await p.goals.list(limit=_MOST_GOALS) for tag in goal.summary.tags)
        return [(tag, f"{count} of the newest goals") for tag, count in counts.items()]

    return _offered(ctx, incomplete, ask)


def complete_statuses(incomplete: str) -> list[str]:
    """Offer the statuses that goals are filtered by."""
    return [word for word in STATUS_WORDS if word.startswith(incomplete)]


def complete_steps(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the steps of the goal that was typed before, and its calls where a step has several."""

    def named(state: GoalState) -> list[Offer]:
        steps: dict[str, list[str]] = {}
        for call in state.calls.values():
            steps.setdefault(call.call.step, []).append(call.call.call_id)
        offers = [(step, "") for step in steps]
        return offers + [(call_id, "") for calls in steps.values() if len(calls) > 1 for call_id in calls]

    return _of_goal(ctx, incomplete, named)


def complete_calls(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the open calls of the goal that was typed before."""
    return _of_goal(
        ctx, incomplete, lambda state: [(call_id, call.call.step) for call_id, call in state.open_calls.items()]
    )


def _of_goal(ctx: typer.Context, incomplete: str, named: Callable[[GoalState], list[Offer]]) -> list[Offer]:
    # An option without its value, which is being completed, keeps the parser from assigning the arguments before it.
    goal = ctx.params.get("goal") or next((word for word in ctx.args if not word.startswith("-")), None)
    if not isinstance(goal, str):
        return []

    async def ask(p: Perdure) -> list[Offer]:
        return named(await p.goals.state((await p.goals.find(goal)).id))

    return _offered(ctx, incomplete, ask)


def _offered(ctx: typer.Context, incomplete: str, ask: Callable[[Perdure], Awaitable[list[Offer]]]) -> list[Offer]:
    """Return the offers that begin with what was typed; none where there is no home, or something is wrong with it.

    With a server there are none: nothing is asked over a network while a person types.
    """
    if server_of(ctx.params.get("url"), ctx.params.get("home")) is not None:
        return []
    with contextlib.suppress(Exception):  # an edge of its own: no error may reach the prompt
        settings = load_settings({"home": ctx.params.get("home")})
        found = asyncio.run(_asked(settings, ask))
        return [(word, _help(text)) for word, text in found if word.startswith(incomplete)]
    return []


async def _asked(settings: Settings, ask: Callable[[Perdure], Awaitable[list[Offer]]]) -> list[Offer]:
    """Ask a home as it is: a database of an older version is not migrated, an interrupted restore not finished.

    Raises: NotFound when there is no home.
    """
    if not settings.home.is_dir() or is_restore_pending(settings.home):
        raise NotFound("There is no home.")
    if not DatabaseClient.exists(settings.database_url):
        raise NotFound("There is no database.")
    async with asyncio.timeout(_WITHIN_S), open_home(settings, migrate=False, must_exist=True) as p:
        return await ask(p)


def _help(text: str) -> str:
    """Shorten a text; shells show it through markup, which brackets would break."""
    return cut_to(one_line(text).replace("[", "(").replace("]", ")"), _MOST_HELP)
