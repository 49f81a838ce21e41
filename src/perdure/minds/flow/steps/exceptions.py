"""Exceptions of steps, made again of what was recorded, so that a flow catches them by their own class.

The class is looked up among what is loaded already. Its module is never imported for this, and of its code only
`__new__` is run: attributes that `__init__` would set are missing. Builtin exceptions, and ours
that only have a text, are made as usual.
"""

import sys
from types import ModuleType
from typing import Any

from perdure.errors import PerdureError, StepFailed
from perdure.kernel.events import ToolError
from perdure.minds.flow.steps.tracebacks import class_path, mark_recorded
from perdure.minds.flow.steps.user_errors import is_interrupt

_CONTROL_FLOW = (StopIteration, StopAsyncIteration)
"""What Python itself gives a meaning when it is raised in a coroutine; a future cannot hold it."""
_OURS = "perdure."


def rebuilt(error: ToolError, cause: StepFailed) -> BaseException | None:
    """Return the exception of a step that failed, with a StepFailed as its cause; None when it cannot be made.

    It never raises, whatever the class does.
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
    mark_recorded(made, error)
    BaseException.__dict__["__cause__"].__set__(made, cause)  # a class may define __setattr__
    return made


def _make(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    if _module_of(cls) == "builtins" or _is_plain_error_of_ours(cls):
        return cls(*args)
    new = type.__getattribute__(cls, "__new__")
    made: BaseException = new(cls, *args)
    if type(made) is cls:
        BaseException.__dict__["args"].__set__(made, args)
    return made


def _find_class(path: str | None) -> type[BaseException] | None:
    """Return the loaded exception class `module:QualName`; None where there is none of that very name."""
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
    return not _module_of(cls).startswith(_OURS) or _is_plain_error_of_ours(cls)


def _is_plain_error_of_ours(cls: type[BaseException]) -> bool:
    """Tell whether a class is one of `perdure.errors` that has nothing but its text."""
    return _module_of(cls) == PerdureError.__module__ and cls.__init__ is PerdureError.__init__


def _bases(cls: type) -> tuple[type, ...]:
    found: tuple[type, ...] = type.__dict__["__mro__"].__get__(cls)
    return found


def _module_of(cls: type) -> str:
    return class_path(cls).partition(":")[0]
