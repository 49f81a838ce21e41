"""Reads values of front matter and validates their type and size; errors name the file and the line."""

from dataclasses import dataclass
from typing import Any

from perdure.bots.documents import Document
from perdure.errors import Invalid


@dataclass(frozen=True, slots=True)
class Fields:
    """The front matter of one file; unknown keys are allowed and not validated."""

    document: Document
    name: str

    def text(self, key: str, longest: int = 200) -> str:
        """Return a line of text.

        Raises: Invalid
        """
        value = self._required(key)
        if not isinstance(value, str):
            raise self.error(key, f"must be text, not {_shown(value)}; put it in quotes")
        return self._line(key, value, longest)

    def texts(self, key: str, most: int = 50) -> tuple[str, ...]:
        """Return a list of lines of text; empty when the key is missing.

        Raises: Invalid
        """
        value = self.document.front.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or len(value) > most or not all(isinstance(each, str) for each in value):
            raise self.error(key, f"must be a list of at most {most} strings")
        return tuple(self._line(key, each, 200) for each in value)

    def number(self, key: str, least: float, most: float) -> float:
        """Return a number within a range.

        Raises: Invalid
        """
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.error(key, f"must be a number from {least:g} to {most:g}, not {_shown(value)}")
        return value

    def whole_number(self, key: str, least: int, most: int) -> int:
        """Return a whole number within a range.

        Raises: Invalid
        """
        value = self.number(key, least, most)
        if not isinstance(value, int):
            raise self.error(key, f"must be a whole number, not {_shown(value)}")
        return value

    def error(self, key: str, what: str) -> Invalid:
        """Return the error about a key."""
        first, _ = self.document.lines.get(key, (1, 1))
        return Invalid(f"{self.name}:{first}: {key!r} {what}.")

    def _required(self, key: str) -> Any:
        if self.document.front.get(key) is None:
            raise self.error(key, "is missing in the front matter")
        return self.document.front[key]

    def _line(self, key: str, value: str, longest: int) -> str:
        if not value.strip() or len(value) > longest or not value.isprintable():
            raise self.error(key, f"must be one line of 1 to {longest} printable characters")
        return value


def _shown(value: object) -> str:
    return repr(value)[:40] if isinstance(value, bool | int | float | str) else f"a {type(value).__name__}"
