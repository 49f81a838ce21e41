"""`perdure memory export | import`: records as lines of JSON."""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from perdure.app.memory.memory import HomeMemory, open_memory
from perdure.errors import Conflict, Invalid, NotFound, Unavailable
from perdure.files.opening import open_input
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.files import new_file
from perdure.interfaces.cli.memory.duplicates import duplicates
from perdure.interfaces.cli.memory.inputs import empty_input, input_in_pieces
from perdure.interfaces.cli.output.terminal import one_line

_CHUNK = 1 << 20
_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for fn in (export, import_):
        command(
            app, fn.__name__.rstrip("_"), server="It copies whole records of a home: run it on the machine of the home."
        )(fn)


async def export(
    options: Options,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file (default: standard output).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    archive: Annotated[bool, typer.Option("--archive", help="Include the archive of compacted records.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write the lines of the log unchanged, with their checksums.")
    ] = False,
) -> CommandResult:
    """Write every record as one line of JSON, oldest first. A file is written completely or not at all."""
    async with open_memory(options.settings()) as memory:
        lines = memory.export(raw=raw, archive=archive)
        if output is not None:
            path = Path(os.path.abspath(output.expanduser()))
            count = await _write(path, lines, force=force)
            return CommandResult({"records": count, "path": str(path)}, [f"Wrote {path}: {count:,} records."])
        if options.json:
            texts = [line.decode().rstrip("\n") async for line in lines]
            return CommandResult({"records": len(texts), "lines": texts})
        if not (count := await _print(lines)):
            print("The memory is empty.", file=sys.stderr)
        return CommandResult({"records": count})


async def import_(
    options: Options,
    *,
    source: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON in the format of `export`; `-`: stdin.")],
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Exit 0 even if lines were skipped; they are still listed.")
    ] = False,
) -> CommandResult:
    """Add every record of a file whose id does not exist yet.

    Exit 2 if a line is not a record, 4 if an id belongs to another record; the other lines are added. A forgotten
    record is not added again.
    """
    async with open_memory(options.settings()) as memory:
        found = await _import_from(memory, source)
    problems = [f"Line {each['line']}: {each['why']}" for each in found["bad"][:_SHOWN]]
    more = [f"… and {found['bad_lines'] - len(problems)} more."] if found["bad_lines"] > len(problems) else []
    forgotten = f", {found['forgotten']:,} forgotten" if found["forgotten"] else ""
    not_added = f"{duplicates(found['skipped'])}{forgotten}, {found['bad_lines']:,} invalid"
    counts = f"Added: {found['added']:,}. Not added: {not_added}."
    return CommandResult(found, [counts, *problems, *more, *_conflicts(found)], 0 if lenient else _exit_code(found))


def _conflicts(found: dict[str, Any]) -> list[str]:
    """Return messages about the lines whose id belongs to another record."""
    shown = [
        f"Line {each['line']}: the id {each['id']!r} belongs to another record; the line was not added."
        for each in found["conflicting"][:_SHOWN]
    ]
    left = found["conflicts"] - len(shown)
    return [*shown, *([f"… and {left} more conflicting ids."] if left else [])]


def _exit_code(found: dict[str, Any]) -> int:
    if found["bad_lines"]:
        return Invalid.exit_code
    return Conflict.exit_code if found["conflicts"] else 0


async def _import_from(memory: HomeMemory, source: str) -> dict[str, Any]:
    with input_in_pieces(_CHUNK) if source == "-" else _file_in_pieces(source) as pieces:
        return await memory.import_lines(_not_empty(pieces) if source == "-" else pieces)


def _not_empty(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces unchanged.

    Raises: Invalid when there are none.
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
        raise Invalid(f"{source} is a folder, not a file.") from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no file {source}.") from error
    except OSError as error:
        raise Unavailable(f"{source} cannot be read: {error.strerror}.") from error


async def _print(lines: AsyncIterator[bytes]) -> int:
    """Print lines unchanged; on a terminal, escape control characters.

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
    """Write lines into a file, completely or not at all.

    Raises: Conflict when the file exists and `force` is not set; Denied; Unavailable.
    """
    count = 0
    with new_file(path, force=force) as part, os.fdopen(part.fd, "wb", closefd=False) as file:
        async for line in lines:
            count += 1
            file.write(line)
    return count
