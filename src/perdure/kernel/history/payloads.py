"""Converts dataclasses to JSON objects and back; fields with their default are omitted and restored."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Generic, TypeVar

from perdure.kernel.history.frozen import constructor

Content = dict[str, Any]
B = TypeVar("B")


class Layout(Generic[B]):
    """How the values of one dataclass are written and read."""

    def __init__(self, kind: type[B], **nested: "Layout[Any] | Choices | type[tuple[Any, ...]]") -> None:
        self.kind = kind
        self._make: Callable[..., B] = kind
        self.defaults: Content = {
            each.name: _default(each) for each in fields(_dataclass(kind)) if _default(each) is not MISSING
        }
        """The fields that may be omitted, with their defaults."""
        self._inner = {name: each for name, each in nested.items() if isinstance(each, Layout | Choices)}
        self._fields = tuple(
            (each.name, _default(each), self._inner.get(each.name)) for each in fields(_dataclass(kind))
        )
        self._readers: tuple[tuple[str, Callable[[Any], Any]], ...] = tuple(
            (name, each.read if isinstance(each, Layout | Choices) else each) for name, each in nested.items()
        )

    def be_quick(self) -> "Layout[B]":
        """Use a fast constructor for values; making that constructor takes some milliseconds."""
        self._make = constructor(self._make)
        return self

    def write(self, value: B) -> Content:
        """Return a value as an object, without the fields that have their default."""
        content: Content = {}
        for name, default, inner in self._fields:
            each = getattr(value, name)
            if each is default or (each == default and type(each) is type(default)):
                continue
            content[name] = each if inner is None or each is None else inner.write(each)
        return content

    def read(self, content: Content) -> B:
        """Return the value of an object, which may omit defaults; the object is consumed.

        Raises: TypeError when it is not the object of such a value.
        """
        for name, read in self._readers:
            found = content.get(name)
            if found is not None:
                content[name] = read(found)
        return self._make(**content)

    def unknown_field(self, content: Any) -> str | None:
        """Return a field that this dataclass does not have, if there is one; of a nested object, as a dotted path."""
        if not isinstance(content, dict):
            return None
        known = {name: inner for name, _, inner in self._fields}
        for name, each in content.items():
            if name not in known:
                return str(name)
            inner = known[name]
            found: str | None = inner.unknown_field(each) if inner is not None else None
            if found is not None:
                return f"{name}.{found}"
        return None

    def is_same(self, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
        """Return whether two objects are equal, where a missing field equals its default."""
        return {**self.defaults, **left} == {**self.defaults, **right}


class Choices:
    """How a list of values of several dataclasses is written and read: each object names its class as its `kind`."""

    def __init__(self, **kinds: "Layout[Any]") -> None:
        self._layouts: dict[str, Layout[Any]] = kinds
        self._names = {layout.kind: name for name, layout in kinds.items()}

    def write(self, values: Iterable[Any]) -> list[Content]:
        """Return values as objects."""
        named = ((self._names[type(value)], value) for value in values)
        return [{"kind": name, **self._layouts[name].write(value)} for name, value in named]

    def read(self, contents: Iterable[Content]) -> tuple[Any, ...]:
        """Return the values of objects; the objects are consumed.

        Raises: KeyError, TypeError, AttributeError when they are not the objects of such values.
        """
        return tuple(self._layouts[content.pop("kind")].read(content) for content in contents)

    def unknown_field(self, contents: Any) -> str | None:
        """Return a kind or field that these classes do not have, if there is one."""
        for content in contents if isinstance(contents, list) else []:
            fields = {**content} if isinstance(content, dict) else {}
            kind = fields.pop("kind", None)
            layout = self._layouts.get(kind) if isinstance(kind, str) else None
            if layout is None:
                return f"kind {kind!r}"
            name: str | None = layout.unknown_field(fields)
            if name is not None:
                return name
        return None


def _default(field: "Field[Any]") -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _dataclass(kind: type) -> Any:
    return kind
