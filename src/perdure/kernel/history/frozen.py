"""Fast constructors of frozen dataclasses, for code that constructs values for every event.

The `__init__` of a frozen dataclass sets each field through `object.__setattr__`, because its own `__setattr__` raises.
That takes four times as long as plain assignment, and would dominate the time of a fold. So the value is constructed as
an instance of a twin class, with the same slots and not frozen, whose `__post_init__` changes `__class__`.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
B = TypeVar("B")


def constructor(kind: Callable[P, B]) -> Callable[P, B]:
    """Return a fast constructor of a frozen dataclass with slots: same parameters, same values."""
    frozen: Any = kind

    def freeze(twin: Any) -> None:
        twin.__class__ = frozen

    made = make_dataclass(
        frozen.__name__,
        [(each.name, each.type, _same_default(each)) for each in fields(frozen)],
        namespace={"__post_init__": freeze},
        slots=True,
        eq=False,
    )
    return cast("Callable[P, B]", made)


def _same_default(given: "Field[Any]") -> Any:
    if given.default_factory is not MISSING:
        return field(default_factory=given.default_factory)
    return field(default=given.default)
