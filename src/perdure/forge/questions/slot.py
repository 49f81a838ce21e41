"""Slots: the questions of an interview, and the config fields that their answers set."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perdure.errors import Invalid
from perdure.forge.config import PartialConfig
from perdure.forge.state import BuilderState
from perdure.forge.turns import Option, Suggestion
from perdure.forge.vocabulary import BuilderPhase

Fields = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """The text of a question, its options, and a suggestion."""

    text: str
    options: Sequence[Option]
    suggestion: Suggestion | None = None
    multiple: bool = False


@dataclass(frozen=True, eq=False)
class Slot:
    """One question of an interview; slots are singletons and compared by identity."""

    name: str
    phase: BuilderPhase
    fields: tuple[str, ...]
    """The fields of the config that an answer sets."""
    ask: Callable[[BuilderState], Question]
    choose: Callable[[BuilderState, str], Fields]
    """Returns the fields that an option sets, by its id."""
    read: Callable[[BuilderState, str], Fields]
    """Returns the fields that free text sets. Raises: Invalid."""
    from_description: Callable[[BuilderState], Fields] = lambda _state: {}
    """Returns the fields that the description answers; empty if it answers none."""
    choose_several: Callable[[BuilderState, Sequence[str]], Fields] | None = None
    """Returns the fields that several options set together; None if only one can be chosen."""
    help: str = ""
    """What the answer is used for."""


def with_fields(config: PartialConfig, fields: Fields) -> PartialConfig:
    """Return a config with changed fields.

    Raises: Invalid, naming the field, when a value is not valid.
    """
    try:
        return PartialConfig.model_validate({**config.model_dump(), **fields})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"The answer does not fit {first['loc'][0]}: {first['msg']}.") from error


def option(id: str, label: str, description: str) -> Option:  # noqa: A002 (the wire calls it that)
    """Return an option; `description` is its reason."""
    return Option(id=id, label=label, description=description)
