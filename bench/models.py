"""Goals for models beside the bare client, which asks a scripted server of another process on this machine.

Times are processor times of this process, because others use the machine too: the same requests are sent by the bare
client and by goals, in turn. Many chats at once, and what a resume of a long conversation costs, are counted.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import scratch
from bench.ours import Written
from bench.resumes import counted
from bench.table import Counted, Target, Timed
from perdure import DatabaseClient, Perdure
from perdure.app.change_feed.answers import PartialAnswer
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerFeed, AnswerReset
from perdure.kernel.conversation.messages import Message, ModelTurn
from perdure.kernel.conversation.parts import TextPart, TokenUsage
from perdure.kernel.events import Event, GoalBegun, Limits, MindSpec, decode
from perdure.kernel.fold import fold
from perdure.minds.model.mind import ModelHost, ModelMind
from perdure.minds.model.ports import Delta, ModelAnswer, ModelRequest, OnDelta

MODEL = "openai-compatible:bench@{url}"
_TURNS = 20
_CHATS = 64
_FEW, _MANY = 200, 2_000
_TEXT = "Good morning, Ada. This is an answer of some length. " * 4


def measure() -> list[Counted]:
    """Count many chats at once, and what a recorded turn costs in a resume."""
    return [_chats(), _resumes()]


def timed(repeats: int) -> list[Timed]:
    """Time turns and first tokens of goals, beside the same requests by the bare client."""
    slowly = {"text": "I look.", "between_s": 0.005}  # pieces that arrive together are read together
    turns = [{"calls": [{"name": f"none_{number}"}], **slowly} for number in range(_TURNS - 1)]
    with scratch() as home, _server(home, [*turns, slowly]) as url:
        bare, ours, first, ours_first = asyncio.run(_time(home, MODEL.format(url=url), repeats))
    return [
        Timed("turn of a model that is recorded, beside the bare call, on tmpfs", bare, ours, "ms", _within(2)),
        Timed("first token of a chat, message included, beside the bare call", first, ours_first, "ms", _within(5)),
    ]


def _within(milliseconds: float) -> Target:
    return Target("difference", "≤", milliseconds)


async def _time(home: Path, model: str, repeats: int) -> tuple[float, ...]:
    """Return milliseconds per turn of the bare client and of goals, and until the first token of each."""
    async with Perdure.open(home) as p:
        client, requests = p.models.client, list[ModelRequest]()
        ask = client.answer

        async def noted(request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
            requests.append(request)
            return await ask(request, on_delta)

        setattr(client, "answer", noted)  # noqa: B010 (mypy allows no other way)
        await _run(p, model)
        asked = [*requests]
        setattr(client, "answer", ask)  # noqa: B010 (same)
        found: list[tuple[float, ...]] = []
        for _ in range(repeats):
            bare = [await _bare(ask, request) for request in asked]
            begun = time.process_time()
            await _run(p, model)
            ours = (time.process_time() - begun) * 1e3 / len(asked)
            whole = sum(each for each, _ in bare) / len(bare)
            found.append((whole, ours, bare[0][1], await _first_tokens(p, model)))
    return tuple(median(column) for column in zip(*found, strict=True))


async def _run(p: Perdure, model: str) -> None:
    await p.goals.options(model=model, limits=Limits(iterations=10 * _TURNS)).run("Count.")


async def _bare(
    ask: Callable[[ModelRequest, OnDelta], Awaitable[ModelAnswer]], request: ModelRequest
) -> tuple[float, float]:
    """Ask the bare client; return the milliseconds until the answer, and until its first piece."""
    begun, firsts = time.process_time(), list[float]()
    await ask(request, lambda _delta: firsts.append(time.process_time()))
    return (time.process_time() - begun) * 1e3, (firsts[0] - begun) * 1e3


async def _first_tokens(p: Perdure, model: str) -> float:
    """Return the median of several conversations: the first one after a long goal finds nothing in the caches."""
    return median([await _first_token(p, model) for _ in range(5)])


async def _first_token(p: Perdure, model: str) -> float:
    """Return the milliseconds from the first message of a conversation to the first piece of its answer."""
    begun = time.process_time()
    goal_id = await _started(p, model, "Hello.")
    run = asyncio.create_task(p.goals.resume_run(goal_id, RunOptions(parks_for_person=True)))
    async for page in p.goals.updates(goal_id, with_answers=True):
        if any(isinstance(update, AnswerDelta | PartialAnswer) for update in page):
            break
    found = (time.process_time() - begun) * 1e3
    await p.goals.conversations.stop(goal_id)
    await run
    return found


async def _started(p: Perdure, model: str, text: str) -> str:
    new = await p.goals.conversations.new(text, model=model)
    return (await p.goals.enqueue(new, queue="cli")).id


def _chats() -> Counted:
    """Let many conversations be answered at once, each followed by a client; count the clients that got all."""
    with scratch() as home, _server(home, [{"text": _TEXT * 8, "between_s": 0.001}]) as url:
        whole = asyncio.run(_talk(home, MODEL.format(url=url)))
    what = f"of {_CHATS} chats at once in one process, clients whose pieces make up the recorded turn"
    return Counted(what, whole, Target("value", "=", _CHATS), f"answers of {len(_TEXT * 8):,} characters")


async def _talk(home: Path, model: str) -> int:
    async with Perdure.open(home) as p:
        return sum(await asyncio.gather(*(_client(p, model, number) for number in range(_CHATS))))


async def _client(p: Perdure, model: str, number: int) -> bool:
    """Follow a conversation from its start; return whether the pieces are the text of the recorded turn."""
    goal_id = await _started(p, model, f"Hello from {number}.")
    run = asyncio.create_task(p.goals.resume_run(goal_id, RunOptions(parks_for_person=True)))
    text = ""
    async for page in p.goals.updates(goal_id, with_answers=True):
        for update in page:
            match update:
                case PartialAnswer() | AnswerReset():
                    text = update.text if isinstance(update, PartialAnswer) else ""
                case AnswerDelta():
                    text += update.text
                case Event(type="model_turn"):
                    await run
                    turn = decode(update)
                    return isinstance(turn, ModelTurn) and turn.parts == (TextPart(text),)
                case _:
                    pass
    return False


def _resumes() -> Counted:
    """Count the instructions until a resumed conversation sends its next request, per recorded turn."""
    few, many = (_resume_count(turns) / turns for turns in (_FEW, _MANY))
    return Counted(
        f"instructions per turn of a resume of {_MANY:,} turns, beside one of {_FEW:,}",
        many / few,
        Target("ratio", "≤", 2),
        f"{many:,.0f} of Python's bytecode for each, beside {few:,.0f}, until the next request is made",
    )


def _resume_count(turns: int) -> int:
    with scratch() as home:
        asyncio.run(_write(home, turns))
        asyncio.run(_resume(home))
        return counted(_resume, home)


async def _write(home: Path, turns: int) -> None:
    async with await DatabaseClient.create(home / "perdure.db") as db:
        goal = Written.of(db.state_store(), "long")
        begun = GoalBegun("Long.", MindSpec("model", model="scripted:one", chat=True))
        await goal.append(goal.sealed(begun, Message("Hello 0.")), mind="model")
        for number in range(1, turns + 1):
            turn = ModelTurn(number, "scripted:one", "scripted", (TextPart(_TEXT),), usage=TokenUsage(100, 50))
            await goal.append(goal.sealed(turn, Message(f"Hello {number}.")), mind="model")


async def _resume(home: Path) -> None:
    async with await DatabaseClient.create(home / "perdure.db") as db:
        state = fold(await db.state_store().load("long"))
    mind = ModelMind(ModelHost(_Silent()), AnswerFeed())
    tools = Toolbox()
    for body in await mind.prepare(state, tools):
        state.conversation.take(body, state.head.seq + 1, state.updated_us)  # type: ignore[arg-type]
    proposal = await mind.decide(state, 0)
    if not proposal.events:
        raise RuntimeError("nothing was asked")


class _Silent:
    """Answers at once; see ModelClient."""

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        on_delta(Delta(0, "text", "Yes.", 0))
        return ModelAnswer((TextPart("Yes."),), "stop", TokenUsage(1, 1), 0.0, request.model, "scripted")

    def context_window(self, _model: str) -> int:
        return 10**9

    def cost_usd(self, _model: str, _usage: TokenUsage) -> float:
        return 0.0

    async def close(self) -> None:
        pass


@contextmanager
def _server(home: Path, answers: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Serve a script in a process of its own; equal requests get equal answers."""
    script = home / "script.json"
    script.write_text(json.dumps({"order": "turns", "answers": [*answers]}))
    command = [sys.executable, "-m", "perdure.testing.model_server", os.fspath(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()
