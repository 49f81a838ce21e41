"""Related history as a section of Markdown: printed, or put into a file."""

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from perdure.errors import Invalid, Unavailable, from_os_error
from perdure.files.atomic import write_atomic
from perdure.files.opening import read_input_file
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.memory.inputs import read_input
from perdure.memory.query.hosting import hosting_here
from perdure.memory.query.markdown import apply_section, section

_LARGEST = 8 << 20


def with_section(options: Options, found: Mapping[str, Any], target: str | None) -> Answer:
    """Answer with the section; with a target, put it there: a file, or from standard input to standard output.

    When nothing matches there is no section, and an older one is removed. A memory that is off changes nothing.
    """
    hosting = hosting_here() if found["matches"] else None
    written = section(found["matches"], truncated=found["truncated"], more=found.get("more"), hosting=hosting)
    data = {**found, "markdown": written}
    if target is None:
        return Answer(data, [written] if written else [])
    change = (lambda text: text) if found.get("disabled") else partial(apply_section, new=written)
    if target == "-":
        text = change(_text(read_input(_LARGEST, "Give the text of one comment."), "Standard input"))
        return Answer({**data, "text": text}, [] if options.json else _printed(text))
    path = Path(os.path.abspath(target))
    is_changed = _put(path, change)
    off = f"The memory is switched off (memory.enabled); {path} was not changed."
    said = off if found.get("disabled") else _said(path, is_changed=is_changed, has_section=bool(written))
    return Answer({**data, "path": str(path), "changed": is_changed}, [said])


def _printed(text: str) -> list[str]:
    """Print a text byte for byte for the next program; only on a terminal control characters are escaped.

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


def _said(path: Path, *, is_changed: bool, has_section: bool) -> str:
    if not has_section:
        removed = f"The section was removed from {path}." if is_changed else f"{path} was not changed."
        return f"Nothing related was found. {removed}"
    return f"{path} has the section now." if is_changed else f"{path} has that section already."


def _put(path: Path, change: Callable[[str], str]) -> bool:
    """Change the text of a file, wholly or not at all; return whether that changed it.

    Raises: Denied; Invalid.
    """
    target = path.resolve()
    try:
        old = _text(read_input_file(target), str(path)) if target.exists() else ""
        new = change(old)
        if new == old:
            return False
        write_atomic(target, new.encode(), mode=0o666, keeps_mode=True)
    except OSError as error:
        raise from_os_error(f"{path} cannot be written", error) from error
    return True


def _text(data: bytes, where: str) -> str:
    if len(data) > _LARGEST:
        raise Invalid(f"{where} has more than {_LARGEST >> 20} MiB.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{where} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
