"""SmolLM2 in this process leads a turn of Forge, answers in a chat and works on a goal: only the form is checked."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app.goals.arguments.limits import Limits
from perdure.errors import GoalWaiting
from perdure.forge.answers import OptionIndex
from perdure.forge.interview.engine import BuiltinEngine
from perdure.forge.llm.agent import LlmBuilderAgent, ModelChoice
from perdure.forge.llm.proposal import read_proposal
from perdure.forge.state import InterviewContext
from perdure.forge.turns import AskQuestion
from perdure.minds.model.ports import ModelAnswer, ModelRequest, OnDelta, TextPart, TokenUsage
from perdure.minds.model.providers.client import ProviderClient
from tests.local_model.conftest import NAME

SESSION = "01890000-0000-7000-8000-000000000001"


class Recorded:
    """A client that keeps the answers of another one; see ModelClient."""

    def __init__(self, client: ProviderClient) -> None:
        self._client = client
        self.answers: list[ModelAnswer] = []

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ModelClient.answer."""
        self.answers.append(await self._client.answer(request, on_delta))
        return self.answers[-1]

    def context_window(self, model: str) -> int:
        """See ModelClient.context_window."""
        return self._client.context_window(model)

    def cost_usd(self, model: str, usage: TokenUsage) -> float | None:
        """See ModelClient.cost_usd."""
        return self._client.cost_usd(model, usage)

    async def close(self) -> None:
        """See ModelClient.close."""


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Perdure]:
    """A home with a bot whose answers have at most 48 tokens."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text(f"[models.'{NAME}']\ncontext_window = 4096\n")
    async with Perdure.open(folder) as p:
        session = await p.forge.start("A coding assistant for Python, call it Tiny", engine="builtin")
        while session.turn.action != "ready_to_assemble":
            session = await p.forge.answer(session.session_id, {"option_index": 0}, engine="builtin")
        config = session.turn.config.wire()
        config["model_config"] = {"model": NAME, "temperature": 0.0, "max_tokens": 48}
        await p.forge.assemble(session.session_id, config)
        yield p


async def turns(p: Perdure, goal_id: str) -> list[dict[str, Any]]:
    """Return the recorded answers of a goal."""
    return [event.content() for event in await p.goals.events(goal_id) if event.type == "model_turn"]


def require_form(turn: dict[str, Any]) -> None:
    assert turn["model"] == NAME
    assert turn["cost_usd"] == 0
    assert turn["usage"]["input"] > 0 < turn["usage"]["output"] <= 48
    assert {part["kind"] for part in turn["parts"]} <= {"text", "tool_call"}


async def test_a_chat_is_answered_and_waits_for_the_next_message(home: Perdure) -> None:
    with pytest.raises(GoalWaiting):
        await home.goals.options(bot="tiny", chat=True, limits=Limits(iterations=1)).run("Say hello.")
    [goal] = await home.goals.list()
    require_form((await turns(home, goal.id))[0])


async def test_a_goal_does_a_step(home: Perdure) -> None:
    with contextlib.suppress(GoalWaiting):  # a text ends the goal, a call waits for its approval or the limit
        await home.goals.options(bot="tiny", limits=Limits(iterations=1)).run("Say hello.")
    [goal] = await home.goals.list()
    require_form((await turns(home, goal.id))[0])


async def test_a_turn_of_forge_has_the_form_of_a_proposal(wide_client: ProviderClient) -> None:
    client = Recorded(wide_client)
    engine = LlmBuilderAgent(client, ModelChoice(NAME))
    state = await engine.start(SESSION, "A coding assistant for Python", InterviewContext())
    for answer in client.answers:
        (part,) = answer.parts
        assert isinstance(part, TextPart)
        assert answer.finish_reason in ("stop", "length")
        if answer.finish_reason == "stop":
            read_proposal(part.text)
    assert isinstance(state.pending_turn, AskQuestion)
    after = await BuiltinEngine().next_turn(state, _first(state.pending_turn))
    assert after.question_count == 1


def _first(turn: AskQuestion) -> "OptionIndex":
    return OptionIndex(option_index=len(turn.options) - 1)
