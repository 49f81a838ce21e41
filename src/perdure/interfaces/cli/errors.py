"""The error boundary of the command line: prints every error as text or one JSON object, with an exit code."""

import asyncio
import contextlib
import logging
import os
import sys
import time
import traceback
import uuid
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path

import typer

from perdure.errors import InternalError, Invalid, NotFound, PerdureError, from_os_error, has_no_descriptors
from perdure.interfaces.cli.command_result import to_json
from perdure.interfaces.cli.commands import build
from perdure.interfaces.cli.output.terminal import command_below, lines, wrapped_for
from perdure.interfaces.cli.signals import interrupted_code
from perdure.interfaces.cli.suspend import stop_between_writes
from perdure.text.moments import iso

log = logging.getLogger(__name__)
_FLAGS = ("--json", "--verbose", "-v", "--debug", "--no-input")
_WITH_VALUE = ("--home", "--url")
logging.getLogger("perdure").addHandler(logging.NullHandler())  # until the command sets up its own handlers


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    _open_streams()
    flags = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    as_json, is_debugging, begun_s = "--json" in flags, "--debug" in flags, time.perf_counter()
    try:
        with stop_between_writes():
            return _invoke(*_split_command(_list_conversations(_common_last(arguments))))
    except PerdureError as error:
        if is_debugging:
            traceback.print_exc()
        return _report(error, begun_s, as_json=as_json)
    except (KeyboardInterrupt, asyncio.CancelledError, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        return leave_quietly()
    except Exception as error:
        log.exception("internal error")
        if is_debugging:
            traceback.print_exc()
        return _report(_as_perdure_error(error), begun_s, as_json=as_json)


def _as_perdure_error(error: Exception) -> PerdureError:
    """Return the error that is reported for an unexpected exception."""
    if isinstance(error, OSError) and has_no_descriptors(error):
        return from_os_error("The command cannot continue", error)
    if isinstance(error, FileNotFoundError) and _is_folder_gone():
        return NotFound("The current folder has been removed. Change to another one, and try again.")
    return InternalError(f"Something went wrong inside Perdure ({type(error).__name__}). --debug shows where.")


def _is_folder_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _common_last(arguments: Sequence[str]) -> list[str]:
    """Move common options from the front to the end, so that `perdure --json db status` works."""
    rest, moved = list(arguments), list[str]()
    while rest and rest[0].partition("=")[0] in (*_FLAGS, *_WITH_VALUE):
        takes_value = rest[0] in _WITH_VALUE and len(rest) > 1
        moved += [rest.pop(0), *([rest.pop(0)] if takes_value else [])]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *moved, *rest[end:]] if rest else moved


def _split_command(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """Split the words of `perdure run` at the first `--`: what follows is a command, and none of it an option."""
    if "--" not in arguments or _first_word(arguments) != "run":
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _list_conversations(arguments: list[str]) -> list[str]:
    """Replace `--resume` of `perdure chat` by `--list` if no id follows: Typer has no options with optional values."""
    place = arguments.index("--resume") if "--resume" in arguments and _first_word(arguments) == "chat" else -1
    if place < 0 or not (place + 1 == len(arguments) or arguments[place + 1].startswith("--")):
        return arguments
    return [*arguments[:place], "--list", *arguments[place + 1 :]]


def leave_quietly() -> int:
    """Exit silently: the reader of the output has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _open_streams() -> None:
    """Replace closed output streams, and escape characters that a stream cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (open until the process ends)
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _invoke(arguments: list[str], argv: list[str] | None) -> int:
    """Call a command; `argv` is what it is to run, if that was given behind `--`."""
    try:
        code = build(_first_word(arguments))(args=arguments, prog_name="perdure", standalone_mode=False, obj=argv)
        sys.stdout.flush()
    except typer.TyperException as error:
        if not error.format_message():
            return Invalid.exit_code  # the help was printed
        raise Invalid(_one_sentence(error)) from error
    return int(code or 0)


def _first_word(arguments: Sequence[str]) -> str | None:
    words = _typed_words() if "_PERDURE_COMPLETE" in os.environ else arguments
    return next((word for word in words if not word.startswith("-")), None)


def _typed_words() -> list[str]:
    """Return the words after the program's name on a command line that the shell completes."""
    return (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()[1:]


def _interrupted() -> int:
    code = interrupted_code()
    if code:
        print("Interrupted.", file=sys.stderr)
    return code


def _one_sentence(error: typer.TyperException) -> str:
    message = error.format_message().rstrip(".?! ")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "perdure"
    return f"{message}. Try `{path} --help`."


def _error_lines(error: PerdureError) -> Iterator[str]:
    """Yield the lines of an error for a person; on a terminal, a command at its end gets its own line."""
    detail = lines(error.detail)
    said = command_below(detail) if sys.stderr.isatty() else detail
    yield wrapped_for(f"perdure: {said}", sys.stderr)
    for each in error.errors:
        if each not in error.detail:
            yield wrapped_for(f"  {lines(each)}", sys.stderr)


def _report(error: PerdureError, begun_s: float, *, as_json: bool) -> int:
    request_id = str(uuid.uuid4())
    log.warning("exit %d, request %s, %s: %s", error.exit_code, request_id, error.code, error.detail)
    if as_json:
        elapsed_ms = round((time.perf_counter() - begun_s) * 1000, 3)
        now = iso(time.time_ns() // 1000)
        problem = error.problem() | {
            "instance": f"urn:uuid:{request_id}",
            "meta": {"request_id": request_id, "timestamp": now, "response_time_ms": elapsed_ms},
        }
        with contextlib.suppress(OSError):  # a full disk or a closed pipe: the exit code still reports the error
            print(to_json(problem), flush=True)
    else:
        with contextlib.suppress(OSError):  # a terminal that has gone
            for line in _error_lines(error):
                print(line, file=sys.stderr)
    return error.exit_code
