"""`perdure memory status | verify | repair | rebuild | compact | forget`."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from perdure.app.memory.memory import open_memory
from perdure.errors import Conflict, Damaged, Denied, NotFound
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.confirm import can_ask, is_sure
from perdure.interfaces.cli.memory.records import described
from perdure.interfaces.cli.remote.opened import records_of
from perdure.interfaces.cli.remote.ports.records import RecordReader

Record = Annotated[str, typer.Argument(metavar="ID", help="The whole id of the record.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (status, forget):
        command(app, fn.__name__, server=True)(fn)
    for fn in (verify, repair, rebuild, compact):
        command(app, fn.__name__, server="It works on the files of the memory, on the machine that has them.")(fn)


async def status(options: Options) -> Answer:
    """Show how much there is, how large it is, and how the log and its index stand."""
    async with records_of(options) as memory:
        found = await memory.reader.status()
    return Answer(found, [_table(found)])


async def verify(
    options: Options,
    *,
    clear: Annotated[
        bool, typer.Option("--clear", help="After a failed flush: rewrite the log, allow appends.")
    ] = False,
) -> Answer:
    """Read the whole log and the archive, and say what is wrong with them; exit 7 when something is.

    Checks that each line is JSON, that its checksum fits, and that ids are unique and printable. The index is not read.
    """
    async with open_memory(options.settings()) as memory:
        found = await memory.verify(clear=clear)
    listed = [*found["bad"], *found["archive"]["bad"]]
    is_damaged = found["failed"] or found["bad_lines"] or found["archive"]["bad_lines"]
    odd = found["odd_ids"]
    said = [_bad(each) for each in listed] or ["Every line is as it was written."]
    if found["failed"]:
        said.append("A flush has failed; `perdure memory verify --clear` allows appends again.")
    if found["bad_lines"]:
        said.append("`perdure memory repair` moves damaged lines aside; --accept ID takes an altered one as it stands.")
    said += [f"The id {each['id']!r} has a control character; `perdure memory forget` removes it." for each in odd]
    said.append("Checked in the log and the archive: JSON, checksums, ids. The index is derived, and not checked.")
    rest = {key: value for key, value in found.items() if key not in ("bad", "archive", "odd_ids", "checked")}
    return Answer(found, [*said, _table(rest)], Damaged.exit_code if is_damaged else 0)


async def repair(
    options: Options,
    *,
    accept: Annotated[
        str | None, typer.Option("--accept", metavar="ID", help="Take this altered record as it stands.")
    ] = None,
) -> Answer:
    """Move damaged lines out of the log into `quarantine`; nothing is deleted."""
    async with open_memory(options.settings()) as memory:
        found = await memory.repair(accept=accept)
    return Answer(found, [_table(found)])


async def rebuild(options: Options) -> Answer:
    """Make the index anew from the log."""
    async with open_memory(options.settings()) as memory:
        found = await memory.rebuild()
    return Answer(found, [_table(found)])


async def compact(
    options: Options,
    *,
    days: Annotated[
        int | None,
        typer.Option("--days", metavar="N", min=1, max=365, help="Days to keep (default: memory.retention_days)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and write nothing.")] = False,
) -> Answer:
    """Move old and superseded records into the archive; pinned ones and the newest of each fingerprint stay."""
    async with open_memory(options.settings()) as memory:
        found = await memory.compact(retention_days=days, dry_run=dry_run)
    said = ["This would be done; nothing was written."] if dry_run else []
    return Answer({**found, "dry_run": dry_run}, [*said, _table(found)])


async def forget(
    options: Options,
    *,
    record: Record,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether you are sure.")] = False,
) -> Answer:
    """Remove a record for good, from the log and the archive; asks on a terminal, needs --yes elsewhere."""
    async with records_of(options) as memory:
        known = await _known(memory.reader, record)
        is_it = known is not None and known["id"] == record
        if not yes:
            _ask(options, list(described(known)) if known and is_it else [f"{record}, if it is in the archive"])
        try:
            found = await memory.writer.forget(record)
        except NotFound as error:
            if known is None or is_it:
                raise
            meant = f"Did you mean {known['id']!r}? Commands that change the memory need the whole id."
            raise NotFound(f"No record has the id {record!r}. {meant}") from error
    return Answer(found, [f"{record} is forgotten."])


async def _known(memory: RecordReader, record: str) -> dict[str, Any] | None:
    """Return the record with an id, or the only one whose id begins so; one in the archive is not found."""
    try:
        return await memory.get(record)
    except (NotFound, Conflict):
        return None


def _ask(options: Options, about: list[str]) -> None:
    """Let a person think again.

    Raises: Conflict without a terminal; Denied when the answer is no.
    """
    if not can_ask(options):
        raise Conflict("Nothing was forgotten: it cannot be undone and needs a confirmation. Give --yes.")
    print("\n".join(about), file=sys.stderr)
    if not is_sure("Forget it for good?"):
        raise Denied("Nothing was forgotten.")


def _bad(found: dict[str, Any]) -> str:
    about = ", ".join(f"{key} {value}" for key, value in found.items() if key != "kind")
    return f"{found.get('kind', 'bad')}: {about}"


def _table(found: Mapping[str, Any]) -> Table:
    return Table(["what", "value"], [[key.replace("_", " "), _value(value)] for key, value in found.items()])


def _value(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case None:
            return ""
        case dict():
            return ", ".join(f"{key} {_value(inner)}" for key, inner in value.items())
        case list():
            return ", ".join(map(_value, value))
        case _:
            return str(value)
