"""Failures of the user's code as they are recorded: code, message with the line, class, arguments and traceback."""

import asyncio
import contextlib
import logging
import math
import signal
import threading
from typing import Any

import orjson

from perdure.errors import PerdureError
from perdure.kernel.events import ToolError
from perdure.minds.flow.steps.tracebacks import (
    arguments_of,
    class_name,
    class_path,
    escaped,
    frames_of,
    shown,
    text_of,
    traceback_of,
    user_frames,
)

_LONGEST_LOG_BYTES = 64 * 1024
_LONGEST_ARGS_BYTES = 4 * 1024
_DEEPEST_ARGS = 20

log = logging.getLogger(__name__)


def described(fn: object) -> str:
    """Name a function and the line where it stands."""
    name = getattr(fn, "__qualname__", None) or repr(fn)
    code = getattr(fn, "__code__", None)
    return f"{name} ({shown(code.co_filename)}, line {code.co_firstlineno})" if code is not None else name


def is_interrupt(error: BaseException) -> bool:
    """Return whether Ctrl-C may have been pressed. In a server, which handles it otherwise, user code has raised it.

    It is raised by Python's own handler, and by the one of `asyncio.run` when Ctrl-C is pressed twice; both run on the
    main thread only.
    """
    if not issubclass(type(error), KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    of_runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(of_runner, asyncio.Runner)


def failure_of(error: BaseException, where: str) -> ToolError:
    """Return what is recorded of an exception of the user's code; the log has the whole traceback.

    What is returned is what gets recorded, so a replay says the same without looking again. It never raises, whatever
    the class of the exception does.
    """
    log.info("%s failed\n%s", where, traceback_of(error, is_whole=True, longest=_LONGEST_LOG_BYTES))
    return ToolError(
        code_of(error),
        _with_place(text_of(error), error),
        type=class_path(type(error)),
        args=_plain_arguments(error),
        traceback=traceback_of(error),
    )


def code_of(error: BaseException) -> str:
    """Return the code of an error of ours, else the name of the exception's class."""
    code: object = None
    if issubclass(type(error), PerdureError):
        with contextlib.suppress(BaseException):  # a subclass of the user's may make a property of it
            code = getattr(error, "code", None)
    return escaped(code) if type(code) is str else class_name(error)


def _plain_arguments(error: BaseException) -> list[Any] | None:
    """Return the arguments of an exception if they are JSON as they are, and not large."""
    args = [*arguments_of(error)]
    if not all(_is_plain(each) for each in args):
        return None
    try:
        return args if len(orjson.dumps(args)) <= _LONGEST_ARGS_BYTES else None
    except (TypeError, ValueError, RecursionError):  # a lone surrogate, an integer that is too large
        return None


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Tell whether a value comes back from JSON as it was."""
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return depth < _DEEPEST_ARGS and all(_is_plain(each, depth + 1) for each in value)
    if type(value) is dict:
        is_shallow = depth < _DEEPEST_ARGS and all(type(name) is str for name in value)
        return is_shallow and all(_is_plain(each, depth + 1) for each in value.values())
    return value is None or type(value) in (str, int, bool)


def _with_place(text: str, error: BaseException) -> str:
    """Add to a text the innermost line of the user's own code that an exception went through."""
    place = _place(error)
    return f"{text} ({place})".lstrip() if place else text


def _place(error: BaseException) -> str:
    """Name the innermost line that is neither ours nor a library's; of a library's, when there is nothing else."""
    frames = user_frames(frames_of(error))
    if not frames or frames[-1].is_ours:
        return ""
    return f"{shown(frames[-1].file)}, line {frames[-1].line}"
