"""Conversations whose worker dies anywhere: nothing that is recorded is asked for again, lost or doubled."""

import asyncio
import os
import random
from contextlib import suppress

import pytest

from perdure import NotFound, failpoints
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.conversation.messages import Message, ModelTurn
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import MindSpec, ToolCall, ToolOutput, TranscriptSummary, decode
from perdure.kernel.fold import GoalState, fold
from perdure.minds.model.mind import ModelHost, ModelMind
from perdure.minds.model.ports import ModelAnswer, ModelParts, ModelRequest, OnDelta, ToolResult, UserText
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.minds.model.scripted import MODEL, ScriptedModel, calls, says

CHAT = MindSpec("model", model=MODEL, chat=True)
MESSAGES = [f"message {number}" for number in range(4)]
POINTS = ["kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after", "model"]
KILLS = int(os.environ.get("PERDURE_TORTURE") or 20)


class Speaker(ScriptedModel):
    """Answers by what it is sent, and notes for how many recorded turns each request was sent; it may die."""

    def __init__(self, dies_at: int) -> None:
        super().__init__(window=100_000)
        self._left = dies_at

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ModelClient.answer."""
        for place in range(3):  # before the request, in the middle of the stream, after the answer
            if place == 1:
                self.script = [_answer(request)]
                answer = await super().answer(request, on_delta)
            self._left -= 1
            if self._left == 0:
                raise Died
        return answer


def _answer(request: ModelRequest) -> ModelAnswer:
    if not request.tools:
        return says("They talked.")
    last = request.messages[-1]
    if isinstance(last, ToolResult):
        return says("done with that")
    assert isinstance(last, UserText)
    return calls(("exec", {"argv": ["a"]}), ("exec", {"argv": ["b"]}), text=f"for {last.text}")


def _require_one_result_each(request: ModelRequest) -> None:
    for number, message in enumerate(request.messages):
        if not isinstance(message, ModelParts):
            continue
        wanted = [part.call_id for part in message.parts if isinstance(part, ToolCallPart)]
        following = request.messages[number + 1 : number + 1 + len(wanted)]
        assert [each.call_id for each in following if isinstance(each, ToolResult)] == wanted


async def _life(world: World, speaker: Speaker, point: str, number: int) -> None:
    """Run the conversation as far as it goes, and die at a place."""
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1
        if hits == number:
            raise Died

    world.minds.clear()
    world.minds.append(ModelMind(ModelHost(speaker), AnswerFeed()))
    is_of_model = point == "model"
    armed = failpoints.armed(POINTS[0] if is_of_model else point, _pass if is_of_model else hit)
    with suppress(Died), armed:
        try:
            await world.store.find("goal-a")
        except NotFound:
            await world.start(CHAT, said=[Message(MESSAGES[0])])
            return
        await world.resume()


def _pass() -> None:
    """Die nowhere else."""


async def _state(world: World) -> GoalState | None:
    try:
        return fold(await world.store.load("goal-a"))
    except NotFound:
        return None


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(KILLS))
async def test_a_conversation_survives_random_kills(world: World, seed: int) -> None:
    chance = random.Random(seed)
    world.tool.checks = {f"t{turn}.{call}": "not_happened" for turn in range(1, 40) for call in (1, 2)}
    for _ in range(400):
        state = await _state(world)
        if state is not None and state.waiting_for == "message":
            said = [each.text for _, each in state.conversation.entries if isinstance(each, Message)]
            if len(said) == len(MESSAGES):
                break
            await world.store.post("goal-a", "message", {"text": MESSAGES[len(said)]}, key=f"m{len(said)}")
        turns = 0 if state is None else state.conversation.turns
        point = chance.choice(POINTS)
        speaker = Speaker(chance.randint(1, 9) if point == "model" else 0)
        await asyncio.wait_for(_life(world, speaker, point, chance.randint(1, 8)), 20)
        for request in speaker.requests:
            _require_one_result_each(request)
            known = sum(isinstance(each, ModelParts) for each in request.messages)
            assert known >= turns  # a turn that is recorded is sent, and not asked for again
    bodies = [decode(event) for event in await world.store.load("goal-a")]
    assert [body.text for body in bodies if isinstance(body, Message)] == MESSAGES
    turns_recorded = [body for body in bodies if isinstance(body, ModelTurn)]
    assert [body.turn for body in turns_recorded] == list(range(1, 2 * len(MESSAGES) + 1))
    wanted = [part.call_id for body in turns_recorded for part in body.parts if isinstance(part, ToolCallPart)]
    assert [body.call_id for body in bodies if isinstance(body, ToolCall)] == wanted
    assert [body.call_id for body in bodies if isinstance(body, ToolOutput)] == wanted
    assert not any(isinstance(body, TranscriptSummary) for body in bodies)
