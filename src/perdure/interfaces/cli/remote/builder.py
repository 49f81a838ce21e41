"""Implements the ports for interviews, drafts and choices over the client."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from perdure.app.builder.sessions import SessionView, require_whole_session_id
from perdure.app.builder.values import AssemblyResult, Changes
from perdure.client.builder import Builder
from perdure.interfaces.cli.remote.connection import first
from perdure.interfaces.cli.remote.received import Received, read_as, read_session

if TYPE_CHECKING:
    from perdure.app.builder.vocabulary import EngineName
    from perdure.app.wire.resources import builder as wire

_PAGE = 500


class ServerBuilder:
    """Implements `Interviews`, `Drafts` and `Choices` over the client.

    Each writing call has its own idempotency key, so that the client can repeat it after a lost response.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    async def start(self, description: str, *, engine: str | None = None) -> SessionView:
        """See Interviews.start."""
        begun = await self._builder.start(description, engine=_engine(engine), key=uuid4().hex)
        return await self.get(begun["session_id"])

    async def reconfigure(self, bot_slug: str, *, description: str = "", engine: str | None = None) -> SessionView:
        """See Interviews.reconfigure."""
        begun = await self._builder.reconfigure(
            bot_slug, description=description, engine=_engine(engine), key=uuid4().hex
        )
        return await self.get(begun["session_id"])

    async def get(self, session_id: str) -> SessionView:
        """See Interviews.get."""
        return read_session(await self._builder.get(session_id))

    async def answer(
        self, session_id: str, wire_answer: Any, expected_revision: int | None = None, *, engine: str | None = None
    ) -> SessionView:
        """See Interviews.answer; the session is read again, because the response has only the next turn."""
        await self._builder.answer(
            session_id, wire_answer, revision=expected_revision, engine=_engine(engine), key=uuid4().hex
        )
        return await self.get(session_id)

    async def changes(self, session_id: str) -> Changes:
        """See Interviews.changes."""
        found = await self._builder.changes(session_id)
        return Changes(found["diffs"], tuple(found["clashes"]))

    async def assemble(self, session_id: str) -> AssemblyResult:
        """See Interviews.assemble."""
        return read_as(AssemblyResult, await self._builder.assemble(session_id, key=uuid4().hex))

    async def delete(self, session_id: str) -> None:
        """See Interviews.delete."""
        await self._builder.delete(session_id)

    async def drafts(self, limit: int = 50) -> "Sequence[Received[wire.Draft]]":
        """See Drafts.drafts."""
        return [Received(draft) for draft in await first(limit, self._builder.drafts(limit=min(limit, _PAGE)))]

    async def find(self, prefix: str) -> str:
        """See Drafts.find."""
        return (await self._builder.get(prefix, prefix=True))["session_id"]

    async def require_whole_id(self, given: str) -> str:
        """See Drafts.require_whole_id."""
        return await require_whole_session_id(given, self.find)

    async def resume(self, session_id: str) -> SessionView:
        """See Drafts.resume."""
        return read_session(await self._builder.resume(session_id))

    async def choices(self, limit: int = 50) -> "Sequence[Received[wire.PastChoice]]":
        """See Choices.choices."""
        return [Received(choice) for choice in await first(limit, self._builder.choices(limit=min(limit, _PAGE)))]

    async def remove_choice(self, choice_id: str) -> None:
        """See Choices.remove_choice."""
        await self._builder.remove_choice(choice_id)

    async def clear_choices(self) -> int:
        """See Choices.clear_choices."""
        return await self._builder.clear_choices()


def _engine(wanted: str | None) -> "EngineName | None":
    """Return the engine as the client takes it; the server rejects an unknown one."""
    return cast("EngineName | None", wanted)
