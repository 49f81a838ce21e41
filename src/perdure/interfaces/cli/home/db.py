"""`perdure db`."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from perdure.app import look_into_home, open_home
from perdure.app.access.secret_files import SecretFiles
from perdure.app.home.backup import Manifest, back_up, restore_backup
from perdure.app.home.upgrades import Connected, Health, upgrade_home
from perdure.app.home.verification import Progress, verify_database
from perdure.errors import Damaged
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.settings import Settings


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


async def migrate(options: Options) -> CommandResult:
    """Create the database, or migrate it to the newest version. A current database is unchanged."""
    return await upgrade(options.settings(), verbose=options.verbose)


async def upgrade(settings: Settings, *, verbose: bool = False) -> CommandResult:
    """Migrate a home, and report its tables and the processes that must be restarted."""
    done = await upgrade_home(settings, debug=verbose)
    before, health, names = done.before, done.health, list(done.tables)
    what = "was created with" if before == 0 else f"went from {before:04d} to"
    if before == health.version:
        what = "is at"
    said = [f"{health.location} {what} version {health.version:04d}.", f"{len(names)} tables: {', '.join(names)}."]
    if done.outdated:
        users = ", ".join(_user(user) for user in done.outdated)
        said.append(f"These processes use the older version and can no longer write. Restart them: {users}.")
    outdated = [{"pid": user.pid, "host": user.host} for user in done.outdated]
    data = {"before": f"{before:04d}", "count": len(names), "tables": names, "outdated_processes": outdated}
    return CommandResult({**_versions(health), **data}, said)


def _user(user: Connected) -> str:
    return f"a process on {user.host}" if user.pid is None else f"{user.pid} on {user.host}"


async def status(options: Options) -> CommandResult:
    """Show the version, the location and the settings for durability. Does not migrate the database."""
    async with look_into_home(options.settings(), debug=options.verbose) as p:
        health = await p.database.health()
    data = {**_versions(health), **health.facts}
    return CommandResult(data, [Table(["what", "value"], [[name, _text(name, value)] for name, value in data.items()])])


async def tables(options: Options) -> CommandResult:
    """List the tables with their numbers of rows. Does not migrate the database."""
    return await show_tables(options.settings(), verbose=options.verbose)


async def show_tables(settings: Settings, *, verbose: bool = False) -> CommandResult:
    """Return the tables of a home with their numbers of rows."""
    async with look_into_home(settings, debug=verbose) as p:
        counts = await p.database.count_rows()
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    return CommandResult({"tables": list(counts), "rows": counts}, [Table(["table", "rows"], rows)])


async def verify(options: Options) -> CommandResult:
    """Verify the whole database and the hash of every event, and report damage; exit 7 if there is any."""
    async with open_home(options.settings(), migrate=False, must_exist=True, debug=options.verbose) as p:
        health = await p.database.health()
        problems = await verify_database(p.database, _progress(options))
    said = problems or [f"{health.location}: no problems found."]
    if health.version < health.head:
        said = [*said, f"It is at version {health.version:04d} of {health.head:04d}: run `perdure db migrate`."]
    return CommandResult(
        {"ok": not problems, **_versions(health), "problems": problems},
        said,
        exit_code=Damaged.exit_code if problems else 0,
    )


async def backup(
    options: Options,
    *,
    path: Annotated[
        Path | None, typer.Argument(metavar="PATH", help="The archive to write (default: a name with the date).")
    ] = None,
) -> CommandResult:
    """Write one archive of database, bots, skills and memory. The home can be in use."""
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
    parts += [f"Skipped, because it is neither a file nor a folder: {name}" for name in manifest.left_out]
    if kept_out:
        parts.append(f"Skipped, because they are secrets: {', '.join(kept_out)}. They stay in {secrets.folder}.")
    return CommandResult({**data, "secrets_left_out": kept_out}, parts)


async def restore(
    options: Options,
    *,
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="An archive of `perdure db backup`, or a copy of a SQLite database."),
    ],
    replace: Annotated[bool, typer.Option("--replace", help="Move the existing files aside first.")] = False,
) -> CommandResult:
    """Restore a backup into the home, which must be empty unless --replace is used."""
    done = await restore_backup(options.settings(), Path(os.path.abspath(source.expanduser())), replace=replace)
    parts = [f"Restored {place}." for place in done.restored]
    parts += [f"The existing files were moved to {aside}." for aside in done.aside]
    return CommandResult({"restored": list(done.restored), "aside": list(done.aside)}, parts)


def _progress(options: Options) -> Progress:
    """Return a function that shows the progress of a check on a terminal, in one line that is erased at the end."""
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
        return "by the WAL-reset bug; the lock file prevents it" if value else "by no known bug"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
