"""Rebuilds the exceptions of steps from the history, so that a flow can catch them by their class.

The class must already be loaded: its module is never imported for this. Of its code, only `__new__` is run; attributes
are the recorded ones. Builtin exceptions, and those of Perdure that only have a text, are constructed as usual.
"""

import copy
import sys
from types import ModuleType
from typing import Any

from perdure.errors import PerdureError, StepFailed
from perdure.kernel.events import ToolError
from perdure.minds.flow.steps.tracebacks import OURS, attribute_of, class_path, mark_recorded
from perdure.minds.flow.steps.user_errors import is_interrupt

_CONTROL_FLOW = (StopIteration, StopAsyncIteration)
"""Exceptions that have a meaning for coroutines, so that a future cannot hold them."""


def rebuilt(error: ToolError, cause: StepFailed) -> BaseException | None:
    """Return the exception of a failed step, with a StepFailed as its cause; None if it cannot be rebuilt.

    Never raises, whatever the class does.
    """
    cls = _find_class(error.type) if type(error.args) is list else None
    if cls is None or not _is_usable(cls):
        return None
    try:
        made = _make(cls, tuple(error.args))
    except BaseException as other:
        if is_interrupt(other):
            raise
        return None
    if type(made) is not cls:
        return None
    dict.update(attribute_of(made, "__dict__"), copy.deepcopy(error.attributes or {}))
    mark_recorded(made, error)
    BaseException.__dict__["__cause__"].__set__(made, cause)  # a class may define __setattr__
    return made


def _make(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    if _module_of(cls) == "builtins" or _is_plain_own_error(cls):
        return cls(*args)
    new = type.__getattribute__(cls, "__new__")
    made: BaseException = new(cls, *args)
    if type(made) is cls:
        BaseException.__dict__["args"].__set__(made, args)
    return made


def _find_class(path: str | None) -> type[BaseException] | None:
    """Return the loaded exception class `module:QualName`; None if there is none with exactly that name."""
    module_name, _, qualname = (path or "").partition(":")
    module = sys.modules.get(module_name)
    if not issubclass(type(module), ModuleType):
        return None
    found: Any = module
    for name in qualname.split("."):
        holder = ModuleType if found is module else type
        if not issubclass(type(found), holder):
            return None
        members: dict[str, Any] = holder.__dict__["__dict__"].__get__(found)  # type: ignore[index]
        found = members.get(name)
    is_exception = issubclass(type(found), type) and BaseException in _bases(found)
    return found if is_exception and class_path(found) == path else None


def _is_usable(cls: type[BaseException]) -> bool:
    bases = _bases(cls)
    if Exception not in bases or any(each in bases for each in (*_CONTROL_FLOW, BaseExceptionGroup)):
        return False
    return not _module_of(cls).startswith(OURS) or _is_plain_own_error(cls)


def _is_plain_own_error(cls: type[BaseException]) -> bool:
    """Return whether a class is one of `perdure.errors` that has no attribute but its text."""
    return _module_of(cls) == PerdureError.__module__ and cls.__init__ is PerdureError.__init__


def _bases(cls: type) -> tuple[type, ...]:
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(cls)
    return found


def _module_of(cls: type) -> str:
    return class_path(cls).partition(":")[0]
