"""`perdure memory add | update`: a record from flags, or records from standard input."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.app.memory.arguments import commit_id, find_invalid
from perdure.app.memory.repositories import path_in_repository, with_repository
from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command, with_options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.memory.duplicates import duplicate_line
from perdure.interfaces.cli.memory.inputs import read_input
from perdure.interfaces.cli.remote.opened import records_of
from perdure.interfaces.cli.remote.ports.records import RecordReader, find_by_prefix
from perdure.text.strict_json import PAYLOAD, NotJson, parse_json

if TYPE_CHECKING:
    from perdure.app.wire.resources.memory import AddedRecord, UpdatedRecord

Input = Annotated[
    str | None,
    typer.Argument(metavar="[-]", help="`-`: read one JSON object, or one on each line, from standard input."),
]
_RECORD: Mapping[str, Any] = {
    "kind": Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Type of the record: lesson, decision, fact, preference, incident, or another word.",
        ),
    ],
    "title": Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The subject in one line.")],
    "summary": Annotated[str | None, typer.Option("--summary", metavar="TEXT", help="The text of the record.")],
    "severity": Annotated[
        str | None, typer.Option("--severity", metavar="S", help="Severity: critical, high, medium or low.")
    ],
    "path": Annotated[
        list[str] | None,
        typer.Option("--path", metavar="PATH", help="A path in a repository, relative or absolute; may be repeated."),
    ],
    "fingerprint": Annotated[
        str | None, typer.Option("--fingerprint", metavar="F", help="Stable identifier of a root cause.")
    ],
    "repo": Annotated[
        str | None,
        typer.Option(
            "--repo", metavar="REPO", help="owner/name (default with --path, --sha or --pr: from the remote `origin`)."
        ),
    ],
    "sha": Annotated[
        str | None, typer.Option("--sha", metavar="COMMIT", help="The commit: an id, or a ref of this repository.")
    ],
    "pr": Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="The pull request.")],
    "source": Annotated[
        str | None,
        typer.Option("--source", metavar="TEXT", help="The origin of the record, for example a tool or a person."),
    ],
    "link": Annotated[
        list[str] | None, typer.Option("--link", metavar="URL", help="A link to more information; may be repeated.")
    ],
    "metadata": Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Additional data: a JSON object.")
    ],
    "pinned": Annotated[bool | None, typer.Option("--pinned", help="Never move the record into the archive.")],
}
"""The fields of a record, as options of `add` and `update`."""
_with_record = with_options("given", _RECORD)
Given = Mapping[str, Any]
_LARGEST_INPUT = 64 << 20
_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (add, update):
        command(app, fn.__name__, server=True)(fn)


@_with_record
async def add(
    options: Options,
    *,
    given: Given,
    stdin: Input = None,
    again: Annotated[
        bool, typer.Option("--again", help="Store the record even if the same was stored within a day.")
    ] = False,
) -> CommandResult:
    """Store a record durably. The same record is stored once within a day."""
    record = _record_of(given)
    if stdin is None:
        first = Path(os.path.abspath(given["path"][0])) if given["path"] else None
        return await _add_one(options, with_repository(record, first), dedupe=not again)
    if stdin != "-":
        raise Invalid(f"Unexpected argument {stdin!r}. Pass the record by options, or `-` to read standard input.")
    if record:
        raise Invalid("Pass the record by options or on standard input, not both.")
    records, is_one = _read()
    return await (_add_one(options, records[0], dedupe=not again) if is_one else _add_all(options, records, not again))


@_with_record
async def update(
    options: Options,
    *,
    given: Given,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key that you choose, or the whole id of a record.")],
) -> CommandResult:
    """Store a record under a key; it supersedes the existing one, and inherits the fields that are not specified.

    Queries do not find a superseded record, but `show` still shows it. Compaction moves it into the archive.
    """
    changes = _record_of(given)
    async with records_of(options) as memory:
        try:
            answer = await memory.writer.update(key, changes)
        except Invalid as error:
            known = None if "type" in changes else await find_by_prefix(memory.reader, key)
            if known is None or known["id"] == key:
                raise
            hint = f"Did you mean {known['id']!r}? Commands that change the memory need the whole id."
            raise Invalid(f"No record has the key or the id {key!r}. {hint}") from error
    return CommandResult(answer, [_updated_line(answer)])


def _updated_line(answer: "UpdatedRecord") -> str:
    if not answer["added"]:
        is_same = answer.get("reason") == "unchanged"
        return f"Nothing changed: {answer['existing_id']} has the same content." if is_same else _added_line(answer)
    superseded = f"; it supersedes {', '.join(answer['superseded'])}" if answer["superseded"] else ""
    return f"Added {answer['id']} under the key {answer['key']}{superseded}."


def _record_of(given: Given) -> dict[str, Any]:
    """Return the record that the options describe."""
    record = {
        "type": given["kind"],
        "title": given["title"],
        "summary": given["summary"],
        "severity": given["severity"],
        "paths": [path_in_repository(each) for each in given["path"] or []],
        "fingerprint": given["fingerprint"],
        "repo": given["repo"],
        "sha": commit_id(given["sha"]) if given["sha"] is not None else None,
        "pr_number": given["pr"],
        "source": given["source"],
        "links": given["link"],
        "metadata": _metadata(given["metadata"], is_pinned=bool(given["pinned"])),
    }
    return {key: value for key, value in record.items() if value not in (None, [])}


async def _add_one(options: Options, record: dict[str, Any], *, dedupe: bool) -> CommandResult:
    async with records_of(options) as memory:
        answer = await memory.writer.add(record, dedupe=dedupe)
        line = await _line_about(memory.reader, record, answer)
    return CommandResult(answer, [line])


async def _add_all(options: Options, records: list[dict[str, Any]], dedupe: bool) -> CommandResult:
    async with records_of(options) as memory:
        try:
            answers = await memory.writer.add_many(records, dedupe=dedupe)
        except Invalid as error:
            raise _with_number(records, error) from error
        others = [each for each in zip(records, answers, strict=True) if not each[1]["added"]]
        lines = [await _line_about(memory.reader, *each) for each in others[:_SHOWN]]
    more = [f"… and {len(others) - _SHOWN} more."] if len(others) > _SHOWN else []
    added = len(answers) - len(others)
    return CommandResult(
        {"added": added, "not_added": len(others), "records": answers}, [f"Added {added}.", *lines, *more]
    )


async def _line_about(memory: RecordReader, record: Mapping[str, Any], answer: "AddedRecord") -> str:
    if answer.get("reason") == "duplicate":
        return await duplicate_line(memory, record, answer["existing_id"])
    return _added_line(answer)


def _added_line(answer: "AddedRecord | UpdatedRecord") -> str:
    if answer["added"]:
        return f"Added {answer['id']}."
    return "Not added: the memory is switched off (memory.enabled)."


def _with_number(records: list[dict[str, Any]], error: Invalid) -> Invalid:
    """Return the error of an invalid record with its number; no record was stored."""
    found = find_invalid(records)
    return error if found is None else Invalid(f"Record {found[0]}: {found[1].detail} No record was stored.")


def _metadata(text: str | None, *, is_pinned: bool) -> dict[str, Any] | None:
    found = parse_json(text, "--metadata", PAYLOAD) if text is not None else {}
    if not isinstance(found, dict):
        raise Invalid("--metadata must be a JSON object.")
    return {**found, **({"pinned": True} if is_pinned else {})} or None


def _read() -> tuple[list[dict[str, Any]], bool]:
    """Read standard input: one object, which may stand on several lines, or one object on each line."""
    data = read_input(_LARGEST_INPUT, "`perdure memory import` takes files of any size.")
    try:
        return [_object(parse_json(data, "Standard input", PAYLOAD), "Standard input")], True
    except NotJson as error:
        texts = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
        if len(texts) < 2:
            raise Invalid(error.detail) from error
    return [_object(parse_json(line, f"Line {number}", PAYLOAD), f"Line {number}") for number, line in texts], False


def _object(found: Any, where: str) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise Invalid(f"{where} must be a JSON object.")
    return found
