"""The person beside random flows: answers, sends signals, and settles what is unknown by looking at the world."""

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import suppress

from perdure.kernel.events import Ask, ToolCall, Wait
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.call_state import CallState
from perdure.kernel.ports import Ended, GoalStore
from tests.faults.outside import Outside
from tests.faults.programs import MENDED, NEVER

Post = tuple[str, dict[str, object]]


def post_for(call: CallState, outside: Outside) -> Post | None:
    """Return what a person posts for an open call, its kind and payload; None when it has to wait."""
    name = call.call.call_id
    match call.call:
        case Wait(signal=str(signal)) if _is_answered(signal, outside):
            return "signal", {"name": signal, "payload": "went"}
        case Ask(question=question) if _is_answered(question, outside):
            return "decision", {"call_id": name, "decision": "answer", "value": "fine"}
        case ToolCall(arguments=arguments) if call.unknown is not None:
            place, *others = arguments["args"]
            if others and outside.by_place()[place] > 0:
                return "decision", {"call_id": name, "decision": "skip", "value": place}
            return "decision", {"call_id": name, "decision": "retry", "value": None}
        case _:
            return None


def _is_answered(text: str, outside: Outside) -> bool:
    """Return whether a question or a signal is answered now."""
    if text.startswith(MENDED):
        return outside.retries >= int(text.removeprefix(MENDED))
    return text != NEVER


def _is_urgent(call: CallState) -> bool:
    """Return whether the retry of a goal waits for an answer, which has to come before another deadline."""
    return (getattr(call.call, "question", None) or getattr(call.call, "signal", None) or "").startswith(MENDED)


class Person:
    """Does a moment later what a goal waits for; `look` has a goal look into its inbox."""

    def __init__(self, store: GoalStore, outside: Outside, chance: random.Random, look: Callable[[str], None]) -> None:
        self._store = store
        self._outside = outside
        self._chance = chance
        self._look = look
        self._posts = 0
        self._helping: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._has_news: set[tuple[str, str]] = set()
        """The calls that are open in states since what is stored was read for them."""

    def help(self, state: GoalState) -> None:
        """Begin to do what the open calls of a goal wait for."""
        for name, call in state.open_calls.items():
            key = state.goal_id, name
            self._has_news.add(key)
            if key not in self._helping and post_for(call, self._outside) is not None:
                delay_s = self._chance.choice([0.0, 0.01, 0.3, 1.0, 70.0])
                delay_s = min(delay_s, 1.0) if _is_urgent(call) else delay_s
                self._helping[key] = asyncio.create_task(self._help(*key, delay_s))

    def at_work(self) -> Collection["asyncio.Task[None]"]:
        """Return what the person is about to do."""
        return self._helping.values()

    async def leave(self) -> None:
        """Do nothing any more."""
        tasks = list(self._helping.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._helping.clear()

    async def _help(self, goal_id: str, name: str, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        post = await self._stored_post(goal_id, name)
        while post is None and (goal_id, name) in self._has_news:  # it was not stored yet when it was read
            post = await self._stored_post(goal_id, name)
        if post is not None:
            self._posts += 1
            with suppress(Ended):  # meanwhile
                await self._store.post(goal_id, post[0], post[1], key=f"{goal_id}/{name}/{self._posts}")
        self._helping.pop((goal_id, name), None)
        self._look(goal_id)

    async def _stored_post(self, goal_id: str, name: str) -> Post | None:
        """Return what to post for a call as it is stored; None when it is not open."""
        self._has_news.discard((goal_id, name))
        state = fold(await self._store.load(goal_id))
        found = state.open_calls.get(name)
        return None if found is None or state.termination is not None else post_for(found, self._outside)
