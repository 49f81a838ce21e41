"""The server itself."""

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """A server that answers."""

    status: Literal["ok"]
    version: str
