"""What went wrong in somebody's own code: in words, with the line where it did; the whole traceback goes to the log."""

import asyncio
import logging
import os
import signal
import sysconfig
import threading
import traceback
from pathlib import Path

from perdure.minds.values import text_of

_OURS = str(Path(__file__).parent.parent) + os.sep
_LIBRARIES = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})

log = logging.getLogger(__name__)


def described(fn: object) -> str:
    """Name a function and the line where it stands."""
    name = getattr(fn, "__qualname__", None) or repr(fn)
    code = getattr(fn, "__code__", None)
    return f"{name} ({shown(code.co_filename)}, line {code.co_firstlineno})" if code is not None else name


def is_interrupt(error: BaseException) -> bool:
    """Tell whether somebody may have pressed Ctrl-C. Where that is heard otherwise, as in a server, code has raised it.

    It is raised by Python's own handler, and by the one of `asyncio.run` when Ctrl-C is pressed twice; both run on the
    main thread only.
    """
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    of_runner = getattr(getattr(handler, "func", None), "__self__", None)
    return handler is signal.default_int_handler or isinstance(of_runner, asyncio.Runner)


def told(error: BaseException, where: str) -> str:
    """Return what an exception says and which line of the user raised it; the log has the whole of it.

    What is returned is what gets recorded, so a replay says the same without looking again.
    """
    whole = "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()
    log.info("%s failed\n%s", where, whole)  # as text, because a log cannot keep what is no Unicode
    return _with_place(text_of(error), error)


def _with_place(text: str, error: BaseException) -> str:
    """Add to a text the innermost line of the user's own code that an exception went through."""
    place = _place(error)
    return f"{text} ({place})".lstrip() if place else text


def _place(error: BaseException) -> str:
    """Name the innermost line that is neither ours nor a library's; of a library's, when there is nothing else."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    foreign = [(file, line) for file, line in lines if not file.startswith((_OURS, "<frozen"))]
    own = [(file, line) for file, line in foreign if not file.startswith(_LIBRARIES)]
    if not foreign:
        return ""
    file, line = (own or foreign)[-1]
    return f"{shown(file)}, line {line}"


def shown(file: str) -> str:
    """Write the path of a file as short as it can be found by from here: below the current folder, or whole."""
    try:
        found = str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        found = file
    return found.encode(errors="backslashreplace").decode()
