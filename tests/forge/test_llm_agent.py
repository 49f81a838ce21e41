"""The interview that a model leads: its proposals become turns, and what cannot be used never becomes one."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from perdure.errors import Invalid, Unavailable
from perdure.forge.answers import Back, FreeText, OptionIndex, OptionIndexes
from perdure.forge.interview.engine import BuiltinEngine
from perdure.forge.interview.finish import complete_config
from perdure.forge.llm.agent import LlmBuilderAgent, ModelChoice
from perdure.forge.llm.proposal import open_slots, schema_of
from perdure.forge.state import BuilderState, InterviewContext, read_state
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble
from perdure.forge.vocabulary import BuilderPhase
from perdure.minds.model.ports import ModelFailed, ModelParts, UserText
from tests.minds.model.scripted import MODEL, Script, ScriptedModel, says

SESSION = "01890000-0000-7000-8000-000000000001"
CONTEXT = InterviewContext(models=("openai:gpt-4.1-mini",), skills=(("summarize", "Shortens texts."),))
WISH = "A coding assistant for my team, call it Newton"


def proposal(slot: str, question: str = "How?", *options: Any, **fields: Any) -> Any:
    """Return the answer of a model that proposes a question; an option is an id, or (label, reason)."""
    written = [
        {"id": each, "label": "", "description": "it fits"}
        if isinstance(each, str)
        else {"id": None, "label": each[0], "description": each[1]}
        for each in options
    ]
    return says(
        json.dumps(
            {"stated": [], "slot": slot, "question": question, "options": written, "suggested": None, "reason": ""}
            | fields
        )
    )


def agent(*script: Script) -> tuple[LlmBuilderAgent, ScriptedModel]:
    model = ScriptedModel([*script])
    return LlmBuilderAgent(model, ModelChoice(MODEL, ("scripted:two",))), model


async def started(*script: Script, wish: str = WISH) -> tuple[BuilderState, LlmBuilderAgent, ScriptedModel]:
    engine, model = agent(*script)
    return await engine.start(SESSION, wish, CONTEXT), engine, model


def asked(state: BuilderState) -> AskQuestion:
    assert isinstance(state.pending_turn, AskQuestion)
    return state.pending_turn


def told(model: ScriptedModel, number: int = -1) -> Mapping[str, Any]:
    message = model.requests[number].messages[0]
    assert isinstance(message, UserText)
    facts: dict[str, Any] = json.loads(message.text)
    return facts


async def test_a_question_has_the_words_and_the_options_of_the_model() -> None:
    state, _, _ = await started(
        proposal(
            "coding.task", "What will Newton do most, for your team?", ("Review pull requests", "you have a team"),
            suggested=0, reason="teams review",
        )
    )  # fmt: skip
    turn = asked(state)
    assert (turn.question, turn.engine, turn.note) == ("What will Newton do most, for your team?", "model", "")
    assert [(each.label, each.description) for each in turn.options] == [("Review pull requests", "you have a team")]
    assert turn.suggestion is not None
    assert turn.suggestion.option_id == turn.options[0].id
    assert turn.preview is not None


async def test_a_worded_option_says_what_a_person_would_have_typed() -> None:
    question = proposal("coding.task", "What?", ("Review pull requests", "you have a team"))
    state, engine, _ = await started(question, proposal("tone", "How?", "friendly"))
    chosen = await engine.next_turn(state, OptionIndex(option_index=0))
    typed = await BuiltinEngine().next_turn(state, FreeText(free_text="Review pull requests"))
    assert chosen.config == typed.config
    assert chosen.conversation[0].answer == "Review pull requests"


async def test_the_built_in_engine_answers_a_question_of_a_model() -> None:
    state, _, _ = await started(proposal("coding.task", "What?", ("Review pull requests", "you have a team")))
    again = read_state(state.text())
    after = await BuiltinEngine().next_turn(again, OptionIndex(option_index=0))
    assert after.question_count == 1
    assert "Review pull requests" in complete_config(after).personality.purpose


async def test_a_built_in_option_keeps_its_label_and_gets_the_reason_of_the_model() -> None:
    state, engine, _ = await started(proposal("tone", "x"), proposal("tone", "How?", "friendly"))
    state = await engine.next_turn(state, OptionIndex(option_index=0))
    while asked(state).phase is BuilderPhase.BASICS:
        state = await BuiltinEngine().next_turn(state, OptionIndex(option_index=0))
    engine, _ = agent(proposal("tone", "How?", "friendly"))
    led = await engine._lead(state)
    [option] = asked(led).options
    assert (option.id, option.label, option.description) == ("friendly", "Friendly", "it fits")


async def test_what_the_person_has_stated_is_set_and_not_asked() -> None:
    stated = [{"slot": "tone", "value": "friendly"}]
    state, _, _ = await started(proposal("coding.task", stated=stated))
    assert state.config.tone == "friendly"
    assert "tone" not in [slot.name for slot in open_slots(state)]
    while asked(state).phase is BuilderPhase.BASICS:
        state = await BuiltinEngine().next_turn(state, OptionIndex(option_index=0))
    assert state.pending_slot != "tone"


async def test_going_back_forgets_what_was_stated_in_the_phases_left() -> None:
    state, _, _ = await started(proposal("coding.task", stated=[{"slot": "tone", "value": "friendly"}]))
    state = await BuiltinEngine().next_turn(state, OptionIndex(option_index=0))
    engine, _ = agent(proposal("coding.task"))
    back = await engine.next_turn(state, Back(back=BuilderPhase.BASICS))
    assert back.config.tone is None
    assert back.stated == ()


async def test_the_model_is_shown_what_is_known_and_what_is_open() -> None:
    _, _, model = await started(proposal("coding.task"))
    facts = told(model)
    assert facts["description"] == WISH
    assert facts["known"]["name"] == "Newton"
    assert "coding.task" in [each["slot"] for each in facts["open_questions"]]
    assert "model" not in [each["slot"] for each in facts["open_questions"]]
    request = model.requests[0]
    assert request.fallbacks == ("scripted:two",)
    assert request.output_schema is not None


def test_every_object_of_the_schema_forbids_other_keys_and_requires_its_own() -> None:
    def objects(schema: Any) -> list[Any]:
        if isinstance(schema, list):
            return [found for each in schema for found in objects(each)]
        if not isinstance(schema, dict):
            return []
        own = [schema] if schema.get("type") == "object" else []
        return own + [found for each in schema.values() for found in objects(each)]

    state = BuilderState(session_id=SESSION, mode="bot", initial_description=WISH)  # type: ignore[arg-type]
    found = objects(schema_of(state))
    assert len(found) == 3
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == [*each["properties"]]


async def test_which_model_answers_is_asked_without_a_model() -> None:
    state, engine, model = await started(*[proposal("x")] * 40)
    while state.pending_slot != "model":
        answered = len(model.requests)
        state = await engine.next_turn(state, OptionIndex(option_index=0))
    assert len(model.requests) == answered
    assert asked(state).engine == "builtin"
    assert asked(state).options[0].label == "openai:gpt-4.1-mini"


async def test_a_vague_wish_is_asked_about_once() -> None:
    clarify = proposal("clarify", "What shall it help you with, and for whom?")
    state, engine, _ = await started(clarify, proposal("purpose", "What is it for?", "coding"), wish="something nice")
    assert state.pending_turn == Clarify(message="What shall it help you with, and for whom?", engine="model")
    after = await engine.next_turn(state, FreeText(free_text="it writes my unit tests"))
    assert isinstance(after.pending_turn, AskQuestion)
    assert after.description == "something nice\nit writes my unit tests"


async def test_a_model_may_understand_what_the_built_in_engine_finds_vague() -> None:
    state, _, _ = await started(proposal("purpose", "What for?", "household", "health"), wish="Kind words")
    assert asked(state).question == "What for?"


UNUSABLE = [
    "no JSON",
    "{}",
    '{"stated":[],"slot":"coding.task","question":"\\u001b[31mred","options":[],"suggested":null,"reason":""}',
    json.dumps({"stated": [], "slot": "coding.task", "question": " ", "options": [], "suggested": None, "reason": ""}),
    '{"a":' * 5000,
    "x" * 200_000,
    "\ud800",
]


@pytest.mark.parametrize("unusable", UNUSABLE, ids=range(len(UNUSABLE)))
async def test_an_unusable_proposal_is_corrected_once(unusable: str) -> None:
    state, _, model = await started(says(unusable), proposal("coding.task", "What will it do?", ("Review", "why not")))
    assert asked(state).question == "What will it do?"
    second = model.requests[1].messages
    assert isinstance(second[1], ModelParts)
    assert isinstance(second[2], UserText)
    assert "cannot be used" in second[2].text
    assert sum(len(str(each)) for each in second) < 60_000
    json.dumps([str(each) for each in second]).encode()


@pytest.mark.parametrize("unusable", UNUSABLE, ids=range(len(UNUSABLE)))
async def test_after_one_correction_the_built_in_engine_takes_the_turn_and_says_so(unusable: str) -> None:
    state, _, model = await started(says(unusable), says(unusable))
    plain = await BuiltinEngine().start(SESSION, WISH, CONTEXT)
    turn = asked(state)
    assert (turn.engine, bool(turn.note)) == ("builtin", True)
    assert turn.model_copy(update={"note": ""}) == plain.pending_turn
    assert len(model.requests) == 2
    assert state.engine == "model"


async def test_an_option_that_no_answer_could_set_is_corrected() -> None:
    wrong = proposal("skills", "Which?", ("flying", "why not"))
    state, engine, model = await started(*[proposal("x")] * 40)
    while state.pending_slot != "model":
        state = await engine.next_turn(state, OptionIndex(option_index=0))
    model.script[:] = [wrong, proposal("skills", "Which skills?", "none")]
    state = await engine.next_turn(state, OptionIndex(option_index=0))
    assert asked(state).question == "Which skills?"
    assert "is not one of" in str(model.requests[-1].messages[-1])


async def test_a_stated_value_that_does_not_fit_is_corrected() -> None:
    wrong = proposal("coding.task", stated=[{"slot": "name", "value": "x" * 400}])
    state, _, model = await started(wrong, proposal("coding.task", "What?"), wish="A coding assistant for python")
    assert asked(state).question == "What?"
    assert "stated.name" in str(model.requests[-1].messages[-1])


async def test_a_question_of_a_later_phase_gives_way_to_the_present_one() -> None:
    state, _, _ = await started(proposal("skills", "Which?", "none"))
    assert state.phase is BuilderPhase.BASICS
    assert asked(state).engine == "builtin"


async def test_a_model_that_does_not_answer_changes_nothing() -> None:
    state, engine, model = await started(proposal("coding.task", "What?", ("Review", "r")))
    failure = ModelFailed("unreachable", "It is not there.", model=MODEL, provider="scripted")
    model.script[:] = [failure, proposal("coding.style", "How?")]
    before = state.text()
    with pytest.raises(Unavailable, match="`builtin` asks without a model"):
        await engine.next_turn(state, OptionIndex(option_index=0))
    assert state.text() == before
    assert (await engine.next_turn(state, OptionIndex(option_index=0))).question_count == 1


async def test_an_answer_that_does_not_fit_costs_no_request() -> None:
    state, engine, model = await started(proposal("coding.task", "What?", ("Review", "r")))
    with pytest.raises(Invalid, match="no option 7"):
        await engine.next_turn(state, OptionIndex(option_index=7))
    assert len(model.requests) == 1


async def test_undecided_takes_the_suggestion_of_the_model() -> None:
    question = proposal("coding.task", "What?", ("Review", "r"), ("Test", "t"), suggested=1, reason="you asked")
    state, engine, _ = await started(question, proposal("coding.style"))
    after = await engine.next_turn(state, FreeText(free_text="I don't know, choose for me"))
    assert after.conversation[0].answer == "Test"


async def test_several_rules_of_a_model_are_all_set() -> None:
    state, engine, model = await started(*[proposal("x")] * 40, wish="Research the history of my town for a book")
    while state.pending_slot != "boundaries":
        state = await engine.next_turn(state, OptionIndex(option_index=0))
    rules = proposal("boundaries", "Rules?", "sources", ("Name the archive", "a"), ("Give the year", "b"))
    model.script[:] = [rules]
    state = await engine._lead(state)
    after = await BuiltinEngine().next_turn(state, OptionIndexes(option_indexes=[0, 1, 2]))
    assert after.config.boundaries is not None
    assert {"Name the archive", "Give the year"} < set(after.config.boundaries)
    assert len(after.config.boundaries) == 3


async def test_an_interview_ends_with_the_same_confirmation() -> None:
    state, engine, model = await started(*[proposal("x")] * 40)
    while isinstance(state.pending_turn, AskQuestion):
        state = await engine.next_turn(state, OptionIndex(option_index=0))
    assert isinstance(state.pending_turn, ReadyToAssemble)
    assert state.question_count <= 7
    assert len(model.requests) <= 2 * state.question_count
