"""Calls for conversations: start one, list them, send messages, stop an answer, fork it, read its transcript."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from perdure.client.connection import Connection
from perdure.client.sending import plain_step

if TYPE_CHECKING:
    from perdure.app.wire.resources.chat.conversations import Conversation, PostedMessage, TranscriptEntry
    from perdure.app.wire.resources.goals import Goal


class Conversations:
    """The conversations of a server; each is a goal, which `client.goals` shows, follows and cancels."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def start(
        self,
        text: str,
        *,
        bot: str = "assistant",
        model: str | None = None,
        limits: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> "Goal":
        """Start a conversation with a bot, by default the built-in assistant; with a key, once.

        Raises: NotFound when there is no such bot; Invalid; Unavailable, also when no model is configured.
        """
        given = {"text": text, "model": model, "limits": limits, "policy": policy}
        return cast("Goal", await self._post(f"/bots/{plain_step(bot)}/chat", given, key))

    async def each(self, bot: str = "assistant", *, limit: int = 50) -> "AsyncGenerator[Conversation, None]":
        """Iterate over the conversations with a bot, the last used first; a request fetches `limit` of them.

        Raises: NotFound when there is no such bot.
        """
        async for each in self._connection.each(f"/bots/{plain_step(bot)}/chat", limit=limit):
            yield cast("Conversation", each)

    async def say(self, goal_id: str, text: str, *, key: str | None = None) -> "PostedMessage":
        """Send a message, durably; the server runs the model. While the model answers, the message is pending.

        Raises: NotFound; Invalid; Conflict when the goal is not a conversation, or has ended.
        """
        return cast("PostedMessage", await self._post(f"/goals/{plain_step(goal_id)}/messages", {"text": text}, key))

    async def stop(self, goal_id: str, *, key: str | None = None) -> "PostedMessage":
        """Stop the answer of the model; the received part is kept.

        Raises: NotFound; Conflict when the goal is not a conversation, or has ended.
        """
        return cast("PostedMessage", await self._post(f"/goals/{plain_step(goal_id)}/stop", {}, key))

    async def fork(  # noqa: PLR0913 (each is an option of the fork)
        self,
        goal_id: str,
        at: int | None = None,
        *,
        before_message: int | None = None,
        text: str | None = None,
        model: str | None = None,
        policy: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> "Goal":
        """Fork a conversation `at` an event, or before a message; with `text`, the fork gets that message and runs.

        Raises: NotFound; Invalid; Conflict when it has no such event, or has ended there.
        """
        given = {"at": at, "before_message": before_message, "text": text, "model": model, "policy": policy}
        return cast("Goal", await self._post(f"/goals/{plain_step(goal_id)}/fork", given, key))

    async def transcript(self, goal_id: str, *, after_seq: int = 0) -> "AsyncIterator[TranscriptEntry]":
        """Iterate over the transcript after an event.

        Raises: NotFound; Conflict when the goal has no model.
        """
        path = f"/goals/{plain_step(goal_id)}/transcript"
        async for entry in self._connection.each(path, after_seq=after_seq):
            yield cast("TranscriptEntry", entry)

    async def _post(self, path: str, given: Mapping[str, Any], key: str | None) -> Any:
        body = {name: value for name, value in given.items() if value is not None}
        return await self._connection.data("POST", path, body, headers={"Idempotency-Key": key})
