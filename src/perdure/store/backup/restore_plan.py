"""The plan of a restore, and carrying it out: once it is written down, a restore can only go forward.

The next process that opens the home completes the plan. Nothing is deleted or replaced: old files are moved aside.
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
    """Something new that is ready beside its place, and where the old goes."""

    new: str
    place: str
    aside: str


@dataclass(frozen=True)
class Plan:
    """All that is left to do once everything is unpacked and checked.

    It counts only for the home and the database that it names. A copy of a database is not a whole home; a dump is for
    PostgreSQL.
    """

    home: str
    database: str
    swaps: tuple[Swap, ...]
    dump: str | None
    mark: str
    is_whole_home: bool


@dataclass(frozen=True)
class Restored:
    """What a restore put into place, and what it moved aside."""

    restored: tuple[str, ...]
    aside: tuple[str, ...]


def write_plan(home: Path, plan: Plan) -> None:
    """Write the plan; from here on it is carried out, by this process or by the next one that opens the home."""
    failpoints.hit("store.restore.plan.before")
    with new_file(home / PLAN) as part:
        part.write_text(json.dumps(asdict(plan), indent=1), encoding="utf-8")
    failpoints.hit("store.restore.plan.after")


def pending_plan(places: Places) -> Plan | None:
    """Return the plan of a restore that was interrupted; None when there is none.

    Raises: what `finish` raises.
    """
    path = places.home / PLAN
    return _read_plan(path, places) if os.path.lexists(path) else None


def finish(places: Places, lock_folders: Callable[[Plan], None]) -> Restored | None:
    """Do what the plan says and was not done yet. The caller holds the lock of restores, and that of a SQLite file.

    The folders are locked only after the tables of a server have been loaded, which can take long.

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
    """Read a plan, and see that it is for this home and this database, and touches nothing else.

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
    """Swap one thing, unless it was done before, and return what the old became. Nothing is ever replaced.

    What SQLite keeps beside a database goes aside also when the file itself is gone, because a kill came between the
    two, or it was removed: an old log would be read as that of the new file.
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
    """Say how something that is staged beside its place gets there."""
    aside = unused(place.with_name(f"{place.name}.replaced-{mark}"))
    return Swap(str(files.staged_path(place)), str(place), str(aside))


def remove_staged(places: Places) -> None:
    """Remove what a restore has unpacked and will not need, and plans that a kill left half written."""
    for part in places.home.glob(f".{PLAN}.part-*"):
        part.unlink(missing_ok=True)
    for place in all_places(places):
        staged = files.staged_path(place)
        if staged.is_dir() and not staged.is_symlink():
            shutil.rmtree(staged)
        for part in (staged, *files.side_paths(staged)):
            part.unlink(missing_ok=True)
