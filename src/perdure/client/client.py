"""The entry point: one object for a server, with its calls by resource."""

from types import TracebackType
from typing import Any, Self

from perdure.client.bots import Bots
from perdure.client.builder import Builder
from perdure.client.connection import Connection
from perdure.client.conversations import Conversations
from perdure.client.goals import Goals
from perdure.client.memory import Memory
from perdure.client.models import Models


class Client:
    """A client of one server; use it in an `async with` block, or close it."""

    def __init__(self, url: str, token: str, *, timeout_s: float = 30.0) -> None:
        self._connection = Connection(url, token, timeout_s=timeout_s)
        self.goals = Goals(self._connection)
        self.conversations = Conversations(self._connection)
        self.builder = Builder(self._connection)
        self.bots = Bots(self._connection)
        self.memory = Memory(self._connection)
        self.models = Models(self._connection)

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send any other request under `/api/v1`, and return the data of its response."""
        return await self._connection.data(method, path, body, **more)

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
