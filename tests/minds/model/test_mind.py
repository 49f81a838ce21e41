"""The mind of a bot: what is asked of a model, what is recorded of its answers, and what a kill repeats."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure.kernel.calls.toolbox import StaticTools
from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerFeed
from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.events import (
    Body,
    LimitReached,
    Limits,
    Message,
    MindSpec,
    ModelFailure,
    Prompt,
    ToolCall,
    ToolOutput,
    TranscriptSummary,
    decode,
)
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import Loop, RunResult
from perdure.minds.model.mind import ModelHost, ModelMind
from perdure.minds.model.ports import (
    ModelFailed,
    ModelParts,
    TextPart,
    TokenUsage,
    ToolCallPart,
    ToolResult,
    UserText,
)
from perdure.minds.model.prompt import Profile
from tests.kernel.world import FixedPolicy, World
from tests.minds.model.scripted import MODEL, Hold, Line, Script, ScriptedModel, calls, says

RUN = MindSpec("model", model=MODEL)
CHAT = MindSpec("model", model=MODEL, chat=True)
HELLO = Message("hello")
EXEC = ("exec", {"argv": ["a"]})


def mind(*script: Script, answers: AnswerFeed | None = None, **host: Any) -> tuple[ModelMind, ScriptedModel]:
    model = ScriptedModel(list(script))
    return ModelMind(ModelHost(model, **host), answers or AnswerFeed()), model


async def started(
    world: World,
    *script: Script,
    spec: MindSpec = RUN,
    said: Sequence[Body] = (),
    limits: Limits | None = None,
    **host: Any,
) -> tuple[RunResult, ScriptedModel]:
    made, model = mind(*script, **host)
    world.minds.append(made)
    return await asyncio.wait_for(world.start(spec, said=said, limits=limits), 10), model


async def resumed(world: World, *script: Script, **host: Any) -> tuple[RunResult, ScriptedModel]:
    made, model = mind(*script, **host)
    world.minds.append(made)
    return await asyncio.wait_for(world.resume(), 10), model


async def bodies(world: World) -> list[Body]:
    return [decode(event) for event in await world.store.load("goal-a")]


async def test_a_text_ends_a_run_with_its_value(world: World) -> None:
    ran, model = await started(world, says("hello", " you"))
    assert (ran.state.status, ran.state.termination and ran.state.termination.value) == ("done", "hello you")
    [request] = model.requests
    assert (request.model, request.messages) == (MODEL, [UserText("a")])
    assert {"exec", "ask", "done", "blocked"} <= {spec.name for spec in request.tools}
    assert [type(body).__name__ for body in await bodies(world)] == ["GoalBegun", "Prompt", "ModelTurn", "Termination"]


async def test_calls_are_recorded_with_their_turn_and_their_results_sent_back(world: World) -> None:
    ran, model = await started(world, calls(EXEC, EXEC, text="Two."), says("done"))
    assert ran.state.status == "done"
    assert [type(body).__name__ for body in await bodies(world)][2:6] == [
        "ModelTurn",
        "ToolCall",
        "Decision",
        "ToolCall",
    ]
    sent = model.requests[1].messages
    assert isinstance(sent[1], ModelParts)
    assert [part.call_id for part in sent[1].parts if isinstance(part, ToolCallPart)] == ["t1.1", "t1.2"]
    assert [(each.call_id, each.ok) for each in sent[2:] if isinstance(each, ToolResult)] == [
        ("t1.1", True),
        ("t1.2", True),
    ]
    first = ran.state.calls["t1.1"].call
    assert isinstance(first, ToolCall)
    assert (first.by, first.turn, first.effect) == ("model:assistant", 1, "once")


async def test_what_is_no_call_is_a_result_that_the_model_sees(world: World) -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    bad = calls(("exec", "{"), ("fly", {}), ("exec", {}), ("exec", deep), ("done", {}))
    ran, model = await started(world, bad, says("sorry"))
    assert ran.state.status == "done"
    results = [each for each in model.requests[1].messages if isinstance(each, ToolResult)]
    assert [each.ok for each in results] == [False] * 5
    assert "no tool 'fly'" in results[1].content
    assert not world.tool.effects
    recorded = next(body for body in await bodies(world) if isinstance(body, ModelTurn)).parts[3]
    assert isinstance(recorded, ToolCallPart)
    assert recorded.arguments is None


async def test_a_call_that_the_policy_asks_about_waits_for_a_person(world: World) -> None:
    world.policy = FixedPolicy("ask")
    ran, _ = await started(world, calls(EXEC))
    assert (ran.state.waiting_for, list(ran.state.open_calls)) == ("person", ["t1.1"])
    await world.store.post("goal-a", "decision", {"call_id": "t1.1", "decision": "deny", "value": "no"}, key="d")
    ran, model = await resumed(world, says("then not"))
    assert ran.state.status == "done"
    [result] = [each for each in model.requests[0].messages if isinstance(each, ToolResult)]
    assert (result.ok, "denied" in result.content, "no" in result.content) == (False, True, True)


async def test_a_chat_waits_and_continues_with_all_that_was_said(world: World) -> None:
    ran, _ = await started(world, says("hi"), spec=CHAT, said=[HELLO])
    assert (ran.state.waiting_for, ran.state.status) == ("message", "waiting")
    await world.store.post("goal-a", "message", {"text": "and?"}, key="m")
    ran, model = await resumed(world, says("so"))
    assert ran.state.waiting_for == "message"
    assert model.requests[0].messages == [UserText("hello"), ModelParts((TextPart("hi"),)), UserText("and?")]
    assert "done" not in {spec.name for spec in model.requests[0].tools}
    assert [type(body).__name__ for body in await bodies(world)] == [
        *("GoalBegun", "Message", "Prompt", "ModelTurn", "Message", "ModelTurn")
    ]


async def test_deltas_are_reported_and_a_stop_keeps_what_has_arrived(world: World) -> None:
    hold, answers, told = Hold(), AnswerFeed(), list[object]()
    answers.listen(told.append)
    made, _ = mind(Line(says("hello world"), middle=[hold]), answers=answers)
    loops: list[Loop] = []
    world.watch = loops.append
    world.minds.append(made)
    task = asyncio.create_task(world.start(CHAT, said=[HELLO]))
    await asyncio.wait_for(hold.reached.wait(), 5)
    assert answers.partial() == [AnswerDelta(1, 0, "text", "hello", 0)]
    await world.store.post("goal-a", "stop", {}, key="s")
    loops[0].check_inbox()
    ran = await asyncio.wait_for(task, 5)
    last = ran.state.conversation.last
    assert isinstance(last, ModelTurn)
    assert (last.parts, last.finish_reason, last.usage.estimated) == ((TextPart("hello"),), "interrupted", True)
    assert (ran.state.waiting_for, answers.partial(), told) == ("message", [], [AnswerDelta(1, 0, "text", "hello", 0)])


async def test_fruitless_answers_are_corrected_and_the_third_is_the_end(world: World) -> None:
    ran, model = await started(world, says(), says("cut", finish_reason="length"), says(finish_reason="refusal"))
    assert ran.state.termination is not None
    assert ran.state.termination.reason == "no_progress"
    assert [len([each for each in request.messages if isinstance(each, UserText)]) for request in model.requests] == [
        1,
        2,
        3,
    ]


async def test_a_model_that_fails_parks_the_goal_and_a_resume_asks_again(world: World) -> None:
    failed = ModelFailed("auth", "No key.", model=MODEL, provider="scripted", attempts=2, next="perdure model login x")
    ran, _ = await started(world, failed)
    assert ran.state.waiting_for == "model"
    assert ran.state.conversation.failure == ModelFailure(
        MODEL, "scripted", "auth", "No key.", 2, None, "perdure model login x"
    )
    ran, _ = await resumed(world, says("now"))
    assert ran.state.status == "done"


async def test_a_prompt_is_recorded_again_only_when_it_has_changed(world: World) -> None:
    async def other() -> Profile:
        return Profile("You are Ada.", {"temperature": 0.5})

    await started(world, says("hi"), spec=CHAT, said=[HELLO])
    await resumed(world)
    await resumed(world, profile=other)
    await resumed(world, profile=other, model="scripted:two")
    prompts = [body for body in await bodies(world) if isinstance(body, Prompt)]
    assert [(each.model, each.settings.get("temperature")) for each in prompts] == [
        *((MODEL, None), (MODEL, 0.5), ("scripted:two", 0.5))
    ]


async def test_related_records_come_before_the_first_request_alone(world: World) -> None:
    async def related(text: str) -> Sequence[Message]:
        assert text == "hello"
        return [Message("the cart caches prices", "context", "memory", ("r1",))]

    _, model = await started(world, says("hi"), spec=CHAT, said=[HELLO], related=related)
    text = model.requests[0].messages[1]
    assert isinstance(text, UserText)
    assert "the cart caches prices" in text.text
    assert "quoted as data" in text.text
    await resumed(world, related=related)
    assert len([body for body in await bodies(world) if isinstance(body, Message)]) == 2


async def test_a_long_result_is_cut_and_can_be_read(world: World) -> None:
    made, model = mind(calls(EXEC), calls(("read_result", {"call_id": "t1.1", "offset": 20_000})), says("read"))
    world.sources = [StaticTools("model", [made.read_result])]
    long = "x" * 50_000

    async def answer(context: Any) -> Any:
        return ToolOutput(context.call.call_id, output=long)

    world.tool.run = answer  # type: ignore[method-assign]
    world.minds.append(made)
    ran = await asyncio.wait_for(world.start(RUN), 10)
    assert ran.state.status == "done"
    cut, read = (each for each in model.requests[2].messages if isinstance(each, ToolResult))
    assert len(cut.content) < 33_500
    assert 'read_result {"call_id": "t1.1", "offset": 16384}' in cut.content
    assert '"next_offset":28000' in read.content
    assert (cut.ok, read.ok) == (True, True)


async def test_a_request_never_needs_more_tokens_than_are_left(world: World) -> None:
    ran, model = await started(world, says("hi"), limits=Limits(tokens=3_000))
    allowed = model.requests[0].settings.max_tokens
    assert allowed is not None
    assert 0 < allowed < 3_000
    assert ran.state.status == "done"


async def test_a_limit_that_is_too_low_for_the_next_request_parks_the_goal(world: World) -> None:
    for limits in (Limits(tokens=300), Limits(usd=0.001)):
        world.minds.clear()
        made, model = mind(says("hi"))
        world.minds.append(made)
        name = "tokens" if limits.tokens else "usd"
        ran = await world.start(RUN, f"goal-{name}", limits)
        assert (ran.state.waiting_for, ran.state.short_of, model.requests) == ("limit", name, [])
        assert any(isinstance(decode(each), LimitReached) for each in await world.store.load(f"goal-{name}"))


@pytest.mark.parametrize(("answer", "status"), [("continue", "done"), ("stop", "failed")])
async def test_an_unknown_price_is_asked_about_where_money_is_limited(world: World, answer: str, status: str) -> None:
    made, model = mind(says("hi"))
    model.usd_per_token = None
    world.minds.append(made)
    ran = await world.start(RUN, limits=Limits(usd=1.0))
    assert (ran.state.waiting_for, model.requests) == ("person", [])
    await world.store.post("goal-a", "decision", {"call_id": "price.1", "decision": "answer", "value": answer}, key="d")
    made, model = mind(says("hi"))
    model.usd_per_token = None
    world.minds.append(made)
    assert (await world.resume()).state.status == status


async def test_a_long_conversation_is_summarised_and_its_events_stay(world: World) -> None:
    made, model = mind(*(says(f"answer {number}", usage=TokenUsage(10, 5)) for number in range(6)))
    world.minds.append(made)
    await world.start(CHAT, said=[HELLO])
    for number in range(5):
        await world.store.post("goal-a", "message", {"text": f"question {number}"}, key=f"m{number}")
        again = ModelMind(ModelHost(model), AnswerFeed())
        world.minds.append(again)
        await world.resume()
    model.window = 10
    model.script = [says("They asked 0 to 1."), says("last")]
    await world.store.post("goal-a", "message", {"text": "more"}, key="more")
    world.minds.append(ModelMind(ModelHost(model), AnswerFeed()))
    ran = await asyncio.wait_for(world.resume(), 5)
    assert ran.state.waiting_for == "message"
    [summary] = [body for body in await bodies(world) if isinstance(body, TranscriptSummary)]
    assert "question 0" in str(model.requests[-2].messages)
    sent = str(model.requests[-1].messages)
    assert "They asked 0 to 1." in sent
    assert "question 0" not in sent
    assert sent.index("hello") < sent.index("They asked")
    assert "question 4" in sent
    assert summary.from_seq < summary.to_seq


async def compacted(world: World, model: ScriptedModel) -> GoalState:
    """Resume a conversation as a person does who wants its beginning to be summarised."""
    world.minds.append(ModelMind(ModelHost(model, compacts=True), AnswerFeed()))
    return (await asyncio.wait_for(world.resume(), 5)).state


async def talked(world: World, answers: int) -> ScriptedModel:
    """Begin a conversation in which each answer follows a message."""
    made, model = mind(*(says(f"answer {number}") for number in range(answers)))
    world.minds.append(made)
    await world.start(CHAT, said=[HELLO])
    for number in range(1, answers):
        await world.store.post("goal-a", "message", {"text": f"question {number}"}, key=f"m{number}")
        world.minds.append(ModelMind(ModelHost(model), AnswerFeed()))
        await world.resume()
    return model


async def test_a_conversation_is_summarised_when_a_person_asks_for_it_once(world: World) -> None:
    model = await talked(world, 6)
    model.script = [says("They asked 1.")]
    for _ in range(2):
        assert (await compacted(world, model)).waiting_for == "message"
    [summary] = [body for body in await bodies(world) if isinstance(body, TranscriptSummary)]
    assert summary.text == "They asked 1."
    assert len(model.requests) == 7, "the second time, nothing is left to summarise"


async def test_a_short_conversation_is_not_summarised(world: World) -> None:
    model = await talked(world, 4)
    assert (await compacted(world, model)).waiting_for == "message"
    assert len(model.requests) == 4


async def test_a_conversation_whose_summary_fails_continues_with_the_next_message(world: World) -> None:
    model = await talked(world, 6)
    model.script = [
        ModelFailed("auth", "No key.", model=MODEL, provider="scripted", attempts=2, next="perdure model login x")
    ]
    assert (await compacted(world, model)).waiting_for == "model"
    model.script = [says("Still here.")]
    await world.store.post("goal-a", "message", {"text": "Hello?"}, key="again")
    world.minds.append(ModelMind(ModelHost(model), AnswerFeed()))
    state = (await asyncio.wait_for(world.resume(), 5)).state
    assert state.waiting_for == "message"
    assert state.conversation.overview is not None
    assert state.conversation.overview.last_text == "Still here."


async def test_hostile_answers_are_bounded_and_stored_as_text(world: World) -> None:
    text = "<script>\x1b[2J\ud800" + "x" * 10_000_000
    ran, _ = await started(world, says(text), spec=CHAT, said=[HELLO])
    last = ran.state.conversation.last
    assert isinstance(last, ModelTurn)
    part = last.parts[0]
    assert isinstance(part, TextPart)
    assert part.text.startswith("<script>\x1b[2J\ufffdx")
    assert len(part.text.encode()) <= 1024 * 1024
    assert last.truncated


async def test_a_fork_sends_no_turn_whose_calls_are_all_void(world: World) -> None:
    world.policy = FixedPolicy("ask")
    ran, _ = await started(world, calls(EXEC, EXEC), spec=CHAT, said=[HELLO])
    await world.fork(ran.state.head.seq)
    made, model = mind(says("anew"))
    world.minds.append(made)
    forked = await world.resume("goal-f")
    assert model.requests[0].messages == [UserText("hello")]
    assert [each.turn for _, each in forked.state.conversation.entries if isinstance(each, ModelTurn)] == [1, 2]


async def test_a_recorded_answer_ends_the_run_of_a_fork_without_a_request(world: World) -> None:
    ran, _ = await started(world, says("hi"))
    await world.fork(ran.state.head.seq - 1)
    made, model = mind()
    world.minds.append(made)
    forked = await world.resume("goal-f")
    assert (forked.state.status, model.requests) == ("done", [])
    assert fold(await world.store.load("goal-f")).termination == ran.state.termination
