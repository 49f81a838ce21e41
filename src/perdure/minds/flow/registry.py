"""The registry of flows in this process, and the lookup of the flow of a goal.

A flow with its own name, `@flow(name=…)`, is registered only by that name, so its code can be moved to another module.
Other flows are registered as `module:function`, so two modules may each have a `main`. The newest definition wins.
"""

import importlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from perdure.errors import Invalid, NotFound

if TYPE_CHECKING:
    from perdure.minds.flow.flow import Flow

_FLOWS: "WeakValueDictionary[str, Flow[..., Any]]" = WeakValueDictionary()
"""The newest flow of each key. References are weak, because a flow may hold large objects in a closure."""
_LONGEST = 200


def register(flow: "Flow[..., Any]") -> None:
    """Make a flow the newest of its key."""
    _FLOWS[flow.key] = flow


def require_newest(flow: "Flow[..., Any]") -> None:
    """Check that a goal of this flow would find this flow again, and not a newer definition.

    Raises: Invalid, which names both places
    """
    newest = _FLOWS.setdefault(flow.key, flow)
    if newest is not flow:
        raise Invalid(
            f"The flow {flow.key} was defined again after this one: this one is {flow.place}, the newest is"
            f" {newest.place}. Goals find their flow by its name, so only the newest can run. Run that one, or give"
            " each flow a name of its own: @flow(name=…)."
        )


def require_flow_name(name: Any) -> str:
    """Return the name of a flow. A colon would make it look like `module:function`.

    Raises: Invalid
    """
    is_text = isinstance(name, str) and 0 < len(name) <= _LONGEST and name.isprintable()
    if not is_text or ":" in name or name != name.strip():
        raise Invalid(
            f"The name of a flow must be a string of 1 to {_LONGEST} printable characters without a colon, got"
            f" {name!r}."
        )
    return str(name)


def find_flow(path: str, name: str | None = None) -> "Flow[..., Any]":
    """Return the flow `module:function`; with a name, the flow with that name, wherever it is defined now.

    Loaded flows are searched first, then the module is imported. A module that only imports the flow is enough.

    Raises: Invalid for another form of path; NotFound when the flow does not exist here.
    """
    module, function = split_path(path)
    found = loaded_flow(path, name)
    if found is not None:
        return found
    if module == "__main__":
        raise NotFound(f"The flow {function} was defined in a script. Run that script again to resume its goals.")
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise NotFound(f"The module {module} of the flow {path} cannot be imported: {error}.") from error
    found = loaded_flow(path, name) or _flow_in_place(path, name)
    if found is None:
        raise NotFound(
            f"The module {module} has no flow {function}: it must be an async function decorated with @flow."
        )
    return found


def split_path(path: str) -> tuple[str, str]:
    """Return the module and the function of `module:function`.

    Raises: Invalid
    """
    module, _, function = path.partition(":")
    if not module or not function:
        raise Invalid(f"The path of a flow must be module:function, got {path!r}.")
    if module.endswith(".py") or "/" in module or module.startswith("."):
        meant = module.removesuffix(".py").lstrip("./").replace("/", ".")
        raise Invalid(f"The path of a flow must be module:function, got {path!r}; did you mean {meant}:{function}?")
    return module, function


def is_own_name(path: str, name: str | None) -> bool:
    """Return whether a name comes from `@flow(name=…)`, and not from the function at the path."""
    return name is not None and name != path.partition(":")[2]


def loaded_flow(path: str, name: str | None) -> "Flow[..., Any] | None":
    """Return the flow of a goal, if it is loaded: by its own name, else by its path.

    A flow that was given a name since the start of the goal is still found by its path, unless several flows match.
    """
    if is_own_name(path, name):
        return _FLOWS.get(str(name))
    return _FLOWS.get(path) or _only(flow for flow in list(_FLOWS.values()) if flow.path == path)


def named_flow(name: str) -> "Flow[..., Any] | None":
    """Return the loaded flow with an own name, `@flow(name=…)`."""
    return _FLOWS.get(name) if ":" not in name else None


def flow_at(path: str) -> "Flow[..., Any] | None":
    """Return the flow at a path in a loaded module, which may have imported it."""
    from perdure.minds.flow.flow import Flow

    found = object_at(path)
    return found if isinstance(found, Flow) else None


def object_at(path: str) -> object:
    """Return the object at a path in a loaded module; None if there is none."""
    module, _, name = path.partition(":")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _flow_in_place(path: str, name: str | None) -> "Flow[..., Any] | None":
    """Return the flow at the path of a goal, unless it has another own name than the flow of the goal."""
    found = flow_at(path)
    is_other = found is not None and is_own_name(path, name) and found.has_own_name
    return None if is_other else found


def _only(flows: "Iterator[Flow[..., Any]]") -> "Flow[..., Any] | None":
    found = list(flows)
    return found[0] if len(found) == 1 else None
