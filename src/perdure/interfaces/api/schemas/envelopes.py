"""The envelope of every success: one resource, or a page of a list."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field, GetCoreSchemaHandler, RootModel
from pydantic_core import CoreSchema, core_schema

from perdure.app.wire.resources.problems import Meta

T = TypeVar("T")
M = TypeVar("M", bound="PageMeta")


@dataclass(frozen=True)
class ReadBy:
    """Documents a value by a model without validating it: the use case validates it.

    FastAPI validates Python values after parsing JSON, so only the Python schema is ever used for validation.
    """

    form: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        form = handler.generate_schema(self.form)
        return core_schema.json_or_python_schema(json_schema=form, python_schema=handler(source))


class Links(RootModel[dict[str, str]]):
    """The paths of related resources, by relation."""


class PageMeta(Meta):
    """Describes a page: `next_cursor` is the `cursor` of the next page, and null on the last one."""

    next_cursor: str | None


class Envelope(BaseModel, Generic[T]):
    """One resource."""

    data: T
    meta: Meta
    links: Links = Field(alias="_links")

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Name the schema after its resource: `GoalResponse`."""
        return f"{params[0].__name__}Response"


class Page(BaseModel, Generic[T, M]):
    """One page of a list."""

    data: list[T]
    meta: M
    links: Links = Field(alias="_links")

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """Name the schema after the listed resource: `GoalPage`."""
        return f"{params[0].__name__}Page"


def with_etag(status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Document the `ETag` of a success."""
    about = "Version of the resource, for `If-Match`."
    return {status: {"headers": {"ETag": {"description": about, "schema": {"type": "string"}}}}}
