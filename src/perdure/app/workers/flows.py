"""Finds the flow of a goal or of a name, and reports errors of its module."""

import importlib
import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from perdure.errors import Invalid, NotFound, PerdureError
from perdure.kernel.events import GoalBegun
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.registry import find_flow, flow_at, is_own_name, loaded_flow, named_flow, object_at
from perdure.minds.flow.scripts import MAIN, is_of_script, run_again

T = TypeVar("T")

log = logging.getLogger(__name__)


def flow_of(begun: GoalBegun, imports: Sequence[str] = ()) -> Flow[..., Any]:
    """Return the flow of a goal: a loaded flow, else from its own module, else from modules in `imports`.

    The user sets `imports` after moving the code. A flow with an explicit name is found by that name; another flow must
    be the only function of its name in these modules.

    Raises: NotFound, naming the script if that must be run again; Invalid when a module fails.
    """
    spec = begun.mind
    if spec.at is None:
        raise Invalid("A goal of kind flow must have the path of its flow, got none.")
    try:
        return _imported(spec.at, lambda: find_flow(spec.at or "", spec.flow))
    except (NotFound, Invalid) as missing:
        found = _moved_flow(spec.at, spec.flow, imports)
        if found is not None:
            return found
        if isinstance(missing, Invalid):
            raise
        if is_of_script(spec):
            raise NotFound(f"Only the script that defines {spec.flow} has its code: {run_again(begun)}") from None
        raise NotFound(f"{missing.detail} {_where_to_look(spec.flow or spec.at, imports)}") from missing.__cause__


def load_flow(path: str, imports: Sequence[str] = ()) -> Flow[..., Any]:
    """Return the flow `module:function`, or the flow that a loaded or imported module defines under a name.

    Raises: Invalid when the path or its object is not a flow, or its module fails; NotFound when it does not exist.
    """
    if ":" not in path:
        return _by_name(path, imports)
    try:
        return _imported(path, lambda: find_flow(path))
    except NotFound:
        found = object_at(path)
        if found is None or path.startswith(MAIN):
            raise
    raise Invalid(
        f"{path} is not a flow, but a {type(found).__name__}: expected an async function decorated with @flow."
    )


def import_modules(names: Sequence[str]) -> None:
    """Import modules that define flows.

    Raises: NotFound when a module does not exist; Invalid when it fails.
    """
    for name in names:
        _imported(name, lambda name=name: importlib.import_module(name))  # type: ignore[misc] # mypy: a default


def _by_name(name: str, imports: Sequence[str]) -> Flow[..., Any]:
    found = named_flow(name)
    if found is None:
        import_modules(imports)
        found = named_flow(name) or _moved(name, imports)
    if found is None:
        raise NotFound(
            f"No flow {name!r} is loaded. Name it as module:function, or name the module that defines it by"
            f" --import MODULE or the setting `imports` ({_listed(imports)})."
        )
    return found


def _moved_flow(at: str, name: str | None, imports: Sequence[str]) -> Flow[..., Any] | None:
    """Return the flow of a goal that is missing in its own module, by its name, from the modules in `imports`."""
    import_modules(imports)
    called = name or at.partition(":")[2]
    found = loaded_flow(at, name) or named_flow(called)
    if found is None and not is_own_name(at, name) and not at.startswith(MAIN):
        found = _moved(called, imports)
    if found is not None:
        log.info("%s was not found; its goals run the flow %s", at, found.path)
    return found


def _moved(name: str, imports: Sequence[str]) -> Flow[..., Any] | None:
    """Return the only flow with a function name in some modules.

    Raises: Invalid when several modules have one.
    """
    found = {id(flow): flow for module in imports if (flow := flow_at(f"{module}:{name}")) is not None}
    if len(found) > 1:
        places = ", ".join(flow.path for flow in found.values())
        raise Invalid(f"Several modules in `imports` have a flow {name}: {places}. Name the flows: @flow(name=…).")
    return next(iter(found.values()), None)


def _where_to_look(name: str, imports: Sequence[str]) -> str:
    return (
        f"Looked for {name} in the loaded flows and in `imports` ({_listed(imports)}). If the code was moved, name its"
        " module by --import MODULE or the setting `imports`."
    )


def _listed(imports: Sequence[str]) -> str:
    return ", ".join(imports) or "which is empty"


def _imported(path: str, load: Callable[[], T]) -> T:
    """Call a function that imports the module of a flow.

    Raises: NotFound when the module or flow does not exist; Invalid, with the line, when the module fails.
    """
    module = path.partition(":")[0]
    try:
        return load()
    except NotFound as error:
        if isinstance(error.__cause__, ImportError):
            raise _not_imported(module, path, error.__cause__) from error.__cause__
        raise
    except PerdureError:
        raise
    except ImportError as error:
        raise _not_imported(module, path, error) from error
    except (Exception, SystemExit) as error:
        raise _failed(module, error) from error


def _not_imported(module_name: str, path: str, error: ImportError) -> PerdureError:
    is_itself = isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}.")
    if not is_itself:
        return _failed(module_name, error)
    needs = f"which the flow {path} needs" if ":" in path else "which is to be imported"
    return NotFound(f"No module {error.name} on the Python path, {needs}.")


def _failed(module_name: str, error: BaseException) -> Invalid:
    """Return the error for a module that failed, with the line and the cause."""
    if isinstance(error, SyntaxError):
        return Invalid(f"The module {module_name} cannot be read: {error.msg} ({error.filename}, line {error.lineno}).")
    what = "it ended the program" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return Invalid(f"The module {module_name} cannot be imported: {what}{_place(module_name, error)}.")


def _place(module_name: str, error: BaseException) -> str:
    """Return the position of the last line of the module in a traceback, else of the last line."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [pair for pair in frames if pair[0].f_globals.get("__name__") == module_name]
    others = [pair for pair in frames if not pair[0].f_code.co_filename.startswith("<frozen")][1:]
    if not own and not others:
        return ""
    frame, line = (own or others)[-1]
    return f" ({frame.f_code.co_filename}, line {line})"
