"""The conversations of a server, as `perdure chat` uses conversations."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from perdure.app.goals.values import NoModel
from perdure.app.wire.goal_view import GoalView
from perdure.client import Client
from perdure.interfaces.cli.remote.received_goals import read_goal

if TYPE_CHECKING:
    from perdure.app.wire.resources import frames as wire
    from perdure.app.wire.resources.chat.conversations import Conversation
_ASSISTANT = "assistant"
_BUILT_IN = "builtin"
"""The model of a bot that leaves the choice to the default."""


class ServerConversations:
    """Implements `ChatPort` and `ChatGoals` over the client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def start(self, text: str, *, bot: str, model: str | None, policy: Mapping[str, Any] | None) -> str:
        """See ChatPort.start."""
        return (await self._client.conversations.start(text, bot=bot, model=model, policy=policy))["id"]

    async def say(self, goal_id: str, text: str) -> None:
        """See ChatPort.say."""
        await self._client.conversations.say(goal_id, text)

    async def stop(self, goal_id: str) -> None:
        """See ChatPort.stop."""
        await self._client.conversations.stop(goal_id)

    async def decide(
        self, goal_id: str, decision: str, call_id: str, value: Any = None, *, shown_sha256: str | None = None
    ) -> None:
        """See ChatPort.decide."""
        given = {"call_id": call_id, "value": value, "shown_sha256": shown_sha256}
        await self._client.goals.decide(goal_id, decision, **given)

    async def fork(
        self, goal_id: str, *, at: int | None = None, before_message: int | None = None, policy: str | None = None
    ) -> str:
        """See ChatPort.fork."""
        judged_by = None if policy is None else {"preset": policy}
        return (await self._client.conversations.fork(goal_id, at, before_message=before_message, policy=judged_by))[
            "id"
        ]

    async def resume(self, goal_id: str, model: str | None = None, *, compacts: bool = False) -> None:
        """See ChatPort.resume."""
        await self._client.goals.resume(goal_id, model=model, compact=compacts)

    async def frames(self, goal_id: str, after_seq: int) -> "AsyncGenerator[wire.GoalFrame, None]":
        """See ChatPort.frames."""
        async with aclosing(self._client.goals.frames(goal_id, after_seq=after_seq, deltas=True)) as frames:
            async for frame in frames:
                yield frame

    async def find(self, prefix: str) -> GoalView:
        """See ChatGoals.find."""
        return read_goal(await self._client.goals.get(prefix, prefix=True))

    async def model_of(self, bot: str, model: str | None) -> str:
        """See ChatGoals.model_of."""
        of_bot = None if bot == _ASSISTANT else (await self._client.bots.get(bot))["model_config"]["model"]
        if model is not None:
            return model
        if of_bot is not None and of_bot != _BUILT_IN:
            return of_bot
        default = next((each for each in await self._client.models.list() if each["source"] == "default"), None)
        if default is None:
            raise NoModel
        return default["name"]

    async def bots(self) -> Sequence[str]:
        """See ChatGoals.bots."""
        return [_ASSISTANT, *[bot["slug"] async for bot in self._client.bots.each()]]

    def conversations(self, bot: str) -> "AsyncGenerator[Conversation, None]":
        """See ChatGoals.conversations."""
        return self._client.conversations.each(bot)
