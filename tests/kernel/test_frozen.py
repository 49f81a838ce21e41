"""Values of frozen dataclasses that are made quickly are like all others."""

from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from perdure.kernel.events import Head, ToolCall, ToolOutput
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.frozen import constructor


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    number: int = 7
    items: list[int] = field(default_factory=list)


@pytest.mark.parametrize("kind", [Sample, Head, ToolCall, ToolOutput, CallState])
def test_a_quick_constructor_makes_the_same_values(kind: Any) -> None:
    values = {each.name: each.name for each in fields(kind)}
    quick = constructor(kind)(**values)
    assert quick == kind(**values)
    assert type(quick) is kind
    assert replace(quick) == quick


def test_what_was_made_quickly_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        constructor(Head)("g").seq = 1  # type: ignore[misc] # that is what is tried


def test_defaults_are_those_of_the_class_and_are_not_shared() -> None:
    make = constructor(Sample)
    one, other = make("a"), make("b")
    assert (one.number, one.items) == (7, [])
    assert one.items is not other.items


@pytest.mark.parametrize("given", [{}, {"name": "a", "unknown": 1}])
def test_wrong_fields_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        constructor(Sample)(**given)  # type: ignore[arg-type] # that is what is tried
