"""Models from elsewhere: those that goals of a server can ask, and trying one."""

from typing import TYPE_CHECKING, cast

from perdure.client.connection import Connection

if TYPE_CHECKING:
    from perdure.app.wire.resources.models import Model, TestedModel


class Models:
    """What can be done with models."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, limit: int = 50) -> "list[Model]":
        """Return the models of the settings, and one of each well-known provider, `limit` of them with a request."""
        return [cast("Model", each) async for each in self._connection.each("/models", limit=limit)]

    async def test(self, name: str | None = None) -> "TestedModel":
        """Ask a model, by default the default model, for one word, once.

        Raises: Unavailable, with the command that fixes it, when it does not answer; Invalid when there is none of that
        name.
        """
        body = {} if name is None else {"name": name}
        return cast("TestedModel", await self._connection.data("POST", "/models/test", body))
