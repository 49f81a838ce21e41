"""`perdure memory status | verify | repair | rebuild | compact | forget`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from perdure.app.memory.memory import open_memory
from perdure.errors import Conflict, Damaged, Denied, NotFound
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.confirm import ask_yes_no, can_ask
from perdure.interfaces.cli.memory.records import record_lines
from perdure.interfaces.cli.remote.opened import records_of
from perdure.interfaces.cli.remote.ports.records import find_by_prefix

_VERIFIED = {
    "records": "records",
    "unchecked": "records without a checksum",
    "bad_lines": "damaged lines",
    "torn": "lines whose writer died",
    "repeated_ids": "repeated ids",
    "torn_tail": "bytes of an incomplete last line",
    "failed": "a flush has failed",
    "cleared": "appends allowed again",
}
"""What `verify` found, in the words of its table."""
Record = Annotated[str, typer.Argument(metavar="ID", help="The whole id of the record.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (status, forget):
        command(app, fn.__name__, server=True)(fn)
    for fn in (verify, repair, rebuild, compact):
        command(
            app, fn.__name__, server="It changes or checks the files of a memory: run it on the machine that has them."
        )(fn)


async def status(options: Options) -> CommandResult:
    """Show the number of records, their size, and the state of the log and the index."""
    async with records_of(options) as memory:
        found = await memory.reader.status()
    index = {"index": "not built yet: the next query builds it"} if found["index"]["state"] == "missing" else {}
    return CommandResult(found, [_table({**found, **index})])


async def verify(
    options: Options,
    *,
    clear: Annotated[
        bool,
        typer.Option(
            "--clear",
            help="Clear the mark of a failed flush: reads the log, rewrites it unchanged, and allows appends again.",
        ),
    ] = False,
) -> CommandResult:
    """Verify the whole log and the archive, and report damage; exit 7 if there is any.

    Checks that each line is JSON with a correct checksum, and that ids are unique and printable. The index is not read.
    """
    async with open_memory(options.settings()) as memory:
        found = await memory.verify(clear=clear)
    listed = [*found["bad"], *found["archive"]["bad"]]
    is_damaged = found["failed"] or found["bad_lines"] or found["archive"]["bad_lines"]
    odd = found["odd_ids"]
    lines = [_bad(each) for each in listed] or ["Every line is unchanged."]
    if found["failed"]:
        lines.append("A flush has failed; `perdure memory verify --clear` allows appends again.")
    if found["bad_lines"]:
        lines.append("`perdure memory repair` quarantines damaged lines; --accept ID keeps an altered record.")
    lines += [f"The id {each['id']!r} has a control character; `perdure memory forget` removes it." for each in odd]
    lines.append("Checked in the log and the archive: JSON, checksums, ids. The index is derived, and not checked.")
    rest = {name: found[key] for key, name in _VERIFIED.items()}
    return CommandResult(found, [*lines, _table(rest)], Damaged.exit_code if is_damaged else 0)


async def repair(
    options: Options,
    *,
    accept: Annotated[
        str | None, typer.Option("--accept", metavar="ID", help="Keep this altered record with its present content.")
    ] = None,
) -> CommandResult:
    """Move damaged lines from the log into `quarantine`; nothing is deleted."""
    async with open_memory(options.settings()) as memory:
        found = await memory.repair(accept=accept)
    return CommandResult(found, [_table(found)])


async def rebuild(options: Options) -> CommandResult:
    """Rebuild the index from the log."""
    async with open_memory(options.settings()) as memory:
        found = await memory.rebuild()
    return CommandResult(found, [_table(found)])


async def compact(
    options: Options,
    *,
    days: Annotated[
        int | None,
        typer.Option("--days", metavar="N", min=1, max=365, help="Days to keep (default: memory.retention_days)."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report the effect without writing.")] = False,
) -> CommandResult:
    """Move old and superseded records into the archive; pinned ones and the newest of each fingerprint stay."""
    async with open_memory(options.settings()) as memory:
        found = await memory.compact(retention_days=days, dry_run=dry_run)
    note = ["Dry run: nothing was written."] if dry_run else []
    return CommandResult({**found, "dry_run": dry_run}, [*note, _table(found)])


async def forget(
    options: Options,
    *,
    record: Record,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> CommandResult:
    """Delete a record permanently from log and archive. Asks on a terminal; elsewhere, --yes is required."""
    async with records_of(options) as memory:
        known = await find_by_prefix(memory.reader, record)
        has_whole_id = known is not None and known["id"] == record
        if not yes:
            description = [f"{record}, if it is in the archive"]
            _confirm(options, list(record_lines(known)) if known and has_whole_id else description)
        try:
            found = await memory.writer.forget(record)
        except NotFound as error:
            if known is None or has_whole_id:
                raise
            hint = f"Did you mean {known['id']!r}? Commands that change the memory need the whole id."
            raise NotFound(f"No record has the id {record!r}. {hint}") from error
    return CommandResult(found, [f"{record} is forgotten.", *_about_versions(found.get("other_versions", []))])


def _about_versions(names: Sequence[str]) -> list[str]:
    """Return the hint about versions of a forgotten record that remain."""
    if not names:
        return []
    are = "Another version of the record remains" if len(names) == 1 else "Other versions of the record remain"
    return [f"{are}: {', '.join(names)}. Forget {'it' if len(names) == 1 else 'them'}, too, if the text must go."]


def _confirm(options: Options, description: list[str]) -> None:
    """Show a record, and ask for confirmation of its deletion.

    Raises: Conflict without a terminal; Denied when the answer is no.
    """
    if not can_ask(options):
        raise Conflict("Nothing was forgotten: it cannot be undone and needs a confirmation. Use --yes.")
    print("\n".join(description), file=sys.stderr)
    if not ask_yes_no("Forget it permanently?"):
        raise Denied("Nothing was forgotten.")


def _bad(found: dict[str, Any]) -> str:
    fields = ", ".join(f"{key} {value}" for key, value in found.items() if key != "kind")
    return f"{found.get('kind', 'bad')}: {fields}"


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
