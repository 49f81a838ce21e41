"""The server itself."""

from typing import Literal

from pydantic import BaseModel


class Health(BaseModel):
    """A server that answers."""

    status: Literal["ok"]
    version: str


class LoggedOut(BaseModel):
    """The end of a login session."""

    logged_out: bool
    """False when the request was authenticated by the token, so that there was no session to end."""
