"""Forge from elsewhere: begin an interview, answer, build the bot; by requests, or by a chat over one socket."""

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
    """What can be done with the builder."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def start(self, description: str, *, key: str | None = None) -> "NewSession":
        """Begin an interview about a new bot; with a key, once.

        Raises: Invalid; Conflict when the key was used for another call.
        """
        return cast("NewSession", await self._post("", {"description": description}, key=key))

    async def get(self, session_id: str, *, prefix: bool = False) -> "Session":
        """Return where a session stands, with the turn that waits for an answer.

        With `prefix`, the beginning of an id is enough if only one draft has it.

        Raises: NotFound, also when the session is over; Conflict when several ids begin so.
        """
        query = {"prefix": True if prefix else None}
        return cast("Session", await self._connection.data("GET", f"{_SESSIONS}{_path(session_id)}", query=query))

    async def resume(self, session_id: str) -> "Session":
        """Return a session that is to be answered, as `get`; a change of a bot that was deleted is refused.

        Raises: NotFound, also when the session is over, or its bot was deleted.
        """
        return cast("Session", await self._post(_path(session_id, "resume"), None))

    async def changes(self, session_id: str) -> "SessionChanges":
        """Return what `assemble` would change on disk.

        Raises: NotFound; Conflict when the session is not ready, or its bot was changed since it began.
        """
        path = f"{_SESSIONS}{_path(session_id, 'changes')}"
        return cast("SessionChanges", await self._connection.data("GET", path))

    async def answer(
        self, session_id: str, answer: Any, *, revision: int | None = None, key: str | None = None
    ) -> "NextTurn":
        """Answer the pending turn, and return the next; with a revision, only the turn that was seen.

        Raises: NotFound; Invalid when the answer does not fit; Conflict, with what is there now as `current`.
        """
        return cast("NextTurn", await self._post(_path(session_id, "answer"), {"answer": answer}, revision, key))

    async def assemble(
        self,
        session_id: str,
        config: Mapping[str, Any] | None = None,
        *,
        revision: int | None = None,
        key: str | None = None,
    ) -> "AssemblyResult":
        """Build the bot; a second call gets the same result.

        Raises: NotFound; Invalid; Conflict when the session is not ready, or has moved on.
        """
        body = {} if config is None else {"config": config}
        return cast("AssemblyResult", (await self._post(_path(session_id, "assemble"), body, revision, key))["result"])

    async def reconfigure(
        self, bot_slug: str, session_id: str | None = None, *, description: str = "", key: str | None = None
    ) -> "NewSession":
        """Begin an interview about a bot that is there; the session has a new id unless one is given.

        `description` says what is to change; what it names is suggested first.

        Raises: NotFound when there is no such bot; Conflict when the id is taken.
        """
        path = _path(session_id or str(uuid4()), "reconfigure")
        return cast("NewSession", await self._post(path, {"bot_slug": bot_slug, "description": description}, key=key))

    async def create_skill(
        self,
        session_id: str,
        description: str,
        *,
        name: str | None = None,
        capabilities: Sequence[str] | None = None,
        key: str | None = None,
    ) -> "CreatedSkill":
        """Make a skill of a description; the same request again gets the same result.

        Raises: NotFound when there is no such session; Invalid; Conflict when there is another skill of that name.
        """
        request = {"name": name, "description": description, "capabilities": capabilities}
        data = await self._post(_path(session_id, "create-skill"), {"skill_request": request}, key=key)
        made: CreatedSkill = data["result"]
        return made

    async def delete(self, session_id: str) -> None:
        """Remove the draft of a session.

        Raises: NotFound
        """
        await self._connection.data("DELETE", f"{_SESSIONS}{_path(session_id)}")

    async def drafts(self, *, limit: int = 50) -> "AsyncIterator[Draft]":
        """Give the sessions that are not finished, the newest change first."""
        async for draft in self._connection.each("/builder/drafts", limit=limit):
            yield cast("Draft", draft)

    async def choices(self, *, limit: int = 50) -> "AsyncIterator[PastChoice]":
        """Give what was chosen for bots, the newest first."""
        async for choice in self._connection.each("/builder/choices", limit=limit):
            yield cast("PastChoice", choice)

    async def remove_choice(self, choice_id: str) -> None:
        """Forget one choice.

        Raises: NotFound
        """
        await self._connection.data("DELETE", f"/builder/choices{_path(choice_id)}")

    async def clear_choices(self) -> int:
        """Forget all choices; return how many there were."""
        removed: int = (await self._connection.data("DELETE", "/builder/choices"))["removed"]
        return removed

    @asynccontextmanager
    async def chat(self, session_id: str) -> AsyncIterator[Chat]:
        """Talk about one session over a socket for the time of the block; a draft that is there is taken up.

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


def _path(*parts: str) -> str:
    return "".join(f"/{plain_step(part)}" for part in parts)
