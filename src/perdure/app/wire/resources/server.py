"""The server itself."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import Schema


class Health(TypedDict):
    """A server that answers."""

    status: Literal["ok"]
    version: str


class LoggedOut(TypedDict):
    """The end of a login session."""

    logged_out: Annotated[
        bool, Schema(description="False when the request had the token, so that there was no session to end.")
    ]
