"""The use cases of conversations: send messages, stop answers, fork, read transcripts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure.app.conversations.listed import ConversationPlace, ListedConversation, listed
from perdure.app.conversations.transcripts import entry_of
from perdure.app.goals.arguments import validate
from perdure.app.goals.new_goal import NewGoal
from perdure.app.goals.updates.forks import GoalForks, fork_request
from perdure.app.goals.updates.posts import Posts
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.runner import Runner
from perdure.errors import Conflict
from perdure.kernel.events import Limits, Message, content_of
from perdure.kernel.fold import ASSISTANT
from perdure.kernel.journal import ForkChanges
from perdure.kernel.ports import GoalStore
from perdure.tools.goal_policy import read_policy

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.wire.resources.chat.conversations import PostedMessage, TranscriptEntry

_PAGE = 200
_PAGE_BYTES = 4 << 20


class Conversations:
    """The conversations of a home."""

    def __init__(self, goals: "Goals", store: GoalStore, runner: Runner, posts: Posts) -> None:
        self._goals = goals
        self._store = store
        self._runner = runner
        self._posts = posts

    async def new(
        self,
        text: str,
        *,
        bot: str = ASSISTANT,
        model: str | None = None,
        limits: Limits | None = None,
        policy: str | Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> NewGoal:
        """Return a new conversation with a bot, by default the built-in assistant, to be started by a worker.

        Raises: NotFound when there is no such bot; Invalid; NoModel when no model is configured.
        """
        given, judged_by = validate.limits(limits), read_policy(policy)
        slug = None if bot == ASSISTANT else bot
        new = await self._goals.model_goals.new(text, bot=slug, model=model, chat=True, limits=given)
        return replace(new, key=validate.key(key), policy=judged_by)

    async def list(
        self, bot: str = ASSISTANT, *, limit: int = 50, after: ConversationPlace | None = None
    ) -> tuple[Sequence[ListedConversation], ConversationPlace | None]:
        """Return conversations with a bot, the last used first, and the place after which the next page begins.

        Ended conversations are listed too. No history is read.

        Raises: NotFound when there is no such bot, and there are no conversations with it.
        """
        slug, limit = None if bot == ASSISTANT else bot, validate.number("limit", limit, 1)
        place = None if after is None else (after.last_us, after.goal_id)
        found = await self._store.conversations(slug, limit=limit + 1, after=place)
        if not found and after is None and slug is not None:
            await self._goals.model_goals.require_bot(slug)
        rows = listed(await self._goals.views_of(found[:limit]))
        return rows, rows[-1].place if len(found) > limit else None

    async def say(self, goal_id: str, text: str, *, key: str | None = None) -> GoalView:
        """Post a message to a conversation, durably; this does not start a run of the goal. With a key, once.

        While the model answers, the message waits until that answer is recorded.

        Raises: NotFound; Invalid; Conflict when the goal is not a conversation, or has ended.
        """
        validate.require_message(text)
        return await self._post(goal_id, "message", content_of(Message(text)), key)

    async def posted(self, goal_id: str, key: str) -> "PostedMessage":
        """Return the state of the post with a key."""
        found = await self._store.posted_as(goal_id, key)
        seq = None if found is None else found.seq
        return {"seq": seq, "pending": found is not None and seq is None}

    async def stop(self, goal_id: str, *, key: str | None = None) -> GoalView:
        """Stop the answer of the model; the received part is kept. A waiting conversation is unchanged.

        Raises: NotFound; Conflict when the goal is not a conversation, or has ended.
        """
        return await self._post(goal_id, "stop", {}, key)

    async def fork(  # noqa: PLR0913 (each is an option of the fork)
        self,
        goal_id: str,
        at: int | None = None,
        *,
        before_message: int | None = None,
        text: str | None = None,
        model: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> GoalView:
        """Fork a conversation `at` an event, or before a message, and post a text to the fork. It does not run yet.

        `model` is the model of the fork. With a key, the same call makes one fork and posts once.

        Raises: NotFound; Invalid; Conflict when the goal is not a conversation, has no such event, has ended there, or
        a key was used.
        """
        if text is not None:
            validate.require_message(text)
        goal = await self.require(goal_id)
        request = fork_request(at, before_message=before_message)
        chosen = None if model is None else self._goals.model_goals.named(model)
        changes = ForkChanges(read_policy(policy), chosen)
        forks = GoalForks(self._store, self._runner, self._goals.views_of)
        fork = await forks.fork(goal.summary, request, take_key=False, key=validate.key(key), changes=changes)
        if text is None:
            return fork
        said = await self.say(fork.id, text, key=None if key is None else f"{fork.id}:text")
        return replace(said, is_news=fork.is_news)

    async def transcript(
        self, goal_id: str, *, after: int = 0, limit: int = _PAGE
    ) -> "tuple[Sequence[TranscriptEntry], int | None]":
        """Return the transcript after an event, and the event to continue after; None at the end.

        Raises: NotFound; Conflict when the goal has fewer events, or is not a goal of a model.
        """
        goal = await self._goals.get(goal_id)
        if goal.summary.mind != "model":
            raise Conflict(f"No model decides {goal.id}, so it has no transcript. GET /goals/{goal.id}/events has all.")
        found: list[TranscriptEntry] = []
        while True:
            page = await self._goals.events(goal.id, after=after, limit=_PAGE, max_bytes=_PAGE_BYTES)
            for event in page:
                entry = entry_of(event)
                if entry is not None and len(found) == limit:
                    return found, after
                after = event.seq
                if entry is not None:
                    found.append(entry)
            if not page or after >= goal.summary.last_seq:
                return found, None

    async def _post(self, goal_id: str, kind: str, payload: dict[str, Any], key: str | None) -> GoalView:
        await self.require(goal_id)
        goal = await self._posts.post(goal_id, kind, payload, key=validate.key(key))
        self._runner.process.check_inbox(goal.id)
        return goal

    async def require(self, goal_id: str) -> GoalView:
        """Return a goal after checking that it is a conversation.

        Raises: NotFound; Conflict when it is another goal.
        """
        goal = await self._goals.get(goal_id)
        if not (await self._goals.begun(goal.id)).mind.chat:
            raise Conflict(f"{goal.id} is not a conversation.")
        return goal
