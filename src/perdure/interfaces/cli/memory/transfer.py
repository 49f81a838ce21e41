"""`perdure memory export | import`: records as lines of JSON."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from perdure.app.memory.memory import HomeMemory, open_memory
from perdure.errors import Conflict, Invalid, NotFound, Unavailable
from perdure.files.opening import open_input
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.files import new_file
from perdure.interfaces.cli.memory.inputs import empty_input, input_in_pieces
from perdure.interfaces.cli.output.terminal import one_line
from perdure.memory.record import JsonObject

_CHUNK = 1 << 20
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (export, import_):
        command(app, fn.__name__.rstrip("_"), server="It copies whole records of a home: run it where the home is.")(fn)


async def export(
    options: Options,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file; standard output when left out.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    archive: Annotated[bool, typer.Option("--archive", help="Also what compaction has moved away.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Each line as it stands in the log, with its sum.")] = False,
) -> Answer:
    """Write every record as one line of JSON, oldest first. A file is there wholly or not at all."""
    async with open_memory(options.settings()) as memory:
        lines = memory.export(raw=raw, archive=archive)
        if output is not None:
            path = Path(os.path.abspath(output.expanduser()))
            count = await _write(path, lines, force=force)
            return Answer({"records": count, "path": str(path)}, [f"Wrote {path}: {count:,} records."])
        if options.json:
            texts = [line.decode().rstrip("\n") async for line in lines]
            return Answer({"records": len(texts), "lines": texts})
        if not (count := await _print(lines)):
            print("The memory is empty.", file=sys.stderr)
        return Answer({"records": count})


async def import_(
    options: Options,
    *,
    source: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON, as `export` writes them; `-`: stdin.")],
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Exit 0 also when lines were left out; they are still listed.")
    ] = False,
) -> Answer:
    """Add every record of a file whose id is not there yet.

    Exit 2 when a line is not a record, 4 when an id is taken by another record; the other lines are added. A forgotten
    record is not added again.
    """
    async with open_memory(options.settings()) as memory:
        found = await _taken_in(memory, source)
    said = [f"Line {each['line']}: {each['why']}" for each in found["bad"][:_SHOWN]]
    more = [f"… and {found['bad_lines'] - len(said)} more."] if found["bad_lines"] > len(said) else []
    forgotten = f" {found['forgotten']:,} forgotten," if found["forgotten"] else ""
    counts = (
        f"Added {found['added']:,}, {found['skipped']:,} there already,{forgotten}"
        f" {found['bad_lines']:,} lines are no record."
    )
    return Answer(found, [counts, *said, *more, *_conflicts(found)], 0 if lenient else _exit_code(found))


def _conflicts(found: JsonObject) -> list[str]:
    """Name the lines whose id another record has."""
    said = [
        f"Line {each['line']}: the id {each['id']!r} is taken by another record; it was not added."
        for each in found["conflicting"][:_SHOWN]
    ]
    left = found["conflicts"] - len(said)
    return [*said, *([f"… and {left} more ids that are taken."] if left else [])]


def _exit_code(found: JsonObject) -> int:
    if found["bad_lines"]:
        return Invalid.exit_code
    return Conflict.exit_code if found["conflicts"] else 0


async def _taken_in(memory: HomeMemory, source: str) -> JsonObject:
    with input_in_pieces(_CHUNK) if source == "-" else _file_in_pieces(source) as pieces:
        return await memory.import_lines(_not_empty(pieces) if source == "-" else pieces)


def _not_empty(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Give the pieces.

    Raises: Invalid when there is none.
    """
    first = next(pieces, None)
    if first is None:
        raise empty_input()
    yield first
    yield from pieces


@contextmanager
def _file_in_pieces(source: str) -> Iterator[Iterator[bytes]]:
    try:
        with os.fdopen(open_input(source), "rb") as file:
            yield iter(lambda: file.read(_CHUNK), b"")
    except IsADirectoryError as error:
        raise Invalid(f"{source} is a folder; a file was expected.") from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {source}.") from error
    except OSError as error:
        raise Unavailable(f"{source} cannot be read: {error.strerror}.") from error


async def _print(lines: AsyncIterator[bytes]) -> int:
    """Print lines as they are; on a terminal without what could change it.

    Raises: Unavailable
    """
    is_terminal = sys.stdout.isatty()
    count = 0
    try:
        async for line in lines:
            count += 1
            text = line.decode()
            sys.stdout.write(one_line(text.rstrip("\n")) + "\n" if is_terminal else text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unavailable(f"Standard output cannot be written: {error.strerror}.") from error
    return count


async def _write(path: Path, lines: AsyncIterator[bytes], *, force: bool) -> int:
    """Write lines into a file that is there wholly or not at all.

    Raises: Conflict when it is there and not to be replaced; Denied; Unavailable.
    """
    count = 0
    with new_file(path, force=force) as part, os.fdopen(part.fd, "wb", closefd=False) as file:
        async for line in lines:
            count += 1
            file.write(line)
    return count
