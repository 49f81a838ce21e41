"""Formats tracebacks of exceptions of users: their frames with source lines, no local variables, of bounded size.

Exceptions may have classes of users, which are not trusted: attributes are read through the descriptors of
`BaseException` and `type`, which a class cannot override. Only `str(error)` in `text_of` runs code of the user.
"""

import linecache
import os
import stat
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any

from perdure.errors import StepFailed
from perdure.kernel.events import ToolError
from perdure.text.storable import escape_surrogates

LONGEST_BYTES = 16 * 1024
OURS = "perdure."
"""How the names of our modules begin."""
_HEAD_BYTES = 4 * 1024
_CUT = "\n  [… left out …]\n"
_LONGEST_TEXT = 10_000
_LONGEST_MESSAGE = 2000
_LONGEST_NAME = 200
_LONGEST_LINE = 200
_LONGEST_CHAIN = 10
_LONGEST_CHAIN_IN_GROUP = 2
_DEEPEST_GROUP = 2
_MOST_MEMBERS = 5
_MOST_NOTES = 5
_FIRST_FRAMES, _LAST_FRAMES = 10, 20
_FOREIGN_FRAMES = 5
_LARGEST_SOURCE = 5 << 20

_OUR_FILES = str(Path(__file__).parents[2]) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_LIBRARY_FOLDERS = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))

_RECORDED = "__perdure_recorded_error__"
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_IN_FLOW = "\nThe step failed with the exception above; in the flow:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


@dataclass(frozen=True)
class Frame:
    """A line of code that an exception went through."""

    file: str
    line: int
    name: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a line of Perdure, or of Python's own import system."""
        return self.file.startswith((_OUR_FILES, "<frozen"))

    @property
    def is_of_library(self) -> bool:
        """Whether it is a line of the standard library or of an installed package."""
        return self.file.startswith(_LIBRARIES) or any(folder in self.file for folder in _LIBRARY_FOLDERS)


def text_of(error: BaseException) -> str:
    """Return the message of an exception as storable text, whatever its class does."""
    try:
        said = str.__str__(str(error))  # a copy: a subclass of str may override every method
    except BaseException as other:  # noqa: BLE001 (its class is not ours)
        said = f"[its text cannot be read: {class_name(other)}]"
    return escape_surrogates(said[:_LONGEST_TEXT])


def class_name(error: BaseException) -> str:
    """Return the name of an exception's class."""
    name = str.__str__(type.__dict__["__name__"].__get__(type(error)))
    return escape_surrogates(name[:_LONGEST_NAME])


def class_path(cls: type[BaseException]) -> str:
    """Return the path of the class of an exception, `module:QualName`."""
    module = type.__dict__["__dict__"].__get__(cls).get("__module__")
    if type(module) is not str:
        module = "builtins" if _is_builtin(cls) else "?"
    name = str.__str__(type.__dict__["__qualname__"].__get__(cls))
    return escape_surrogates(f"{module[:_LONGEST_NAME]}:{name[:_LONGEST_NAME]}")


def _is_builtin(cls: type) -> bool:
    flags: int = type.__dict__["__flags__"].__get__(cls)
    return not flags & (1 << 9)  # Py_TPFLAGS_HEAPTYPE


def arguments_of(error: BaseException) -> tuple[Any, ...]:
    """Return the arguments of an exception."""
    found: tuple[Any, ...] = attribute_of(error, "args")
    return found


def file_arguments_of(error: BaseException) -> list[Any] | None:
    """Return the constructor arguments of a builtin OSError, with the names of its files; None for any other."""
    if not (issubclass(type(error), OSError) and _is_builtin(type(error))):
        return None
    made_of: tuple[Any, ...] = OSError.__dict__["__reduce__"](error)[1]
    return [*made_of]


def attribute_of(error: BaseException, name: str) -> Any:
    """Return an attribute as set by Python itself, bypassing the class of the exception."""
    return BaseException.__dict__[name].__get__(error)


def members_of(error: BaseException) -> tuple[BaseException, ...]:
    """Return the members of an exception group; none for any other exception."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    found: tuple[BaseException, ...] = BaseExceptionGroup.__dict__["exceptions"].__get__(error)
    return found


def recorded_error(error: BaseException) -> ToolError | None:
    """Return the recorded error of the failed step that an exception was made for; None for others."""
    kept = attribute_of(error, "__dict__")
    recorded = dict.get(kept, "error" if issubclass(type(error), StepFailed) else _RECORDED)
    return recorded if type(recorded) is ToolError else None


def mark_recorded(error: BaseException, recorded: ToolError) -> None:
    """Tag an exception with the recorded error that it was made from."""
    dict.__setitem__(attribute_of(error, "__dict__"), _RECORDED, recorded)


def frames_of(error: BaseException) -> list[Frame]:
    """Return all frames of an exception, the innermost last."""
    tb: TracebackType | None = attribute_of(error, "__traceback__")
    return [Frame(f.f_code.co_filename, line or 0, f.f_code.co_qualname) for f, line in traceback.walk_tb(tb)]


def user_frames(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames of the user; if there are none, the innermost of a library, else of Perdure."""
    foreign = [frame for frame in frames if not frame.is_ours]
    own = [frame for frame in foreign if not frame.is_of_library]
    return own or foreign[-_FOREIGN_FRAMES:] or list(frames[-_FOREIGN_FRAMES:])


def shown(file: str) -> str:
    """Return a path relative to the current folder if the file is below it, else the whole path."""
    try:
        found = str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        found = file
    return escape_surrogates(found)


def traceback_of(error: BaseException, *, is_whole: bool = False, longest: int = LONGEST_BYTES) -> str:
    """Return the traceback of an exception and its causes, at most `longest` bytes of UTF-8.

    Frames of Perdure and of libraries are omitted, unless `is_whole`.
    """
    return shortened("".join(_chained(error, is_whole=is_whole, depth=0)), longest)


def shortened(text: str, longest: int = LONGEST_BYTES) -> str:
    """Shorten a text in its middle: the beginning has the first cause, the end the last exception."""
    whole = escape_surrogates(text).encode()
    if len(whole) <= longest:
        return whole.decode()
    tail = longest - _HEAD_BYTES - len(_CUT.encode())
    return whole[:_HEAD_BYTES].decode(errors="ignore") + _CUT + whole[-tail:].decode(errors="ignore")


def _chained(error: BaseException, *, is_whole: bool, depth: int) -> Iterator[str]:
    """Yield the traceback of an exception after those of its causes, as Python does."""
    chain: list[tuple[str, BaseException]] = []
    link, current = "", error
    seen = set[int]()
    longest = _LONGEST_CHAIN_IN_GROUP if depth else _LONGEST_CHAIN
    while current is not None and id(current) not in seen and len(chain) < longest:
        seen.add(id(current))
        chain.append((link, current))
        link, current = _origin(current)
    if current is not None and id(current) not in seen:
        yield f"[… earlier exceptions are left out …]\n{link}"
    for link, each in reversed(chain if is_whole else _of_user(chain)):
        yield from _one(each, is_whole=is_whole, depth=depth)
        yield link


def _of_user(chain: Sequence[tuple[str, BaseException]]) -> list[tuple[str, BaseException]]:
    """Omit the causes of an error of Perdure that lie inside Perdure and libraries: its message is enough."""
    classes = [class_path(type(error)) for _, error in chain]
    first = next((place for place, name in enumerate(classes) if name.startswith(OURS)), len(chain))
    return [each for place, each in enumerate(chain) if place <= first or _went_through_user(each[1])]


def _went_through_user(error: BaseException) -> bool:
    recorded = recorded_error(error)
    is_recorded = recorded is not None and bool(recorded.traceback)
    return is_recorded or any(not (frame.is_ours or frame.is_of_library) for frame in frames_of(error))


def _origin(error: BaseException) -> tuple[str, Any]:
    """Return the cause or context of an exception, after the text that separates the two tracebacks."""
    cause = attribute_of(error, "__cause__")
    recorded = recorded_error(error)
    if recorded is not None and type(cause) is StepFailed and recorded_error(cause) is recorded:
        return "", None  # the same failure: its traceback is part of the exception
    if cause is not None:
        return _CAUSE, cause
    return _CONTEXT, None if attribute_of(error, "__suppress_context__") else attribute_of(error, "__context__")


def _one(error: BaseException, *, is_whole: bool, depth: int) -> Iterator[str]:
    """Yield the lines of one exception: its frames, message and notes, and the members of a group."""
    recorded = recorded_error(error)
    if recorded is not None and recorded.traceback:
        yield f"{recorded.traceback.rstrip()}\n{_IN_FLOW}"
    found = frames_of(error)
    frames = found if is_whole else user_frames(found)
    if frames and not is_whole and frames[-1].is_ours and class_path(type(error)).startswith(OURS):
        frames = []  # Perdure raised it, outside of the code of the user
    if frames:
        yield "Traceback (most recent call last):\n"
    yield from _frame_lines(frames)
    yield _what(error)
    if members_of(error):
        yield from _members(error, is_whole=is_whole, depth=depth)


def _frame_lines(frames: Sequence[Frame]) -> Iterator[str]:
    """Yield the lines of frames. Repeated frames are merged; of many, only the first and the last are kept."""
    runs = [(frame, sum(1 for _ in same)) for frame, same in groupby(frames)]
    left_out = len(runs) - _FIRST_FRAMES - _LAST_FRAMES
    for number, (frame, count) in enumerate(runs):
        if left_out > 0 and _FIRST_FRAMES <= number < _FIRST_FRAMES + left_out:
            if number == _FIRST_FRAMES:
                yield f"  [… {left_out} more lines …]\n"
            continue
        yield f'  File "{shown(frame.file)}", line {frame.line}, in {escape_surrogates(frame.name[:_LONGEST_NAME])}\n'
        source = _source(frame)
        if source:
            yield f"    {source}\n"
        if count > 1:
            yield f"  [Previous line repeated {count - 1} more times]\n"


def _what(error: BaseException) -> str:
    said = text_of(error)
    if len(said) > _LONGEST_MESSAGE:
        said = f"{said[:_LONGEST_MESSAGE]} [… left out …]"
    path = class_path(type(error))
    name = path.removeprefix("builtins:").replace(":", ".", 1)
    notes = "".join(f"{note}\n" for note in _notes(error))
    return f"{name}: {said}\n{notes}" if said else f"{name}\n{notes}"


def _notes(error: BaseException) -> list[str]:
    kept = dict.get(attribute_of(error, "__dict__"), "__notes__")
    if type(kept) is not list:
        return []
    return [escape_surrogates(note[:_LONGEST_MESSAGE]) for note in kept[:_MOST_NOTES] if type(note) is str]


def _members(group: BaseException, *, is_whole: bool, depth: int) -> Iterator[str]:
    """Yield the exceptions of a group, indented."""
    members = members_of(group)
    for number, each in enumerate(members[:_MOST_MEMBERS], 1):
        yield f"  ---------------- {number} of {len(members)} ----------------\n"
        if depth >= _DEEPEST_GROUP:
            yield f"  {_what(each)}"
            continue
        written = "".join(_chained(each, is_whole=is_whole, depth=depth + 1))
        yield "".join(f"  {line}" for line in written.splitlines(keepends=True))
    if len(members) > _MOST_MEMBERS:
        yield f"  [… {len(members) - _MOST_MEMBERS} more exceptions …]\n"


def _source(frame: Frame) -> str:
    """Return a line of a source file; empty if the file is missing, not a regular file, or too large."""
    try:
        if frame.file not in linecache.cache:
            found = os.stat(frame.file)
            if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_SOURCE:
                return ""
        linecache.checkcache(frame.file)
        line = linecache.getline(frame.file, frame.line).strip()
    except Exception:  # noqa: BLE001 (the loader of a module may raise anything)
        return ""
    return escape_surrogates("".join(each if each.isprintable() else " " for each in line[:_LONGEST_LINE]))
