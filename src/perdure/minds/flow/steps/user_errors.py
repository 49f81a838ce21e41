"""The recorded form of exceptions of users: code, message with the line, class, arguments and traceback."""

import asyncio
import contextlib
import copy
import logging
import math
import signal
import threading
from typing import Any

import orjson

from perdure.errors import PerdureError
from perdure.kernel.events import ToolError
from perdure.minds.flow.steps.tracebacks import (
    OURS,
    arguments_of,
    attribute_of,
    class_name,
    class_path,
    file_arguments_of,
    frames_of,
    shown,
    text_of,
    traceback_of,
    user_frames,
)
from perdure.text.storable import escape_surrogates

_LONGEST_LOG_BYTES = 64 * 1024
_LONGEST_ARGS_BYTES = 4 * 1024
_LONGEST_ATTRIBUTES_BYTES = 16 * 1024
_DEEPEST_ARGS = 20

log = logging.getLogger(__name__)


def described(fn: object) -> str:
    """Return the name of a function with its file and line."""
    name = getattr(fn, "__qualname__", None) or repr(fn)
    code = getattr(fn, "__code__", None)
    return f"{name} ({shown(code.co_filename)}, line {code.co_firstlineno})" if code is not None else name


def is_interrupt(error: BaseException) -> bool:
    """Return whether an exception may come from Ctrl-C, and not from user code.

    The handler of Python raises KeyboardInterrupt, and that of `asyncio.run` when Ctrl-C is pressed twice; both only on
    the main thread. A server has another handler, so there it comes from user code.
    """
    if not issubclass(type(error), KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    of_runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(of_runner, asyncio.Runner)


def failure_of(error: BaseException, where: str) -> ToolError:
    """Return the recorded form of an exception of user code; log the whole traceback.

    A replay uses the recorded form, so it does not inspect the exception again. Never raises, whatever the class of the
    exception does.
    """
    log.info("%s failed\n%s", where, traceback_of(error, is_whole=True, longest=_LONGEST_LOG_BYTES))
    return ToolError(
        code_of(error),
        _with_place(text_of(error), error),
        type=class_path(type(error)),
        args=_plain_arguments(error),
        traceback=traceback_of(error),
        attributes=_plain_attributes(error),
    )


def code_of(error: BaseException) -> str:
    """Return the code of an error of Perdure, else the name of the class of the exception."""
    code: object = None
    if issubclass(type(error), PerdureError):
        with contextlib.suppress(BaseException):  # a subclass of a user may define it as a property
            code = getattr(error, "code", None)
    return escape_surrogates(code) if type(code) is str else class_name(error)


def _plain_arguments(error: BaseException) -> list[Any] | None:
    """Return the arguments of an exception, if they are small plain JSON."""
    for args in (file_arguments_of(error), [*arguments_of(error)]):
        if args is not None and all(_is_plain(each) for each in args):
            size = _size_of(args)
            return args if size is not None and size <= _LONGEST_ARGS_BYTES else None
    return None


def _plain_attributes(error: BaseException) -> dict[str, Any] | None:
    """Return the attributes of an exception that are plain JSON, in order, up to the size limit.

    None for an error of Perdure, whose constructor sets its attributes.
    """
    if class_path(type(error)).startswith(OURS):
        return None
    found: dict[str, Any] = {}
    left = _LONGEST_ATTRIBUTES_BYTES
    for name, value in list(dict.items(attribute_of(error, "__dict__"))):
        size = _size_of({name: value}) if type(name) is str and _is_plain(value) else None
        if size is not None and size <= left:
            found[name] = value
            left -= size
    return copy.deepcopy(found) or None


def _size_of(plain: Any) -> int | None:
    """Return the size of a value as JSON in bytes; None if it is not JSON."""
    try:
        return len(orjson.dumps(plain))
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, an integer that is too large
        return None


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is unchanged by a round trip through JSON."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return depth < _DEEPEST_ARGS and all(_is_plain(each, depth + 1) for each in value)
    if type(value) is dict:
        is_shallow = depth < _DEEPEST_ARGS and all(type(name) is str for name in value)
        return is_shallow and all(_is_plain(each, depth + 1) for each in value.values())
    return value is None or type(value) in (str, int, bool)


def _with_place(text: str, error: BaseException) -> str:
    """Append to a message the innermost line of user code in the traceback."""
    place = _place(error)
    return f"{text} ({place})".lstrip() if place else text


def _place(error: BaseException) -> str:
    """Return file and line of the innermost frame of the user, else of a library."""
    frames = user_frames(frames_of(error))
    if not frames or frames[-1].is_ours:
        return ""
    return f"{shown(frames[-1].file)}, line {frames[-1].line}"
