"""Prints related records as a Markdown section, or writes it into a file."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from perdure.app.memory.sections import apply_section, render_section
from perdure.errors import Invalid, Unavailable, from_os_error
from perdure.files.atomic import write_atomic
from perdure.files.opening import read_input_file
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.memory.inputs import read_input

_LARGEST = 8 << 20


def with_section(options: Options, found: Mapping[str, Any], target: str | None) -> CommandResult:
    """Print the section, or write it into `target`: a file, or `-` from standard input to standard output.

    Without a match, an older section is removed. A memory that is switched off changes nothing.
    """
    if target is not None and not target.strip():
        raise Invalid("--apply needs a file name, or `-` for standard input.")
    section = render_section(found)
    data = {**found, "markdown": section}
    if target is None:
        return CommandResult(data, [section] if section else [])
    change = (lambda text: text) if found.get("disabled") else partial(apply_section, new=section)
    if target == "-":
        text = change(_decode(read_input(_LARGEST, "Pass the text of one comment."), "Standard input"))
        return CommandResult({**data, "text": text}, [] if options.json else _print_unchanged(text))
    path = Path(os.path.abspath(target))
    is_changed = _rewrite(path, change)
    off = f"The memory is switched off (memory.enabled); {path} was not changed."
    report = off if found.get("disabled") else _report(path, is_changed=is_changed, has_section=bool(section))
    return CommandResult({**data, "path": str(path), "changed": is_changed}, [report])


def _print_unchanged(text: str) -> list[str]:
    """Print a text byte for byte; for a terminal, return it as a part of the answer, which escapes it.

    Raises: Unavailable
    """
    if sys.stdout.isatty():
        return [text.removesuffix("\n")]
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unavailable(f"Standard output cannot be written: {error.strerror}.") from error
    return []


def _report(path: Path, *, is_changed: bool, has_section: bool) -> str:
    if not has_section:
        removed = f"The section was removed from {path}." if is_changed else f"{path} was not changed."
        return f"Nothing related was found. {removed}"
    return f"The section was written into {path}." if is_changed else f"The section in {path} is up to date."


def _rewrite(path: Path, change: Callable[[str], str]) -> bool:
    """Change the text of a file atomically; return whether the text differs.

    Raises: Denied; Invalid.
    """
    target = path.resolve()
    try:
        old = _decode(read_input_file(target), str(path)) if target.exists() else ""
        new = change(old)
        if new == old:
            return False
        write_atomic(target, new.encode(), mode=0o666, keeps_mode=True)
    except OSError as error:
        raise from_os_error(f"{path} cannot be written", error) from error
    return True


def _decode(data: bytes, where: str) -> str:
    if len(data) > _LARGEST:
        raise Invalid(f"{where} has more than {_LARGEST >> 20} MiB.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
