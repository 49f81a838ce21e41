"""The tables `[models."NAME"]` of `config.toml`: window, price and key of a model."""

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from perdure.errors import Invalid

SECRET = re.compile(r"secret:([A-Za-z][A-Za-z0-9_]{0,63})")
"""A reference to a secret: its name, never its value."""
_SMALLEST_WINDOW, _LARGEST_WINDOW = 256, 100_000_000


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """The prices of a million tokens, in US dollars."""

    input: float
    output: float
    cache_read: float | None = None
    """The price of input that the provider had cached; None: as `input`."""
    cache_write: float | None = None
    """The price of input that the provider adds to its cache; None: as `input`."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """The settings of one model in `config.toml`."""

    context_window: int | None = None
    price: ModelPrice | None = None
    api_key: str | None = None
    """The name of the secret that holds the key."""


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """The settings of models: the default, the fallbacks of a model that fails, and the tables by name."""

    default: str | None = None
    fallbacks: tuple[str, ...] = ()
    tables: Mapping[str, ModelTable] | None = None

    def table(self, name: str) -> ModelTable:
        """Return the table of a model; an empty one if it has none."""
        return (self.tables or {}).get(name, ModelTable())


def read_model_tables(where: str, value: object) -> dict[str, ModelTable]:
    """Read the tables of models; `where` names the file in messages.

    Raises: Invalid
    """
    if not isinstance(value, Mapping):
        raise Invalid(f'{where}: models must be a table of tables: [models."NAME"].')
    return {name: _table(f"{where}: models.{_quoted(name)}", table) for name, table in value.items()}


def shown_tables(tables: Mapping[str, ModelTable]) -> list[tuple[str, str]]:
    """Return each setting of the tables with its name, as it may be shown: instead of a key, the name of its secret."""
    rows: list[tuple[str, str]] = []
    for name, table in tables.items():
        key = f"models.{_quoted(name)}"
        if table.context_window is not None:
            rows.append((f"{key}.context_window", str(table.context_window)))
        if table.price is not None:
            parts = ((each.name, getattr(table.price, each.name)) for each in fields(ModelPrice))
            numbers = ", ".join(f"{part} = {number:g}" for part, number in parts if number is not None)
            rows.append((f"{key}.price", f"{{{numbers}}}"))
        if table.api_key is not None:
            rows.append((f"{key}.api_key", f"secret:{table.api_key}"))
    return rows


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _table(where: str, value: object) -> ModelTable:
    if not isinstance(value, Mapping):
        raise Invalid(f"{where} must be a table.")
    _require_known(where, value, ModelTable)
    price = value.get("price")
    return ModelTable(
        context_window=_window(where, value.get("context_window")),
        price=None if price is None else _price(where, price),
        api_key=_secret_name(where, value.get("api_key")),
    )


def _require_known(where: str, value: Mapping[str, Any], kind: type[ModelTable | ModelPrice]) -> None:
    known = [each.name for each in fields(kind)]
    for key in value:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(known)}."
            raise Invalid(f"{where}: there is no setting {key!r}. {hint}")


def _window(where: str, value: object) -> int | None:
    if value is None:
        return None
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not isinstance(value, int) or not _SMALLEST_WINDOW <= value <= _LARGEST_WINDOW:
        expected = f"a whole number of tokens from {_SMALLEST_WINDOW} to {_LARGEST_WINDOW}"
        raise Invalid(f"{where}.context_window must be {expected}; found {value!r}.")
    return value


def _price(where: str, value: object) -> ModelPrice:
    if not isinstance(value, Mapping):
        raise Invalid(
            f"{where}.price must be a table such as {{input = 1.25, output = 10.0}}, in USD per million tokens."
        )
    _require_known(f"{where}.price", value, ModelPrice)
    numbers = {key: _number(f"{where}.price.{key}", number) for key, number in value.items()}
    if missing := [key for key in ("input", "output") if key not in numbers]:
        raise Invalid(f"{where}.price has no {missing[0]!r}: USD per million tokens.")
    return ModelPrice(**numbers)


def _number(where: str, value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Invalid(f"{where} must be a number of USD per million tokens, 0 or more; found {value!r}.")
    return float(value)


def _secret_name(where: str, value: object) -> str | None:
    if value is None:
        return None
    match = SECRET.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise Invalid(
            f"{where}.api_key must name a secret, such as secret:LOCAL_KEY; a key itself does not belong here."
        )
    return match[1]
