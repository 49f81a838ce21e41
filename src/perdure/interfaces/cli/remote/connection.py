"""Connects a command to its server."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from perdure.client import Client
from perdure.errors import NoToken

T = TypeVar("T")
TOKEN_VARIABLE = "PERDURE_TOKEN"  # noqa: S105 (a name, not a token)
_HOW = f"`perdure token show` prints it on the machine of the server; set it in the variable {TOKEN_VARIABLE}."


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    """Yield a client of a server, with the token of the environment.

    Raises: NoToken when it is missing or rejected by the server; Invalid when it must not be sent to that address.
    """
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise NoToken(f"A server needs a token. {_HOW}")
    try:
        async with Client(url, token) as client:
            yield client
    except NoToken as error:
        raise NoToken(f"{url} rejects the token. {_HOW}") from error


async def first(limit: int, items: AsyncIterator[T]) -> list[T]:
    """Return the first items; no further page is fetched after the last of them."""
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) == limit:
            break
    return found
