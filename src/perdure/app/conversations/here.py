"""Conversations that this process runs itself: each message is answered by a run in a task of its own."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.wire.frames import frame_of
from perdure.app.wire.goal_view import GoalView
from perdure.kernel.fold import ASSISTANT
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Owned
from perdure.tasks import end_tasks

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals
    from perdure.app.wire.resources import frames as wire
    from perdure.app.wire.resources.chat.conversations import Conversation

_ENDING_S = 5.0
_PAGE = 50
_OPTIONS = RunOptions(parks_for_person=True)


class ConversationsHere:
    """The conversations of a home, run by this process; see the port of the command line."""

    def __init__(self, goals: "Goals") -> None:
        self._goals = goals
        self._runs: set[asyncio.Task[RunResult]] = set()
        self._failure: BaseException | None = None
        """What ended the last run, if it was an error; the next look at the goal raises it."""

    async def start(self, text: str, *, bot: str, model: str | None, policy: Mapping[str, Any] | None) -> str:
        """Begin a conversation, and have it answered; return its id."""
        new = await self._goals.conversations.new(text, bot=bot, model=model, policy=policy)
        goal = await self._goals.enqueue(new, queue="cli")
        self._run(goal.id)
        return goal.id

    async def find(self, prefix: str) -> GoalView:
        """Return the goal with an id, or with the only one that begins so.

        Raises: NotFound; Conflict; what has ended the last run here.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return await self._goals.find(prefix)

    async def model_of(self, bot: str, model: str | None) -> str:
        """Return the model of a new conversation with a bot.

        Raises: NotFound when there is no such bot; Invalid; NoModel when none is configured.
        """
        return await self._goals.model_goals.model_of(None if bot == ASSISTANT else bot, model)

    async def bots(self) -> Sequence[str]:
        """Return the slugs of all bots, the built-in assistant first."""
        return [ASSISTANT, *await self._goals.model_goals.slugs()]

    async def conversations(self, bot: str) -> "AsyncGenerator[Conversation, None]":
        """Iterate over all conversations with a bot, the last used first; ended ones too.

        Raises: NotFound when there is no such bot.
        """
        after = None
        while True:
            found, after = await self._goals.conversations.list(bot, limit=_PAGE, after=after)
            for each in found:
                yield each.wire()
            if after is None:
                return

    async def say(self, goal_id: str, text: str) -> None:
        """Post a message, and have it answered."""
        await self._goals.conversations.say(goal_id, text)
        self._run(goal_id)

    async def stop(self, goal_id: str) -> None:
        """Stop the answer."""
        await self._goals.conversations.stop(goal_id)

    async def decide(
        self, goal_id: str, decision: str, call_id: str, value: Any = None, *, shown_sha256: str | None = None
    ) -> None:
        """Decide about a call, and continue."""
        given = {"call_id": call_id, "value": value, "shown_sha256": shown_sha256}
        await self._goals.decide(goal_id, decision, **given)
        self._run(goal_id)

    async def fork(
        self, goal_id: str, *, at: int | None = None, before_message: int | None = None, policy: str | None = None
    ) -> str:
        """Fork a conversation, and return the id of the fork."""
        judged_by = None if policy is None else {"preset": policy}
        return (await self._goals.conversations.fork(goal_id, at, before_message=before_message, policy=judged_by)).id

    async def resume(self, goal_id: str, model: str | None = None, *, compacts: bool = False) -> None:
        """Continue a conversation, with another model from now on if one is given; its beginning may be summarised."""
        named = None if model is None else self._goals.model_goals.named(model)
        self._run(goal_id, RunOptions(parks_for_person=True, model=named, compacts=compacts))

    async def frames(self, goal_id: str, after_seq: int) -> "AsyncGenerator[wire.GoalFrame, None]":
        """Yield the events of a conversation after a seq, and answers while they arrive."""
        async for page in self._goals.updates(goal_id, after_seq, with_answers=True):
            for update in page:
                yield cast("wire.GoalFrame", frame_of(update))

    def _run(self, goal_id: str, options: RunOptions = _OPTIONS) -> None:
        run = asyncio.create_task(self._resumed(goal_id, options))
        self._runs.add(run)
        run.add_done_callback(self._ended)

    async def _resumed(self, goal_id: str, options: RunOptions) -> RunResult:
        """Resume a goal; a run of this process that has not released it yet is waited for."""
        while True:
            try:
                return await self._goals.resume_run(goal_id, options)
            except Owned:
                if not self._goals.is_held_here(goal_id):
                    raise
                await self._goals.pause()

    def _ended(self, run: "asyncio.Task[RunResult]") -> None:
        self._runs.discard(run)
        self._failure = None if run.cancelled() else run.exception()

    async def close(self) -> None:
        """End what runs; what has arrived of an answer is kept."""
        with suppress(asyncio.CancelledError):
            await end_tasks(self._runs, _ENDING_S)
