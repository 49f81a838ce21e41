"""A server that is killed while it answers: no message, answer, call or record is lost, doubled or paid for twice."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Unavailable
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer
from tests.crash.conversations import IN_SUMMARY, STREAM, Kill, Talk, script
from tests.crash.size import torture_size
from tests.crash.test_server import connected, home, served
from tests.interfaces.cli.remote import until

__all__ = ["home"]

POINTS = ("kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after")
KILLS: dict[str, Kill] = {
    "in the middle of an answer with calls": (STREAM, 1),
    "before an answer is recorded": ("kernel.append.before", 2),
    "after an answer is recorded, before its calls": ("kernel.append.after", 2),
    "between two calls of an answer": ("kernel.effect.before", 2),
    "after a call, before its result is recorded": ("kernel.effect.after", 1),
}
KILLS_PER_MESSAGE = 2
"""How many random kills a conversation survives for each of its messages, roughly."""


@pytest.fixture
def models() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.mark.parametrize("kill", KILLS.values(), ids=KILLS)
async def test_a_client_that_reconnects_gets_one_answer(home: Path, models: ModelServer, kill: Kill) -> None:
    models.script = script(2)
    talk = Talk(home, models, 2)
    await talk.live(kill)
    assert talk.deaths == 1
    await talk.live(None)
    await talk.require_once_each()


async def test_a_kill_around_a_summary_repeats_at_most_that_one(home: Path, models: ModelServer) -> None:
    models.script = script(4, with_summaries=True)
    talk = Talk(home, models, 2)
    with (home / "config.toml").open("a") as settings:
        settings.write(f'[models."{talk.model}"]\ncontext_window = 1000\n')
    await talk.live(None)
    talk.messages, talk.is_done = 4, False
    await talk.live(IN_SUMMARY)
    kills: list[Kill | None] = [("kernel.append.after", 1)] * 6
    for kill in [*kills, None]:
        await talk.live(kill)
    assert talk.deaths == 7
    await talk.require_once_each()


@pytest.mark.torture
async def test_a_conversation_with_a_server_survives_random_kills(home: Path, models: ModelServer) -> None:
    kills, seed = torture_size(small=20), 20_261_119
    chance, messages = random.Random(seed), 2 + kills // KILLS_PER_MESSAGE
    models.script = script(messages)
    talk = Talk(home, models, messages)
    for _ in range(kills):
        point = chance.choice([*POINTS, STREAM, STREAM])
        await talk.live((point, chance.randint(1, 3)))
        if talk.is_done:
            break
    await talk.live(None)
    await talk.require_once_each()


async def test_a_killed_turn_of_an_interview_led_by_a_model_is_asked_once_more(home: Path, models: ModelServer) -> None:
    first, second = proposes("What will it do most?"), proposes("And what then?", hold_after=1)
    models.script = Script([first, second, second])
    with (home / "config.toml").open("a") as settings:
        settings.write(f'[model]\ndefault = "openai-compatible:m@{models.url}"\n')
    answer = {"answer": {"option_index": 0}}
    with served(home) as (server, url):
        async with connected(home, url) as client:
            body = {"description": "A coding assistant for my team", "engine": "model"}
            session: Any = await client.request("POST", "/builder/sessions", body)
            here = f"/builder/sessions/{session['session_id']}"
            before: Any = await client.request("GET", here)
            with pytest.raises(Unavailable):
                await _killed_while(client, models, server, f"{here}/answer", answer)
    models.release()
    with served(home) as (_, url):
        async with connected(home, url) as client:
            found: Any = await client.request("GET", here)
            assert found["turn"]["question"] == "What will it do most?"
            assert found == before
            led: Any = await client.request("POST", f"{here}/answer", answer, headers={"Idempotency-Key": "once"})
            again: Any = await client.request("POST", f"{here}/answer", answer, headers={"Idempotency-Key": "once"})
    assert again == led
    assert led["turn"]["question"] != session["turn"]["question"]
    assert [each.outcome for each in models.requests] == ["answered", "hung_up", "answered"]


def proposes(question: str, **fields: Any) -> ScriptedAnswer:
    option = {"id": None, "label": "Review pull requests", "description": "it fits"}
    data = {"stated": [], "slot": "coding.task", "question": question, "options": [option]}
    return ScriptedAnswer(data={**data, "suggested": None, "reason": ""}, **fields)


async def _killed_while(client: Any, models: ModelServer, server: Any, path: str, body: Any) -> None:
    """Send an answer, and kill the server when the model is asked for the next question."""

    async def kill() -> None:
        await asyncio.to_thread(until, lambda: len(models.requests) == 2)
        server.process.kill()

    killing = asyncio.create_task(kill())
    try:
        await client.request("POST", path, body, headers={"Idempotency-Key": "once"})
    finally:
        await killing
