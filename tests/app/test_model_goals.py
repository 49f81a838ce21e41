"""Goals for models in a home: with a bot, over HTTP, answered, stopped short, resumed and forked."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Conflict, GoalWaiting, Invalid, NotFound, Perdure
from perdure.kernel.conversation.messages import Message, ModelTurn, Prompt
from perdure.kernel.events import decode
from perdure.testing.model_server import ModelServer
from perdure.testing.model_server.answers import ScriptedAnswer, ScriptedCall
from tests.app.test_skills import built

MODEL = "openai:gpt-5.4-mini"


@pytest.fixture
async def p(model_server: ModelServer, tmp_path: Path) -> AsyncIterator[Perdure]:  # noqa: ARG001 (its address is in the environment)
    async with Perdure.open(tmp_path / "home") as p:
        yield p


def answers(model_server: ModelServer, *given: ScriptedAnswer) -> None:
    model_server.script.add(*given)


async def test_a_text_for_a_model_is_a_goal_with_the_answer_as_its_value(p: Perdure, model_server: ModelServer) -> None:
    answers(model_server, ScriptedAnswer("Hello there."))
    result = await p.goals.options(model=MODEL).run("Say hello.")
    assert (result.status, result.value) == ("done", "Hello there.")
    begun = (await p.goals.state(result.id)).begun
    assert (begun.mind.model, begun.bot, begun.limits.iterations) == (MODEL, None, 50)


async def test_a_bot_answers_as_its_files_say_and_loads_a_skill(p: Perdure, model_server: ModelServer) -> None:
    session = await p.forge.start('a coding assistant called "Ada" that reviews Python')
    bot = await built(p, session.session_id)
    skills = [skill.name for skill in (await p.bots.get(bot.bot_slug)).skills]
    answers(
        model_server, ScriptedAnswer(calls=(ScriptedCall("load_skill", {"name": skills[0]}),)), ScriptedAnswer("Done.")
    )
    handle = await p.goals.options(bot=bot.bot_slug, model=MODEL).start("Review it.")
    result = await handle.result()
    assert result.value == "Done."
    state = await p.goals.state(result.id)
    prompt = state.conversation.prompt
    assert isinstance(prompt, Prompt)
    assert "Ada" in prompt.system
    assert f"- {skills[0]}:" in prompt.system
    assert (state.begun.bot, state.begun.bot_version) == (bot.bot_slug, 1)
    outcome = state.calls["t1.1"].outcome
    assert outcome is not None
    assert outcome.ok
    assert {tool["source"] for tool in prompt.tools} == {"kernel", "perdure", "model", "memory"}


async def test_a_model_s_exec_asks_a_person_whatever_is_approved_in_advance(
    p: Perdure, model_server: ModelServer
) -> None:
    answers(model_server, ScriptedAnswer(calls=(ScriptedCall("exec", {"argv": ["true"]}),)), ScriptedAnswer("It ran."))
    policy = {"yes": True, "rules": [{"tool": "exec", "verdict": "allow"}]}
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(model=MODEL, policy=policy).run("Run it.")
    assert waiting.value.waiting_for == "person"
    await p.goals.decide(waiting.value.id, "approve")
    result = await p.goals.resume(waiting.value.id)
    assert result.value == "It ran."


async def test_a_conversation_continues_and_forks_before_a_message(p: Perdure, model_server: ModelServer) -> None:
    answers(model_server, ScriptedAnswer("First."), ScriptedAnswer("Second."))
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(model=MODEL, chat=True).run("One?")
    goal_id = waiting.value.id
    assert waiting.value.waiting_for == "message"
    await p.goals.conversations.say(goal_id, "Two?", key="two")
    again = await p.goals.conversations.say(goal_id, "Two?", key="two")
    assert not again.is_news
    with pytest.raises(GoalWaiting):
        await p.goals.resume(goal_id)
    events = await p.goals.history(goal_id)
    said = [(event.seq, decode(event)) for event in events if event.type in ("message", "model_turn")]
    assert [type(body) for _, body in said] == [Message, ModelTurn, Message, ModelTurn]
    fork = await p.goals.fork(goal_id, before_message=said[2][0])
    await p.goals.conversations.say(fork.id, "Or two?")
    with pytest.raises(GoalWaiting):
        await p.goals.resume(fork.id)
    kept = [decode(event) for event in await p.goals.history(fork.id)]
    assert [body.text for body in kept if isinstance(body, Message)] == ["One?", "Or two?"]


async def test_a_model_that_refuses_the_key_parks_the_goal_and_a_resume_asks_again(
    p: Perdure, model_server: ModelServer
) -> None:
    answers(model_server, ScriptedAnswer(status=401, message="The key is wrong."), ScriptedAnswer("Hello."))
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(model=MODEL).run("Say hello.")
    assert (waiting.value.waiting_for, waiting.value.exit_code) == ("model", 8)
    assert "perdure model login" in str(waiting.value)
    assert (await p.goals.resume(waiting.value.id)).value == "Hello."


async def test_what_cannot_be_a_goal_for_a_model_is_refused(p: Perdure) -> None:
    for text in ("", "  ", "x" * 100_001, "\ud800"):
        with pytest.raises(Invalid):
            await p.goals.options(model=MODEL).run(text)
    with pytest.raises(NotFound):
        await p.goals.options(bot="nobody-here", model=MODEL).run("Hello.")
    with pytest.raises(Invalid):
        await p.goals.options(model=MODEL).run(Path("plan.yaml"))


async def test_only_a_conversation_takes_messages(p: Perdure, model_server: ModelServer) -> None:
    answers(model_server, ScriptedAnswer("Hello."))
    result = await p.goals.options(model=MODEL).run("Say hello.")
    for post in (p.goals.conversations.say(result.id, "And?"), p.goals.conversations.stop(result.id)):
        with pytest.raises(Conflict, match="is not a conversation"):
            await post
