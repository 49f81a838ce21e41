"""Where a command works: at the home that it opens, or at the server that it names. This is decided here alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.remote.ports import Records

if TYPE_CHECKING:
    from perdure.app.wire.goal_detail import GoalDetailView
    from perdure.errors import Damaged
    from perdure.interfaces.cli.remote.goal_ports import GoalPorts
    from perdure.interfaces.cli.remote.goals import ServerGoals


@asynccontextmanager
async def records_of(options: Options) -> AsyncIterator[Records]:
    """Give the memory that a command works with; of a home, nothing else is touched."""
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
    """Give the goals that a command works with."""
    from perdure.interfaces.cli.remote.goal_ports import GoalPorts

    if options.server is None:
        from perdure.app import open_home

        async with open_home(options.settings(), debug=options.verbose) as p:
            yield GoalPorts(p.goals, p.goals)
        return
    async with server_goals(options.server) as goals:
        yield GoalPorts(goals, goals)


async def shown_goal(options: Options, name: str) -> "tuple[GoalDetailView, Damaged | None]":
    """Return a goal in detail, as far as its history can be read, and what is wrong with the rest.

    Raises: NotFound; Conflict; Damaged when nothing of it can be read, or a server says that it is damaged.
    """
    if options.server is None:
        from perdure.app import open_home
        from perdure.app.goals.details import salvage_detail

        async with open_home(options.settings(), debug=options.verbose) as p:
            return await salvage_detail(p.goals, await p.goals.find(name))
    async with server_goals(options.server) as goals:
        return await goals.shown(name), None


@asynccontextmanager
async def server_goals(url: str) -> "AsyncIterator[ServerGoals]":
    """Give the goals of a server; what imports the client is imported here."""
    from perdure.interfaces.cli.remote.connection import connected
    from perdure.interfaces.cli.remote.goals import ServerGoals

    async with connected(url) as client:
        yield ServerGoals(client.goals)
