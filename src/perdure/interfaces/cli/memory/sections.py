"""Related history as a section of Markdown: printed, or put into a file."""

import os
import secrets
import sys
from pathlib import Path

from perdure.errors import Invalid, Unavailable, from_os_error
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.memory.inputs import read_input
from perdure.memory.markdown import apply_section, section
from perdure.memory.record import Plain

_LARGEST = 8 << 20


def with_section(options: Options, found: Plain, target: str | None) -> Answer:
    """Answer with the section; with a target, put it there: a file, or from standard input to standard output."""
    written = section(found["matches"], truncated=found["truncated"])
    data = {**found, "markdown": written}
    if target is None:
        return Answer(data, [written])
    if target == "-":
        text = apply_section(_text(read_input(_LARGEST, "Give the text of one comment."), "Standard input"), written)
        return Answer({**data, "text": text}, [] if options.json else _printed(text))
    path = Path(os.path.abspath(target))
    is_changed = _put(path, written)
    return Answer({**data, "path": str(path), "changed": is_changed}, [_said(path, is_changed=is_changed)])


def _printed(text: str) -> list[str]:
    """Print somebody's text byte for byte for the next program; only on a terminal it is left to be made fit for one.

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


def _said(path: Path, *, is_changed: bool) -> str:
    return f"{path} has the section now." if is_changed else f"{path} has that section already."


def _put(path: Path, written: str) -> bool:
    """Put a section into a file, whole or not at all; return whether that changed it.

    Raises: Denied; Invalid.
    """
    target = path.resolve()
    try:
        old = _text(target.read_bytes(), str(path)) if target.exists() else ""
        new = apply_section(old, written)
        if new == old:
            return False
        part = target.with_name(f".{target.name}.part-{secrets.token_hex(4)}")
        try:
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666
            fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(fd, "wb") as file:
                file.write(new.encode())
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                part.chmod(mode)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
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
