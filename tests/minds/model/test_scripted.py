"""The scripted model keeps the port that the clients of providers implement."""

import asyncio

import pytest

from perdure.minds.model.ports import (
    Delta,
    DeltaReset,
    ModelClient,
    ModelFailed,
    ModelRequest,
    OnDelta,
    TokenUsage,
    UserText,
)
from tests.minds.model.scripted import MODEL, Hold, Line, ScriptedModel, calls, says

REQUEST = ModelRequest(MODEL, "You are a test.", [UserText("hello")])


def noting(seen: list[Delta | DeltaReset]) -> OnDelta:
    return seen.append


async def test_the_text_arrives_in_pieces_before_the_answer() -> None:
    seen: list[Delta | DeltaReset] = []
    model: ModelClient = ScriptedModel([says("hello world")])
    answer = await model.answer(REQUEST, noting(seen))
    assert seen == [Delta(0, "text", "hello", 0), Delta(0, "text", " world", 5)]
    assert (answer.finish_reason, answer.usage.total) == ("stop", 15)


async def test_a_script_can_fail_or_look_at_the_request() -> None:
    failure = ModelFailed("auth", "The key was rejected.", model=MODEL, provider="scripted", next="perdure doctor")
    model = ScriptedModel([failure, lambda request: says(request.model), calls(("exec", {"argv": ["true"]}))])
    with pytest.raises(ModelFailed, match=r"The key was rejected\. Run `perdure doctor`\."):
        await model.answer(REQUEST, noting([]))
    assert (await model.answer(REQUEST, noting([]))).parts == says(MODEL).parts
    assert (await model.answer(REQUEST, noting([]))).finish_reason == "tool_calls"


async def test_a_model_says_how_much_fits_and_what_it_costs() -> None:
    model = ScriptedModel(window=500, usd_per_token=None)
    assert (model.context_window(MODEL), model.cost_usd(MODEL, TokenUsage(1, 1))) == (500, None)
    await model.close()
    assert model.is_closed


async def test_a_cancelled_request_closes_its_stream() -> None:
    hold, seen = Hold(), list[Delta | DeltaReset]()
    model = ScriptedModel([Line(says("hello world"), middle=[hold])])
    asked = asyncio.create_task(model.answer(REQUEST, noting(seen)))
    await hold.reached.wait()
    assert model.open_streams == 1
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert (model.open_streams, seen) == (0, [Delta(0, "text", "hello", 0)])
