"""Calls for interviews of Forge: by requests, or by a chat over one socket."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from websockets.exceptions import InvalidStatus, WebSocketException

from perdure.client.chat import Chat
from perdure.client.connection import Connection, refused
from perdure.client.sending import plain_step
from perdure.client.sockets import open_socket
from perdure.errors import Unavailable

if TYPE_CHECKING:
    from perdure.app.builder.vocabulary import EngineName
    from perdure.app.wire.resources.bots import CreatedSkill
    from perdure.app.wire.resources.builder import (
        AssemblyResult,
        Draft,
        NewSession,
        NextTurn,
        PastChoice,
        Session,
        SessionChanges,
    )

_SESSIONS = "/builder/sessions"


class Builder:
    """The builder of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def start(
        self, description: str, *, engine: "EngineName | None" = None, key: str | None = None
    ) -> "NewSession":
        """Start an interview about a new bot; with a key, once.

        The engine is `builtin` or `model` (default: the model, if the server has one configured).

        Raises: Invalid; Conflict when the key was used for another call; Unavailable when no model answers.
        """
        body = {"description": description} | _engine(engine)
        return cast("NewSession", await self._post("", body, key=key))

    async def get(self, session_id: str, *, prefix: bool = False) -> "Session":
        """Return a session with its pending turn.

        With `prefix`, also by a unique prefix of its id.

        Raises: NotFound, also when the session is over; Conflict when several ids match.
        """
        query = {"prefix": True if prefix else None}
        return cast("Session", await self._connection.data("GET", f"{_SESSIONS}{_path(session_id)}", query=query))

    async def resume(self, session_id: str) -> "Session":
        """Return a session to continue, as `get`; a session that changes a deleted bot is rejected.

        Raises: NotFound, also when the session is over, or its bot was deleted.
        """
        return cast("Session", await self._post(_path(session_id, "resume"), None))

    async def changes(self, session_id: str) -> "SessionChanges":
        """Return what `assemble` would change on disk.

        Raises: NotFound; Conflict when the session is not ready, or its bot was changed after its start.
        """
        path = f"{_SESSIONS}{_path(session_id, 'changes')}"
        return cast("SessionChanges", await self._connection.data("GET", path))

    async def answer(
        self,
        session_id: str,
        answer: Any,
        *,
        revision: int | None = None,
        engine: "EngineName | None" = None,
        key: str | None = None,
    ) -> "NextTurn":
        """Answer the pending turn and return the next one; with a revision, only at that revision.

        With `engine`, that engine leads the session from this answer on.

        Raises: NotFound; Invalid when the answer does not fit; Conflict, with the present session as `current`.
        """
        body = {"answer": answer} | _engine(engine)
        return cast("NextTurn", await self._post(_path(session_id, "answer"), body, revision, key))

    async def assemble(
        self,
        session_id: str,
        config: Mapping[str, Any] | None = None,
        *,
        revision: int | None = None,
        key: str | None = None,
    ) -> "AssemblyResult":
        """Build the bot; a second call returns the same result.

        Raises: NotFound; Invalid; Conflict when the session is not ready, or is at another revision.
        """
        body = {} if config is None else {"config": config}
        return cast("AssemblyResult", (await self._post(_path(session_id, "assemble"), body, revision, key))["result"])

    async def reconfigure(
        self,
        bot_slug: str,
        session_id: str | None = None,
        *,
        description: str = "",
        engine: "EngineName | None" = None,
        key: str | None = None,
    ) -> "NewSession":
        """Start an interview that changes an existing bot; without `session_id`, the session gets a new id.

        `description` is the requested change; options that it names are suggested first.

        Raises: NotFound when there is no such bot; Conflict when the id is taken.
        """
        path = _path(session_id or str(uuid4()), "reconfigure")
        body = {"bot_slug": bot_slug, "description": description} | _engine(engine)
        return cast("NewSession", await self._post(path, body, key=key))

    async def create_skill(
        self,
        session_id: str,
        description: str,
        *,
        name: str | None = None,
        capabilities: Sequence[str] | None = None,
        key: str | None = None,
    ) -> "CreatedSkill":
        """Create a skill from a description; repeating the request returns the same result.

        Raises: NotFound when there is no such session; Invalid; Conflict when there is another skill of that name.
        """
        request = {"name": name, "description": description, "capabilities": capabilities}
        data = await self._post(_path(session_id, "create-skill"), {"skill_request": request}, key=key)
        made: CreatedSkill = data["result"]
        return made

    async def delete(self, session_id: str) -> None:
        """Delete the draft of a session.

        Raises: NotFound
        """
        await self._connection.data("DELETE", f"{_SESSIONS}{_path(session_id)}")

    async def drafts(self, *, limit: int = 50) -> "AsyncIterator[Draft]":
        """Iterate over the unfinished sessions, last changed first."""
        async for draft in self._connection.each("/builder/drafts", limit=limit):
            yield cast("Draft", draft)

    async def choices(self, *, limit: int = 50) -> "AsyncIterator[PastChoice]":
        """Iterate over the choices made for bots, newest first."""
        async for choice in self._connection.each("/builder/choices", limit=limit):
            yield cast("PastChoice", choice)

    async def remove_choice(self, choice_id: str) -> None:
        """Delete one choice.

        Raises: NotFound
        """
        await self._connection.data("DELETE", f"/builder/choices{_path(choice_id)}")

    async def clear_choices(self) -> int:
        """Delete all choices; return their number."""
        removed: int = (await self._connection.data("DELETE", "/builder/choices"))["removed"]
        return removed

    @asynccontextmanager
    async def chat(self, session_id: str) -> AsyncIterator[Chat]:
        """Open a socket for the interview of one session inside the block; an existing draft is resumed.

        Raises: NotFound when the id is not a UUID; Denied; Unavailable when the server cannot be reached.
        """
        try:
            socket = await open_socket(self._connection, f"/ws/builder{_path(session_id)}")
        except InvalidStatus as error:
            raise refused(error.response.status_code, f"session {session_id[:60]!r}; an id is a UUID") from error
        except (OSError, WebSocketException) as error:
            raise Unavailable(f"{self._connection.url} cannot be reached: {error}.") from error
        async with socket:
            yield Chat(socket)

    async def _post(self, path: str, body: Any, revision: int | None = None, key: str | None = None) -> Any:
        headers = {"Idempotency-Key": key, "If-Match": None if revision is None else f'"{revision}"'}
        return await self._connection.data("POST", f"{_SESSIONS}{path}", body, headers=headers)


def _engine(wanted: "EngineName | None") -> dict[str, str]:
    return {} if wanted is None else {"engine": wanted}


def _path(*parts: str) -> str:
    return "".join(f"/{plain_step(part)}" for part in parts)
