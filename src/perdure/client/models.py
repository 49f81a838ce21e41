"""Calls for models: list them and test one."""

from typing import TYPE_CHECKING, cast

from perdure.client.connection import Connection

if TYPE_CHECKING:
    from perdure.app.wire.resources.models import Model, TestedModel


class Models:
    """The models of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, limit: int = 50) -> "list[Model]":
        """Return the models of the settings, and one of each well-known provider; a request fetches `limit` of them."""
        return [cast("Model", each) async for each in self._connection.each("/models", limit=limit)]

    async def test(self, name: str | None = None) -> "TestedModel":
        """Send one short request to a model, by default the default model.

        Raises: Unavailable, with the next command, when it does not answer; Invalid when the name is unknown.
        """
        body = {} if name is None else {"name": name}
        return cast("TestedModel", await self._connection.data("POST", "/models/test", body))
