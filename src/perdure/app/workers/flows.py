"""Finds the flow of a goal, or one that a caller names, and says what is wrong with its module when it cannot."""

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
    """Return the flow of a goal: one that is loaded, else from its own module, else from modules in `imports`.

    Those modules are named by the user, who has moved the code. A flow with a name of its own is found by that;
    another one must be the only function of its name there.

    Raises: NotFound, naming the script when that has to be run again; Invalid when a module fails.
    """
    spec = begun.mind
    if spec.at is None:
        raise Invalid("A goal of kind flow needs the path of its flow, found none.")
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

    Raises: Invalid when it is not such a path, not a flow, or its module fails; NotFound when there is no such flow.
    """
    if ":" not in path:
        return _by_name(path, imports)
    try:
        return _imported(path, lambda: find_flow(path))
    except NotFound:
        found = object_at(path)
        if found is None or path.startswith(MAIN):
            raise
    raise Invalid(f"{path} is not a flow, but a {type(found).__name__}: expected an async function under @flow.")


def import_modules(names: Sequence[str]) -> None:
    """Import modules that the user has named because they define flows.

    Raises: NotFound when there is no such module; Invalid when it fails.
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
            f"There is no flow {name!r} here. Name it as module:function, or name the module that defines it by"
            f" --import MODULE or the setting `imports` ({_listed(imports)})."
        )
    return found


def _moved_flow(at: str, name: str | None, imports: Sequence[str]) -> Flow[..., Any] | None:
    """Return the flow of a goal whose own module does not have it: by its name, from the modules in `imports`."""
    import_modules(imports)
    called = name or at.partition(":")[2]
    found = loaded_flow(at, name) or named_flow(called)
    if found is None and not is_own_name(at, name) and not at.startswith(MAIN):
        found = _moved(called, imports)
    if found is not None:
        log.info("goals of %s, which is not here, run the flow %s", at, found.path)
    return found


def _moved(name: str, imports: Sequence[str]) -> Flow[..., Any] | None:
    """Return the flow that one of some modules has under the name of a function.

    Raises: Invalid when several have one
    """
    found = {id(flow): flow for module in imports if (flow := flow_at(f"{module}:{name}")) is not None}
    if len(found) > 1:
        places = ", ".join(flow.path for flow in found.values())
        raise Invalid(f"Several modules in `imports` have a flow {name}: {places}. Give them names: @flow(name=…).")
    return next(iter(found.values()), None)


def _where_to_look(name: str, imports: Sequence[str]) -> str:
    return (
        f"Looked for {name} in the loaded flows and in `imports` ({_listed(imports)}). If the code was moved, name its"
        " module by --import MODULE or the setting `imports`."
    )


def _listed(imports: Sequence[str]) -> str:
    return ", ".join(imports) or "which is empty"


def _imported(path: str, load: Callable[[], T]) -> T:
    """Call something that imports the module of a flow.

    Raises: NotFound when there is no such module or flow; Invalid, with the line, when the module fails.
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
    return NotFound(f"There is no module {error.name} on the Python path, {needs}.")


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
