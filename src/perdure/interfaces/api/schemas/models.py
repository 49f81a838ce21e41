"""Request bodies for models."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class TrialBody(BaseModel):
    """The model to test, as provider:name (default: the default model)."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"name": "openai:gpt-4.1-mini"}]}
    )
    name: Annotated[str, Field(min_length=1, max_length=500)] | None = None
