"""What a person says to the model of a goal, and how its answer is stopped."""

from collections.abc import Awaitable, Callable

from perdure.app.goals.arguments import validate
from perdure.app.goals.updates.posts import Posts
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict
from perdure.kernel.events import GoalBegun, Message, content_of


class Conversations:
    """The conversations of a home; `begun` reads how a goal began."""

    def __init__(self, posts: Posts, begun: Callable[[str], Awaitable[GoalBegun]]) -> None:
        self._posts = posts
        self._begun = begun

    async def say(self, goal_id: str, text: str, *, key: str | None = None) -> GoalView:
        """Post a message to a conversation, durably; it does not start a run of the goal. A key posts it once.

        While the model answers, the message waits until that answer is recorded.

        Raises: NotFound; Invalid; Conflict when the goal is not a conversation, or has ended.
        """
        validate.message(text)
        await self._require_chat(goal_id)
        return await self._posts.post(goal_id, "message", content_of(Message(text)), key=validate.key(key))

    async def stop(self, goal_id: str, *, key: str | None = None) -> GoalView:
        """End the answer of the model; what has arrived of it is kept. A conversation that waits is left alone.

        Raises: NotFound; Conflict when the goal is not a conversation, or has ended.
        """
        await self._require_chat(goal_id)
        return await self._posts.post(goal_id, "stop", {}, key=validate.key(key))

    async def _require_chat(self, goal_id: str) -> None:
        if not (await self._begun(goal_id)).mind.chat:
            raise Conflict(f"{goal_id} is not a conversation.")
