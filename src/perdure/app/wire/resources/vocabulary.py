"""Types that several resources share, and annotations for the OpenAPI document."""

from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal, TypeVar

T = TypeVar("T")
ApprovalKind = Literal["approval", "question", "unknown", "damaged"]
PersonDecision = Literal["approve", "deny", "answer", "retry", "skip", "abort"]


class Schema:
    """Adds keywords to the JSON Schema of a value."""

    def __init__(self, **keywords: Any) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """Return the schema of the value with the keywords."""
        schema: dict[str, Any] = handler(core_schema)
        return {**schema, **self._keywords}


@dataclass(frozen=True)
class DescribedBy:
    """Describes a value by a class such as `perdure.forge.turns:Preview`, which is imported only for OpenAPI.

    The static type remains that of the annotation: a JSON object, which the class defines.
    """

    place: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Return the schema of the class."""
        module, _, name = self.place.partition(":")
        return handler.generate_schema(getattr(import_module(module), name))


def with_other_keys(form: T) -> T:
    """Allow undefined keys in the objects of a TypedDict; a class decorator."""
    form.__pydantic_config__ = {"extra": "allow"}  # type: ignore[attr-defined]
    return form


Moment = Annotated[str, Schema(format="date-time")]
"""ISO-8601, in UTC, with `Z`."""
