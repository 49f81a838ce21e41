"""The plan of a restore: once it is durable, the restore is always finished, if necessary by a later process.

The next process that opens the home finishes the plan. No file is deleted or overwritten: old files are moved aside.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, Damaged, Invalid
from perdure.files.atomic import rename_durably, unused
from perdure.files.fsync import fsync_folder
from perdure.store.backup.new_file import new_file
from perdure.store.backup.places import PLAN, Places, all_places
from perdure.store.sqlite import files
from perdure.store.target import PostgresTarget
from perdure.text.strict_json import PAYLOAD, parse_json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Swap:
    """A new file or folder beside its final path, and the path to which the old one is moved."""

    new: str
    place: str
    aside: str


@dataclass(frozen=True)
class Plan:
    """The remaining work of a restore after everything is unpacked and checked.

    It is valid only for the home and database that it names. `dump` is for PostgreSQL; a copy of a database alone is
    not a whole home.
    """

    home: str
    database: str
    swaps: tuple[Swap, ...]
    dump: str | None
    mark: str
    is_whole_home: bool


@dataclass(frozen=True)
class Restored:
    """The paths that a restore has replaced, and those to which it moved the old files."""

    restored: tuple[str, ...]
    aside: tuple[str, ...]


def write_plan(home: Path, plan: Plan) -> None:
    """Make the plan durable. From now on it is carried out, by this process or the next one that opens the home."""
    failpoints.hit("store.restore.plan.before")
    with new_file(home / PLAN) as part:
        part.write_text(json.dumps(asdict(plan), indent=1), encoding="utf-8")
    failpoints.hit("store.restore.plan.after")


def pending_plan(places: Places) -> Plan | None:
    """Return the plan of an interrupted restore; None when there is none.

    Raises: as `finish`.
    """
    path = places.home / PLAN
    return _read_plan(path, places) if os.path.lexists(path) else None


def finish(places: Places, lock_folders: Callable[[Plan], None]) -> Restored | None:
    """Carry out the rest of the plan. The caller holds the lock of restores, and that of a SQLite file.

    The folders are locked after the tables of a database server were loaded, because loading can take long.

    Raises: Damaged; Conflict when the plan belongs to another home or database.
    """
    plan = pending_plan(places)
    if plan is None:
        remove_staged(places)  # of a restore that was killed before it had a plan
        return None
    aside = []
    if plan.dump is not None and isinstance(places.database, PostgresTarget):
        from perdure.store.postgres.restore_tables import swap_tables

        schema = swap_tables(places.database, Path(plan.dump), plan.mark)
        aside += [f"the schema {schema}"] if schema else []
    lock_folders(plan)
    for swap in plan.swaps:
        aside += [str(kept) for kept in _carry_out(Path(swap.new), Path(swap.place), Path(swap.aside))]
    failpoints.hit("store.restore.done.before")
    (places.home / PLAN).unlink()
    fsync_folder(places.home)
    failpoints.hit("store.restore.done.after")
    restored = [*([plan.database] if plan.dump else []), *(swap.place for swap in plan.swaps)]
    log.info("restored %s; aside: %s", ", ".join(restored), ", ".join(aside) or "nothing")
    return Restored(tuple(restored), tuple(aside))


def _read_plan(path: Path, places: Places) -> Plan:
    """Read a plan, and check that it is for this home and database, and changes no other path.

    Raises: Damaged; Conflict when it belongs to another home or database.
    """
    try:
        if not path.is_file():
            raise ValueError("it is not a file")
        content = parse_json(path.read_bytes(), str(path), PAYLOAD)
        plan = Plan(**content | {"swaps": tuple(Swap(**swap) for swap in content["swaps"])})
        expected = {str(place): str(files.staged_path(place)) for place in all_places(places)}
        is_ours = all(
            expected.get(swap.place) == swap.new and Path(swap.aside).parent == Path(swap.place).parent
            for swap in plan.swaps
        )
        is_ours = is_ours and plan.dump in (None, *expected.values())
    except (OSError, Invalid, ValueError, TypeError, KeyError) as error:
        raise Damaged(f"{path} cannot be read, so the interrupted restore cannot continue.") from error
    if not is_ours or (plan.home, plan.database) != (str(places.home), places.database.shown):
        raise Conflict(
            f"{path} is the plan of a restore that was interrupted, in the home {plan.home} with the database"
            f" {plan.database}. Finish it there, with the same settings, or remove the file."
        )
    return plan


def _carry_out(new: Path, place: Path, aside: Path) -> list[Path]:
    """Carry out one swap, unless it was done before, and return the new path of the old file. Never overwrites.

    The files that SQLite keeps beside a database are moved even if the database itself is missing, because of a kill
    between the two moves or because it was removed: SQLite would read an old log as that of the new file.
    """
    if not new.exists():
        return [aside] if os.path.lexists(aside) else []
    failpoints.hit("store.restore.swap.before")
    kept = unused(aside) if os.path.lexists(place) else aside
    moved = []
    for old, then in zip((place, *files.side_paths(place)), (kept, *files.side_paths(kept)), strict=True):
        if os.path.lexists(old):
            old.rename(then)
        if os.path.lexists(then):
            moved.append(then)
    fsync_folder(place.parent)
    failpoints.hit("store.restore.swap.between")
    rename_durably(new, place)
    failpoints.hit("store.restore.swap.after")
    return moved[:1]


def swap_for(place: Path, mark: str) -> Swap:
    """Return the swap of a file or folder that is staged beside its final path."""
    aside = unused(place.with_name(f"{place.name}.replaced-{mark}"))
    return Swap(str(files.staged_path(place)), str(place), str(aside))


def remove_staged(places: Places) -> None:
    """Remove unpacked files that are not needed, and incomplete plans of killed processes."""
    for part in places.home.glob(f".{PLAN}.part-*"):
        part.unlink(missing_ok=True)
    for place in all_places(places):
        staged = files.staged_path(place)
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        for part in (staged, *files.side_paths(staged)):
            part.unlink(missing_ok=True)
