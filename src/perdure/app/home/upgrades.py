"""Migrates the database of a home, and finds the processes that still use the older version."""

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

__all__ = ["Connected", "Health", "Upgraded", "upgrade_home"]


@dataclass(frozen=True)
class Upgraded:
    """A migrated database: its earlier version, its state, and the processes that stayed connected."""

    before: int
    health: Health
    tables: Sequence[str]
    outdated: Sequence[Connected]
    """The processes that use the older version: they can still read, but not write."""


async def upgrade_home(settings: Settings, *, debug: bool = False) -> Upgraded:
    """Create or migrate the database of a home; nothing happens if it has the newest version.

    Raises: as `open_home`.
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
    """Return the other processes that use a home: processes with its database open, and live workers of the home."""
    return {*await p.database.connected(), *_workers(p.settings.home)}


def _workers(home: Path) -> set[Connected]:
    """Return the workers that hold a lock file in the home, for systems that cannot list the users of a file."""
    names = [path.stem for path in (home / "run").glob("*.lock")]
    pids = {int(name.partition("-")[0]) for name in names if name[0].isdecimal() and not is_dead(home, name)}
    return {Connected(socket.gethostname(), pid) for pid in pids - {os.getpid()}}
