"""The edge of the command line: every error becomes one sentence, or one JSON object, and an exit code."""

import contextlib
import logging
import os
import sys
import traceback
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from perdure.errors import Invalid, PerdureError
from perdure.interfaces.cli.answer import to_json
from perdure.interfaces.cli.tree import build

INTERRUPTED = 130
log = logging.getLogger(__name__)
logging.getLogger("perdure").addHandler(logging.NullHandler())  # until the command has set up its own


class InternalError(PerdureError):
    """A mistake of ours."""

    code = "internal"
    title = "Internal error"


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    before_separator = arguments[: list(arguments).index("--")] if "--" in arguments else arguments
    as_json = "--json" in before_separator
    try:
        return _invoke(arguments)
    except PerdureError as error:
        return _tell(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        log.exception("internal error")
        if "--debug" in before_separator:
            traceback.print_exc()
        kind = type(error).__name__
        return _tell(
            InternalError(f"Something went wrong inside Perdure ({kind}). --debug shows where."), as_json=as_json
        )


def _invoke(arguments: Sequence[str]) -> int:
    try:
        code = build()(args=list(arguments), prog_name="perdure", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        raise Invalid(_one_sentence(error)) from error
    return int(code or 0)


def _one_sentence(error: typer.TyperException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "perdure"
    return f"{message}. Try `{path} --help`."


def _tell(error: PerdureError, *, as_json: bool) -> int:
    log.warning("%s: %s", error.code, error.detail)
    request_id = str(uuid.uuid4())
    if as_json:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        problem = error.problem() | {
            "instance": f"urn:uuid:{request_id}",
            "meta": {"request_id": request_id, "timestamp": now},
        }
        with contextlib.suppress(BrokenPipeError):
            print(to_json(problem), flush=True)
    else:
        print(f"perdure: {error.detail}", file=sys.stderr)
        for detail in error.errors:
            print(f"  {detail}", file=sys.stderr)
    return error.exit_code
