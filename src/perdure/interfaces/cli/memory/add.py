"""`perdure memory add | update`: a record from flags, or records from standard input."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perdure.errors import Invalid
from perdure.interfaces.cli.command import Options, command, with_options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.memory.inputs import read_input
from perdure.interfaces.cli.remote.opened import records_of
from perdure.memory.arguments import text_of
from perdure.memory.ingest.checkout import in_repository, repository_root
from perdure.memory.log.log import now_ms
from perdure.memory.normalise import normalised
from perdure.memory.record import JsonObject
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
        typer.Option("--type", metavar="TYPE", help="What it is: incident, revert, lesson, decision, fact, …"),
    ],
    "title": Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What it is about, in a line.")],
    "summary": Annotated[str | None, typer.Option("--summary", metavar="TEXT", help="What is worth knowing.")],
    "severity": Annotated[str | None, typer.Option("--severity", metavar="S", help="critical, high, medium or low.")],
    "path": Annotated[
        list[str] | None,
        typer.Option("--path", metavar="PATH", help="A path in a repository, relative or absolute; may be repeated."),
    ],
    "fingerprint": Annotated[
        str | None, typer.Option("--fingerprint", metavar="F", help="What is equal for the same cause.")
    ],
    "repo": Annotated[
        str | None,
        typer.Option("--repo", metavar="REPO", help="owner/name (default with --path, --sha or --pr: that of origin)."),
    ],
    "sha": Annotated[str | None, typer.Option("--sha", metavar="SHA", help="The commit.")],
    "pr": Annotated[int | None, typer.Option("--pr", metavar="N", min=0, help="The pull request.")],
    "source": Annotated[str | None, typer.Option("--source", metavar="TEXT", help="Who says so.")],
    "link": Annotated[
        list[str] | None, typer.Option("--link", metavar="URL", help="Where more is to be found; may be repeated.")
    ],
    "metadata": Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Whatever else there is to say: a JSON object.")
    ],
    "pinned": Annotated[bool | None, typer.Option("--pinned", help="Compaction never moves it away.")],
}
"""The parts of a record, which `add` and `update` take as options."""
_with_record = with_options("given", _RECORD)
Given = Mapping[str, Any]
_LARGEST_INPUT = 64 << 20


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
    again: Annotated[bool, typer.Option("--again", help="Store it even if the same was stored within a day.")] = False,
) -> Answer:
    """Store a record; it is on stable storage when this ends. The same record within a day is stored once."""
    record = _record(given)
    if stdin is None:
        return await _add_one(options, _of_repository(record, given["path"] or []), dedupe=not again)
    if stdin != "-":
        raise Invalid(f"{stdin!r} was not expected. Give the record by flags, or `-` to read standard input.")
    if record:
        raise Invalid("Give the record by flags or on standard input, not both.")
    records, is_one = _read()
    return await (_add_one(options, records[0], dedupe=not again) if is_one else _add_all(options, records, not again))


@_with_record
async def update(
    options: Options,
    *,
    given: Given,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key of your own, or the whole id of a record.")],
) -> Answer:
    """Store a record under a key; it supersedes the one that is there, and takes over what is not given.

    A superseded record is not found any more, and `show` still shows it. Compaction moves it into the archive.
    """
    changes = _record(given)
    async with records_of(options) as memory:
        answer = await memory.writer.update(key, changes)
    return Answer(answer, [_updated(answer)])


def _of_repository(record: JsonObject, paths: list[str]) -> JsonObject:
    """Return a record that names a path, a commit or a pull request with its repository: that of `origin`, if any.

    A path may lie in another repository than the current folder.
    """
    from perdure.memory.ingest.git import Repository

    needs_one = "repo" not in record and any(key in record for key in ("paths", "sha", "pr_number"))
    folder = repository_root(Path(os.path.abspath(paths[0]))) if paths else None
    name = Repository(folder).name() if needs_one else None
    return record if name is None else {**record, "repo": name}


def _updated(answer: "UpdatedRecord") -> str:
    if not answer["added"]:
        is_same = answer.get("reason") == "unchanged"
        return f"Nothing changes: {answer['existing_id']} says the same." if is_same else _said(answer)
    gone = f", which supersedes {', '.join(answer['superseded'])}" if answer["superseded"] else ""
    return f"Added {answer['id']} under the key {answer['key']}{gone}."


def _record(given: Given) -> JsonObject:
    """Return what is given by flags."""
    record = {
        "type": given["kind"],
        "title": given["title"],
        "summary": given["summary"],
        "severity": given["severity"],
        "paths": [in_repository(each) for each in given["path"] or []],
        "fingerprint": given["fingerprint"],
        "repo": given["repo"],
        "sha": given["sha"],
        "pr_number": given["pr"],
        "source": given["source"],
        "links": given["link"],
        "metadata": _metadata(given["metadata"], is_pinned=bool(given["pinned"])),
    }
    return {key: value for key, value in record.items() if value not in (None, [])}


async def _add_one(options: Options, record: JsonObject, *, dedupe: bool) -> Answer:
    async with records_of(options) as memory:
        answer = await memory.writer.add(record, dedupe=dedupe)
    return Answer(answer, [_said(answer)])


async def _add_all(options: Options, records: list[JsonObject], dedupe: bool) -> Answer:
    async with records_of(options) as memory:
        try:
            answers = await memory.writer.add_many(records, dedupe=dedupe)
        except Invalid as error:
            raise _with_number(records, error) from error
    added = sum(1 for answer in answers if answer["added"])
    others = [_said(answer) for answer in answers if not answer["added"]]
    return Answer({"added": added, "not_added": len(others), "records": answers}, [f"Added {added}.", *others[:10]])


def _said(answer: "AddedRecord | UpdatedRecord") -> str:
    if answer["added"]:
        return f"Added {answer['id']}."
    if answer.get("reason") == "duplicate":
        name = answer["existing_id"]
        return f"Not added: the same record is stored already, as {name}. `perdure memory update {name}` changes it."
    return "Not added: the memory is switched off (memory.enabled)."


def _with_number(records: list[JsonObject], error: Invalid) -> Invalid:
    """Say which of several records it was; none was stored."""
    for number, record in enumerate(records, start=1):
        try:
            normalised(record, now_ms())
        except Invalid as found:
            return Invalid(f"Record {number}: {found.detail} None was stored.")
    return error


def _metadata(text: str | None, *, is_pinned: bool) -> JsonObject | None:
    found = parse_json(text_of(text, "--metadata"), "--metadata", PAYLOAD) if text is not None else {}
    if not isinstance(found, dict):
        raise Invalid("--metadata must be a JSON object.")
    return {**found, **({"pinned": True} if is_pinned else {})} or None


def _read() -> tuple[list[JsonObject], bool]:
    """Read standard input: one object, which may stand on several lines, or one object on each line."""
    data = read_input(_LARGEST_INPUT, "`perdure memory import` takes files of any size.")
    try:
        return [_object(parse_json(data, "Standard input", PAYLOAD), "Standard input")], True
    except NotJson as error:
        texts = [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]
        if len(texts) < 2:
            raise Invalid(error.detail) from error
    return [_object(parse_json(line, f"Line {number}", PAYLOAD), f"Line {number}") for number, line in texts], False


def _object(found: Any, where: str) -> JsonObject:
    if not isinstance(found, dict):
        raise Invalid(f"{where} must be a JSON object.")
    return found
