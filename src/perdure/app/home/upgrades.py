"""Bring the database of a home to the newest version, and find the processes that still use the older one."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perdure.app import Perdure, open_home
from perdure.app.home.system import is_dead
from perdure.settings import Settings
from perdure.store.client import DatabaseClient
from perdure.store.database import Connected, Health


@dataclass(frozen=True)
class Upgraded:
    """A database after its migration: the version before, how it is now, and who was connected all the time."""

    before: int
    health: Health
    tables: Sequence[str]
    outdated: Sequence[Connected]
    """The processes that use the older version: from now on they can read, and not write."""


async def upgrade_home(settings: Settings, *, debug: bool = False) -> Upgraded:
    """Make the database of a home, or migrate it; nothing happens when it is at the newest version.

    Raises: what `open_home` raises.
    """
    before, users = 0, set[Connected]()
    if DatabaseClient.exists(settings.database_url):
        async with open_home(settings, migrate=False) as p:
            health = await p.database.health()
            before = health.version
            users = await _users(p) if 0 < before < health.head else users
    async with open_home(settings, debug=debug) as p:
        health = await p.database.health()
        users &= await _users(p) if users else users  # a process that ended meanwhile needs no restart
        return Upgraded(before, health, await p.database.tables(), sorted(users, key=str))


async def _users(p: Perdure) -> set[Connected]:
    """Return the other processes that use a home: those with its database open, and the live workers of the home."""
    return {*await p.database.connected(), *_workers(p.settings.home)}


def _workers(home: Path) -> set[Connected]:
    """Return the workers that hold a lock file in the home, for systems that do not tell who has a file open."""
    names = [path.stem for path in (home / "run").glob("*.lock")]
    pids = {int(name.partition("-")[0]) for name in names if name[0].isdecimal() and not is_dead(home, name)}
    return {Connected(socket.gethostname(), pid) for pid in pids - {os.getpid()}}
