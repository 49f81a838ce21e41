"""The health of a server, and the end of login sessions."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import Schema


class Health(TypedDict):
    """The health of a server."""

    status: Literal["ok"]
    version: str


class LoggedOut(TypedDict):
    """The end of a login session."""

    logged_out: Annotated[
        bool, Schema(description="False if the request used the token, so that there was no session to end.")
    ]
