"""Finds the flow that somebody names as `module:function`, and says what is wrong with its module when it cannot."""

import sys
import traceback
from typing import Any

from perdure.errors import Invalid, NotFound, PerdureError
from perdure.kernel.events import GoalBegun
from perdure.minds.flows.flow import Flow, find_flow
from perdure.minds.flows.scripts import is_of_script, run_again


def require_flow(begun: GoalBegun) -> None:
    """See that the code of a goal is here, if it is a flow, before anything is done that only makes sense with it.

    Raises: what `load_flow` raises; NotFound, naming the script, when that has to be run again.
    """
    spec = begun.mind
    if spec.kind != "flow" or spec.at is None:
        return
    try:
        load_flow(spec.at)
    except NotFound:
        if not is_of_script(spec):
            raise
        raise NotFound(f"Only the script that defines {spec.flow} has its code: {run_again(begun)}") from None


def load_flow(path: str) -> Flow[..., Any]:
    """Return the flow `module:function`: one that this process knows, or what the module has under that name.

    Raises: Invalid when it is no such path, no flow, or its module fails; NotFound when there is no such thing.
    """
    module_name, _, name = path.partition(":")
    try:
        return find_flow(path)
    except NotFound as error:
        if isinstance(error.__cause__, ImportError):
            raise _not_imported(module_name, path, error.__cause__) from error.__cause__
        return _other_name(module_name, name, error)
    except PerdureError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(module_name, error) from error


def _other_name(module_name: str, name: str, missing: NotFound) -> Flow[..., Any]:
    """Return a flow that the module has from elsewhere.

    Raises: Invalid when it has something else there; NotFound when it has nothing.
    """
    found: object = sys.modules.get(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Flow):
        return found
    if found is None or module_name == "__main__":
        raise missing
    raise Invalid(
        f"{module_name}:{name} is not a flow, but a {type(found).__name__}: expected an async function under @flow."
    )


def _not_imported(module_name: str, path: str, error: ImportError) -> PerdureError:
    is_itself = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
    if not is_itself:
        return _failed(module_name, error)
    return NotFound(f"There is no module {error.name} on the Python path, which the flow {path} needs.")


def _failed(module_name: str, error: BaseException) -> Invalid:
    """Say which line of the module failed, and why."""
    if isinstance(error, SyntaxError):
        return Invalid(f"The module {module_name} cannot be read: {error.msg} ({error.filename}, line {error.lineno}).")
    what = "it ended the program" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return Invalid(f"The module {module_name} cannot be imported: {what}{_place(module_name, error)}.")


def _place(module_name: str, error: BaseException) -> str:
    """Name the last line of the module itself, else of whatever was run."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [pair for pair in frames if pair[0].f_globals.get("__name__") == module_name]
    others = [pair for pair in frames if not pair[0].f_code.co_filename.startswith("<frozen")][1:]
    if not own and not others:
        return ""
    frame, line = (own or others)[-1]
    return f" ({frame.f_code.co_filename}, line {line})"
