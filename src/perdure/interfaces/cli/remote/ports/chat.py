"""What `perdure chat` needs of the conversations that it works with: those of a home, or of a server.

The two implementations are `ConversationsHere` of `perdure.app`, and `ServerConversations` over the client.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from perdure.app.wire.goal_view import GoalView
    from perdure.app.wire.resources import frames as wire
    from perdure.app.wire.resources.chat.conversations import Conversation


class ChatPort(Protocol):
    """Conversations: they are answered as soon as something is said, decided or resumed."""

    async def start(self, text: str, *, bot: str, model: str | None, policy: Mapping[str, Any] | None) -> str:
        """Begin a conversation; return its id.

        Raises: NotFound; Invalid; Unavailable when no model is configured.
        """
        ...

    async def say(self, goal_id: str, text: str) -> None:
        """Post a message.

        Raises: NotFound; Invalid; Conflict when the goal is not a conversation, or has ended.
        """
        ...

    async def stop(self, goal_id: str) -> None:
        """Stop the answer; what has arrived of it is kept."""
        ...

    async def decide(
        self, goal_id: str, decision: str, call_id: str, value: Any = None, *, shown_sha256: str | None = None
    ) -> None:
        """Decide about an open call; an approval names what was shown.

        Raises: Conflict when it takes no such decision, or another call was shown.
        """
        ...

    async def fork(
        self, goal_id: str, *, at: int | None = None, before_message: int | None = None, policy: str | None = None
    ) -> str:
        """Fork a conversation, with another policy if a preset is given; return the id of the fork.

        Raises: NotFound; Conflict when there is no such event.
        """
        ...

    async def resume(self, goal_id: str, model: str | None = None, *, compacts: bool = False) -> None:
        """Continue a conversation, with another model from now on if one is given.

        `compacts` summarises its beginning first.

        Raises: Invalid when it is not the name of a model.
        """
        ...

    def frames(self, goal_id: str, after_seq: int) -> "AsyncGenerator[wire.GoalFrame, None]":
        """Yield the events of a conversation after a seq, and answers while they arrive."""
        ...


class ChatGoals(Protocol):
    """The goals of conversations, as far as they are found."""

    async def find(self, prefix: str) -> "GoalView":
        """Return the goal with an id, or with the only one that begins so.

        Raises: NotFound; Conflict
        """
        ...

    async def model_of(self, bot: str, model: str | None) -> str:
        """Return the model of a new conversation with a bot.

        Raises: NotFound when there is no such bot; Invalid; Unavailable when no model is configured.
        """
        ...

    async def bots(self) -> Sequence[str]:
        """Return the slugs of all bots, the built-in assistant first."""
        ...

    def conversations(self, bot: str) -> "AsyncGenerator[Conversation, None]":
        """Iterate over all conversations with a bot, the last used first; ended ones too.

        Raises: NotFound when there is no such bot.
        """
        ...
