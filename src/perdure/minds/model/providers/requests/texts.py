"""Texts and arguments that arrive in pieces: surrogates replaced, arguments read strictly."""

from typing import Any

from perdure.errors import Invalid
from perdure.text.storable import without_surrogates
from perdure.text.strict_json import JsonLimits, parse_json, require_json

DEEPEST_ARGUMENTS = 64
_ARGUMENTS = JsonLimits(deepest=DEEPEST_ARGUMENTS, integers_below=1 << 64, allows_nul=True)
_SYNTAX = JsonLimits(validates_values=False)


class Pieces:
    """A text that arrives in pieces, any of which may end within a surrogate pair."""

    def __init__(self) -> None:
        self._half = ""
        self._texts: list[str] = []
        self.code_points = 0
        """Number of code points that were taken so far."""

    def take(self, piece: str) -> str:
        """Return what of the text became certain by a piece."""
        whole = self._half + piece
        ends_within = whole[-1:] >= "\ud800" and whole[-1:] <= "\udbff"
        self._half = whole[-1] if ends_within else ""
        return self._keep(without_surrogates(whole[:-1] if ends_within else whole))

    def finish(self) -> str:
        """Return what is left at the end."""
        rest, self._half = self._half, ""
        return self._keep(without_surrogates(rest))

    @property
    def text(self) -> str:
        """All that was taken."""
        return "".join(self._texts)

    def _keep(self, text: str) -> str:
        if text:
            self._texts.append(text)
            self.code_points += len(text)
        return text


def read_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments of a tool call; None when the text is not a JSON object that can be recorded.

    No text at all means no arguments. Lone surrogates in values become U+FFFD.
    """
    if not text.strip():
        return {}
    try:
        value = parse_json(text, "The arguments", _SYNTAX)
        if not isinstance(value, dict):
            return None
        cleaned = _cleaned(value, DEEPEST_ARGUMENTS)
        require_json(cleaned, "The arguments", _ARGUMENTS)
    except Invalid:
        return None
    return dict(cleaned)


def _cleaned(value: Any, levels: int) -> Any:
    """Replace lone surrogates in keys and values.

    Raises: Invalid when the value is nested deeper than the levels.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if not isinstance(value, dict | list):
        return value
    if levels == 0:
        raise Invalid("The arguments are nested too deeply.")
    if isinstance(value, list):
        return [_cleaned(each, levels - 1) for each in value]
    return {without_surrogates(key): _cleaned(each, levels - 1) for key, each in value.items()}
