"""Request bodies for bots."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class RollbackBody(BaseModel):
    """The version to restore."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"version": 1}]})
    version: Annotated[int, Field(ge=1, le=999_999_999)]


class ImportBody(BaseModel):
    """The archive of a bot, as `GET /bots/{slug}/archive` returns it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    archive: Annotated[
        str, Field(json_schema_extra={"contentEncoding": "base64", "contentMediaType": "application/zip"})
    ]
