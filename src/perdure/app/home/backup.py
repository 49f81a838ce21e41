"""Backups of a home: one archive of database, bots, skills and memory, and restoring it."""

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure import __version__
from perdure.app import open_home
from perdure.app.home.restore_places import restore_places
from perdure.errors import from_os_error
from perdure.files.folders import ensure_folder
from perdure.settings import Settings
from perdure.store.backup.archive import Manifest, write_archive
from perdure.store.backup.restore import restore
from perdure.store.backup.restore_plan import Restored

__all__ = ["Manifest", "back_up", "restore_backup"]

log = logging.getLogger(__name__)


async def back_up(settings: Settings, path: Path) -> Manifest:
    """Write one archive of database, bots, skills and memory while the home is in use.

    Raises: NotFound when there is no database; Conflict when the file exists; Denied; Unavailable.
    """
    async with open_home(settings, migrate=False, must_exist=True) as p:
        health = await p.database.health()
        ensure_folder(path.parent)
        with _scratch_folder(path.parent) as folder:
            dump = folder / "database"
            await p.database.backup(dump)
            manifest = await asyncio.to_thread(
                write_archive,
                path,
                dump=dump,
                database=health.database,
                version=health.version,
                folders=restore_places(settings).folders,
                program=f"perdure {__version__}",
            )
    log.info("backed up %s into %s", health.location, path)
    return manifest


@contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix=".perdure-backup-", dir=parent))
    except OSError as error:
        raise from_os_error(f"The folder {parent} cannot be written", error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def restore_backup(settings: Settings, source: Path, *, replace: bool) -> Restored:
    """Restore a backup into the home; see `perdure.store.backup.restore`."""
    return await asyncio.to_thread(restore, source, restore_places(settings), replace=replace)
