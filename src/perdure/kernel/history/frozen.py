"""A quick way to make values of frozen dataclasses, for the places that make one or more for each event.

The `__init__` of a frozen dataclass sets each field through `object.__setattr__`, because its own `__setattr__` raises.
That takes four times as long as setting fields plainly, and is most of the time of a fold. So the value is made as one
of a twin class that has the same slots and is not frozen, and becomes one of the frozen class when it is complete.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
B = TypeVar("B")


def constructor(kind: Callable[P, B]) -> Callable[P, B]:
    """Return a quick constructor of a frozen dataclass with slots: same parameters, same values."""
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
