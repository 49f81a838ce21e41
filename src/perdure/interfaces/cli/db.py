"""`perdure db`."""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import back_up, open_home, restore_backup
from perdure.errors import Damaged
from perdure.interfaces.cli.answer import Answer, Table
from perdure.interfaces.cli.command import Options, command
from perdure.settings import Settings
from perdure.store.client import DatabaseClient
from perdure.store.database import Health


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for name, fn in (
        ("migrate", migrate),
        ("status", status),
        ("tables", tables),
        ("verify", verify),
        ("backup", backup),
        ("restore", restore),
    ):
        command(app, name)(fn)


async def migrate(options: Options) -> Answer:
    """Make the database, or bring it to the newest version; does nothing when it is."""
    return await migrated(options.settings(), verbose=options.verbose)


async def migrated(settings: Settings, *, verbose: bool = False) -> Answer:
    """Open a home, which migrates it, and answer with its tables."""
    async with open_home(settings, debug=verbose) as p:
        health = await p.database.health()
        names = await p.database.tables()
    return Answer(
        {**_versions(health), "count": len(names), "tables": names},
        [f"Version {health.version:04d}, {len(names)} tables: {', '.join(names)}."],
    )


async def status(options: Options) -> Answer:
    """Show version, location and the settings that durability depends on; leaves an older version as it is."""
    settings = options.settings()
    async with open_home(
        settings, migrate=not DatabaseClient.exists(settings.database_url), debug=options.verbose
    ) as p:
        health = await p.database.health()
    data = {**_versions(health), **health.facts}
    return Answer(data, [Table(["what", "value"], [[name, _text(value)] for name, value in data.items()])])


async def tables(options: Options) -> Answer:
    """List the tables and how many rows each has."""
    async with open_home(options.settings(), debug=options.verbose) as p:
        counts = await p.database.count_rows()
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    data = [{"name": name, "rows": count} for name, count in counts.items()]
    return Answer({"tables": list(counts), "rows": data}, [Table(["table", "rows"], rows)])


async def verify(options: Options) -> Answer:
    """Read the whole database and say what is wrong with it; exit 7 when something is."""
    async with open_home(options.settings(), migrate=False, must_exist=True, debug=options.verbose) as p:
        location = (await p.database.health()).location
        problems = await p.database.verify()
    said = problems or [f"{location} is in order."]
    return Answer(
        {"ok": not problems, "location": location, "problems": problems},
        said,
        exit_code=Damaged.exit_code if problems else 0,
    )


async def backup(
    options: Options,
    *,
    path: Annotated[Path | None, typer.Argument(help="The archive to write; a dated name when not given.")] = None,
) -> Answer:
    """Write one archive of database, bots and memory, while work goes on."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    target = Path(os.path.abspath((path or Path(f"perdure-{moment}.tar.gz")).expanduser()))
    manifest = await back_up(options.settings(), target)
    size = target.stat().st_size
    data = {"path": str(target), "size_bytes": size, "files": len(manifest.entries), **_about(asdict(manifest))}
    return Answer(data, [f"Wrote {target}: {len(manifest.entries)} file(s) in {size:,} bytes."])


async def restore(
    options: Options,
    *,
    source: Annotated[Path, typer.Argument(help="An archive of `perdure db backup`, or a copy of a SQLite database.")],
    replace: Annotated[bool, typer.Option("--replace", help="Move what is there aside first.")] = False,
) -> Answer:
    """Put a backup into the home, which must be empty unless --replace is given."""
    done = await restore_backup(options.settings(), Path(os.path.abspath(source.expanduser())), replace=replace)
    parts = [f"Restored {place}." for place in done.restored]
    parts += [f"What was there is now {aside}." for aside in done.aside]
    return Answer({"restored": list(done.restored), "aside": list(done.aside)}, parts)


def _versions(health: Health) -> dict[str, object]:
    return {
        "database": health.database,
        "location": health.location,
        "version": f"{health.version:04d}",
        "head": f"{health.head:04d}",
    }


def _about(manifest: dict[str, object]) -> dict[str, object]:
    return {key: manifest[key] for key in ("format", "created_at", "database", "version")}


def _text(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
