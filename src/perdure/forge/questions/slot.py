"""A slot: one thing to know about a bot, how to ask for it, and how an answer fills it."""

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
    """What is asked, and what speaks for one of the answers."""

    text: str
    options: Sequence[Option]
    suggestion: Suggestion | None = None
    multiple: bool = False
    is_requested: bool = False
    """Whether the suggestion is what the person has just asked for."""


@dataclass(frozen=True, eq=False)
class Slot:
    """One thing to know about a bot; there is one of each."""

    name: str
    phase: BuilderPhase
    fields: tuple[str, ...]
    """The fields of the config that an answer fills."""
    ask: Callable[[BuilderState], Question]
    choose: Callable[[BuilderState, str], Fields]
    """What an option means, by its id."""
    read: Callable[[BuilderState, str], Fields]
    """What free text means. Raises: Invalid when nothing."""
    told: Callable[[BuilderState], Fields] = lambda _state: {}
    """What the description says already; nothing when it does not."""
    choose_several: Callable[[BuilderState, Sequence[str]], Fields] | None = None
    """What several options mean together, where several may be chosen."""
    help: str = ""
    """What the answer is used for."""


def filled(config: PartialConfig, fields: Fields) -> PartialConfig:
    """Return a config with fields filled.

    Raises: Invalid, naming the field, when a value cannot be kept.
    """
    try:
        return PartialConfig.model_validate({**config.model_dump(), **fields})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"The answer does not fit {first['loc'][0]}: {first['msg']}.") from error


def option(id: str, label: str, description: str) -> Option:  # noqa: A002 (the wire calls it that)
    """Make an option; every one has a reason."""
    return Option(id=id, label=label, description=description)
