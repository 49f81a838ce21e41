"""`perdure db`."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import look_into_home, open_home
from perdure.app.access.secret_files import SecretFiles
from perdure.app.home.backup import back_up, restore_backup
from perdure.app.home.upgrades import upgrade_home
from perdure.app.home.verification import Progress, verify_database
from perdure.errors import Damaged
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.settings import Settings
from perdure.store.backup.archive import Manifest
from perdure.store.database import Connected, Health


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
    """Make the database, or bring it to the newest version; does nothing when it is there."""
    return await migrated(options.settings(), verbose=options.verbose)


async def migrated(settings: Settings, *, verbose: bool = False) -> Answer:
    """Migrate a home, and answer with its tables and with the processes that have to be restarted."""
    done = await upgrade_home(settings, debug=verbose)
    before, health, names = done.before, done.health, list(done.tables)
    what = "is at" if before == health.version else "was made with" if before == 0 else f"went from {before:04d} to"
    said = [f"{health.location} {what} version {health.version:04d}.", f"{len(names)} tables: {', '.join(names)}."]
    if done.outdated:
        users = ", ".join(_user(user) for user in done.outdated)
        said.append(f"These processes use the older version and cannot write from now on; restart them: {users}.")
    outdated = [{"pid": user.pid, "host": user.host} for user in done.outdated]
    data = {"before": f"{before:04d}", "count": len(names), "tables": names, "outdated_processes": outdated}
    return Answer({**_versions(health), **data}, said)


def _user(user: Connected) -> str:
    return f"a process on {user.host}" if user.pid is None else f"{user.pid} on {user.host}"


async def status(options: Options) -> Answer:
    """Show version, location and the settings that durability depends on; leaves an older version as it is."""
    async with look_into_home(options.settings(), debug=options.verbose) as p:
        health = await p.database.health()
    data = {**_versions(health), **health.facts}
    return Answer(data, [Table(["what", "value"], [[name, _text(name, value)] for name, value in data.items()])])


async def tables(options: Options) -> Answer:
    """List the tables and how many rows each has; leaves an older version as it is."""
    return await listed(options.settings(), verbose=options.verbose)


async def listed(settings: Settings, *, verbose: bool = False) -> Answer:
    """Answer with the tables of a home."""
    async with look_into_home(settings, debug=verbose) as p:
        counts = await p.database.count_rows()
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    return Answer({"tables": list(counts), "rows": counts}, [Table(["table", "rows"], rows)])


async def verify(options: Options) -> Answer:
    """Read the whole database, check the hash of every event, and report what is damaged; exit 7 if anything is."""
    async with open_home(options.settings(), migrate=False, must_exist=True, debug=options.verbose) as p:
        health = await p.database.health()
        problems = await verify_database(p.database, _progress(options))
    said = problems or [f"{health.location} is in order."]
    if health.version < health.head:
        said = [*said, f"It is at version {health.version:04d} of {health.head:04d}: run `perdure db migrate`."]
    return Answer(
        {"ok": not problems, **_versions(health), "problems": problems},
        said,
        exit_code=Damaged.exit_code if problems else 0,
    )


async def backup(
    options: Options,
    *,
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="The archive to write; a dated name when not given.")
    ] = None,
) -> Answer:
    """Write one archive of database, bots, skills and memory while the home is in use."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    target = Path(os.path.abspath((path or Path(f"perdure-{moment}.tar.gz")).expanduser()))
    settings = options.settings()
    manifest = await back_up(settings, target)
    secrets = SecretFiles(settings.home)
    size = target.stat().st_size
    count = len(manifest.entries)
    data = {"path": str(target), "size_bytes": size, "files": count, **_about(manifest)}
    kept_out = secrets.names()
    parts = [f"Wrote {target}: {count} {'file' if count == 1 else 'files'} in {size:,} bytes."]
    parts += [f"Left out, because it is neither a file nor a folder: {name}" for name in manifest.left_out]
    if kept_out:
        parts.append(f"Left out, because they are secrets: {', '.join(kept_out)}. They stay in {secrets.folder}.")
    return Answer({**data, "secrets_left_out": kept_out}, parts)


async def restore(
    options: Options,
    *,
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="An archive of `perdure db backup`, or a copy of a SQLite database."),
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Move the existing files aside first.")] = False,
) -> Answer:
    """Put a backup into the home, which must be empty unless --replace is given."""
    done = await restore_backup(options.settings(), Path(os.path.abspath(source.expanduser())), replace=replace)
    parts = [f"Restored {place}." for place in done.restored]
    parts += [f"What was there is now {aside}." for aside in done.aside]
    return Answer({"restored": list(done.restored), "aside": list(done.aside)}, parts)


def _progress(options: Options) -> Progress:
    """Show on a terminal how far a check is, in one line that is gone at its end."""
    if options.json or not sys.stderr.isatty():
        return lambda _done, _total: None

    def show(done: int, total: int) -> None:
        if done == total:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        elif done % 100 == 0:
            print(f"\rchecked {done:,} of {total:,} histories", end="", file=sys.stderr, flush=True)

    return show


def _versions(health: Health) -> dict[str, object]:
    return {
        "database": health.database,
        "location": health.location,
        "version": f"{health.version:04d}",
        "head": f"{health.head:04d}",
    }


def _about(manifest: Manifest) -> dict[str, object]:
    return {
        "format": manifest.format,
        "created_at": manifest.created_at,
        "database": manifest.database,
        "version": f"{manifest.version:04d}",
        "left_out": list(manifest.left_out),
    }


def _text(name: str, value: object) -> str:
    if name == "sqlite_affected":
        return "by the WAL-reset bug; the lock file guards against it" if value else "by no known bug"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
