"""Opens the home or the server that a command works with. Only this module makes that choice."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.remote.ports.bots import BotPorts, Shown
from perdure.interfaces.cli.remote.ports.builder import BuilderPorts
from perdure.interfaces.cli.remote.ports.records import Records

if TYPE_CHECKING:
    from perdure.app.wire.goal_detail import GoalDetailView
    from perdure.app.wire.resources.bots import BotSummary
    from perdure.app.wire.resources.builder import Draft
    from perdure.errors import Damaged
    from perdure.interfaces.cli.remote.goals import ServerGoals
    from perdure.interfaces.cli.remote.ports.goals import GoalPorts


@asynccontextmanager
async def records_of(options: Options) -> AsyncIterator[Records]:
    """Yield the memory of the home or server. Of a home, only the memory is opened."""
    if options.server is None:
        from perdure.app.memory.memory import open_memory

        async with open_memory(options.settings()) as memory:
            yield Records(memory, memory)
        return
    from perdure.interfaces.cli.remote.connection import connected
    from perdure.interfaces.cli.remote.records import ServerRecords

    async with connected(options.server) as client:
        records = ServerRecords(client.memory)
        yield Records(records, records)


@asynccontextmanager
async def goals_of(options: Options) -> "AsyncIterator[GoalPorts]":
    """Yield the goals of the home or server."""
    from perdure.interfaces.cli.remote.ports.goals import GoalPorts

    if options.server is None:
        from perdure.app import open_home

        async with open_home(options.settings(), debug=options.verbose) as p:
            yield GoalPorts(p.goals, p.goals)
        return
    async with server_goals(options.server) as goals:
        yield GoalPorts(goals, goals)


async def shown_goal(options: Options, name: str) -> "tuple[GoalDetailView, Damaged | None]":
    """Return a goal in detail as far as its history is readable, and the damage of the rest.

    Raises: NotFound; Conflict; Damaged when no event is readable, or a server reports damage.
    """
    if options.server is None:
        from perdure.app import open_home
        from perdure.app.goals.details import salvage_detail

        async with open_home(options.settings(), debug=options.verbose) as p:
            return await salvage_detail(p.goals, await p.goals.find(name))
    async with server_goals(options.server) as goals:
        return await goals.shown(name), None


@asynccontextmanager
async def bots_of(options: Options) -> "AsyncIterator[BotPorts]":
    """Yield the bots of the home or server."""
    if options.server is None:
        from perdure.app import open_home

        async with open_home(options.settings(), debug=options.verbose) as p:
            yield BotPorts(p.bots, p.bots, p.settings.home)
        return
    from perdure.interfaces.cli.remote.bots import ServerBots
    from perdure.interfaces.cli.remote.connection import connected

    async with connected(options.server) as client:
        bots = ServerBots(client.bots)
        yield BotPorts(bots, bots, None)


async def list_bots(options: Options, *, limit: int) -> Sequence[Shown["BotSummary"]]:
    """Return the bots by slug. For a home, the modules that build bots are not imported."""
    if options.server is None:
        from perdure.app import open_home
        from perdure.app.builder.list_views import listed_bots

        async with open_home(options.settings(), debug=options.verbose) as p:
            return await listed_bots(p.database, limit=limit)
    from perdure.interfaces.cli.remote.bots import ServerBots
    from perdure.interfaces.cli.remote.connection import connected

    async with connected(options.server) as client:
        return await ServerBots(client.bots).list(limit=limit)


@asynccontextmanager
async def builder_of(options: Options) -> "AsyncIterator[BuilderPorts]":
    """Yield the interviews, drafts and choices of the home or server."""
    if options.server is None:
        from perdure.app import open_home

        async with open_home(options.settings(), debug=options.verbose) as p:
            yield BuilderPorts(p.forge, p.forge, p.forge, p.settings.home)
        return
    from perdure.interfaces.cli.remote.builder import ServerBuilder
    from perdure.interfaces.cli.remote.connection import connected

    async with connected(options.server) as client:
        builder = ServerBuilder(client.builder)
        yield BuilderPorts(builder, builder, builder, None)


async def list_drafts(options: Options, *, limit: int) -> Sequence[Shown["Draft"]]:
    """Return the drafts, last changed first. For a home, the modules of interviews are not imported."""
    if options.server is None:
        from perdure.app import open_home
        from perdure.app.builder.list_views import listed_drafts

        async with open_home(options.settings(), debug=options.verbose) as p:
            return await listed_drafts(p.database, limit=limit)
    async with builder_of(options) as builder:
        return await builder.drafts.drafts(limit)


@asynccontextmanager
async def server_goals(url: str) -> "AsyncIterator[ServerGoals]":
    """Yield the goals of a server. The client is imported here, to keep the start-up of other commands fast."""
    from perdure.interfaces.cli.remote.connection import connected
    from perdure.interfaces.cli.remote.goals import ServerGoals

    async with connected(url) as client:
        yield ServerGoals(client.goals)
