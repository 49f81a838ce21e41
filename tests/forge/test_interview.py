"""The interview: what it asks, what it makes of answers, and that nothing said before is lost or left over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.forge.answers import Back, BuilderAnswer, Confirm, FreeText, OptionIndex
from perdure.forge.categories import DEFAULTS, purpose_of
from perdure.forge.interview import answered, begin, begin_again
from perdure.forge.questions.names import proposed_names
from perdure.forge.state import BuilderState, PastChoice, Surroundings, Target, read_state
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderPhase, PurposeCategory

SKILLS = ("web-search", "data-analysis", "text-generation", "code-review", "code-generation", "summarize")
HERE = Surroundings(
    models=("ollama:llama3.2",), skills=tuple((name, f"can do {name}") for name in (*SKILLS, "knowledge-base"))
)
FIRST = OptionIndex(option_index=0)
YES = Confirm(confirm=True)
DESCRIPTIONS = (
    "a timer for pasta",
    "timer",
    "I want a coding assistant",
    "a friendly coding assistant called Ada that reviews Python",
    "I need a research analyst that reads papers on climate",
    "a research analyst",
    "analyse our budget and portfolio risk every month",
    "write stories about dragons",
    "help my customers with refunds",
    "a fitness coach who motivates me",
    "smart",
)


def begun(description: str, surroundings: Surroundings = HERE) -> BuilderState:
    return begin("s", description, surroundings)


def usual_answer(state: BuilderState) -> BuilderAnswer:
    match state.pending_turn:
        case AskQuestion():
            return FIRST
        case Clarify():
            return FreeText(free_text="papers about bees, for my team")
        case _:
            return YES


def run(state: BuilderState) -> list[BuilderState]:
    """Answer until everything is known; return every state on the way."""
    states = [state]
    while not isinstance(states[-1].pending_turn, ReadyToAssemble):
        states.append(answered(states[-1], usual_answer(states[-1])))
    return states


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_an_interview_is_as_long_as_its_kind_needs(description: str) -> None:
    end = run(begun(description))[-1]
    usual = DEFAULTS[end.kind]
    assert usual.fewest <= end.question_count <= usual.most


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_every_option_has_a_reason_and_every_question_another_way_out(description: str) -> None:
    for state in run(begun(description)):
        if isinstance(state.pending_turn, AskQuestion):
            turn = state.pending_turn
            assert all(option.label and option.description for option in turn.options)
            assert len({option.id for option in turn.options}) == len(turn.options) >= 2
            assert turn.allow_free_text


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_the_model_is_always_asked(description: str) -> None:
    states = run(begun(description))
    [asked] = [
        state.pending_turn
        for state in states
        if isinstance(state.pending_turn, AskQuestion) and state.pending_slot == "model"
    ]
    assert [option.id for option in asked.options] == ["ollama:llama3.2", "builtin"]


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_preview_follows_each_phase(description: str) -> None:
    shown = [
        state.pending_turn.phase for state in run(begun(description)) if isinstance(state.pending_turn, ShowPreview)
    ]
    assert shown == list(BuilderPhase)[:4]


def test_what_was_told_is_not_asked() -> None:
    states = run(begun('a friendly coding assistant called "Ada" that reviews Python'))
    assert not {state.pending_slot for state in states} & {"name", "focus", "tone", "category"}
    config = states[-1].config
    assert (config.name, config.tone, config.category) == ("Ada", "friendly", "coding")


def test_whole_words_are_scored() -> None:
    assert purpose_of("I want a coding assistant").category is PurposeCategory.CODING
    assert purpose_of("smart").category is PurposeCategory.CUSTOM


def test_a_vague_wish_is_clarified_when_the_bot_is_complex() -> None:
    state = begun("research")
    assert isinstance(state.pending_turn, Clarify)
    with pytest.raises(Invalid, match="free text"):
        answered(state, FIRST)
    after = answered(state, FreeText(free_text="papers about bees"))
    assert isinstance(after.pending_turn, AskQuestion)
    assert after.description == "research\npapers about bees"
    assert after.question_count == 0


def test_an_unknown_kind_is_asked_and_may_be_anything() -> None:
    state = begun("a fitness coach who motivates me")
    assert state.pending_slot == "category"
    with pytest.raises(Invalid, match="50"):
        answered(state, FreeText(free_text="x" * 51))
    after = answered(state, FreeText(free_text="sports"))
    assert after.purpose_category == "sports"
    assert run(after)[-1].pending_turn.config.category == "sports"  # type: ignore[union-attr]


def test_an_answer_is_stored_with_the_real_question_and_the_chosen_label() -> None:
    state = begun("a timer for pasta")
    turn = state.pending_turn
    assert isinstance(turn, AskQuestion)
    [exchange] = answered(state, FIRST).conversation
    assert exchange.question == turn.question
    assert exchange.options == tuple(option.label for option in turn.options)
    assert exchange.answer == turn.options[0].label


def test_past_choices_are_offered_with_their_support() -> None:
    def past(tone: str) -> PastChoice:
        return PastChoice(category="coding", tone=tone, model="openai:gpt-x", skills=("code-review",))

    one = HERE.model_copy(update={"past": (past("formal"),)})
    three = HERE.model_copy(update={"past": (past("direct"), past("formal"), past("formal"), past("playful"))})
    reasons = {
        state.pending_slot: state.pending_turn.suggestion
        for state in run(begun("I want a coding assistant", one))
        if isinstance(state.pending_turn, AskQuestion)
    }
    assert reasons["tone"] is not None
    assert reasons["tone"].option_id == "formal"
    assert reasons["tone"].reason == "your last coding bot was formal"
    assert reasons["model"] is not None
    assert reasons["model"].option_id == "openai:gpt-x"
    [tone] = [state for state in run(begun("I want a coding assistant", three)) if state.pending_slot == "tone"]
    assert isinstance(tone.pending_turn, AskQuestion)
    assert tone.pending_turn.suggestion is not None
    assert tone.pending_turn.suggestion.reason == "2 of your last 3 coding bots were formal"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (OptionIndex(option_index=99), "no option 99"),
        (OptionIndex(option_index=-1), "no option -1"),
        (YES, "expected an option"),
        (FreeText(free_text="  "), "empty"),
        (FreeText(free_text="\0"), "control"),
        (FreeText(free_text="\ud800"), "surrogate"),
        (FreeText(free_text="x" * 10_001), "at most 10,000"),
        (FreeText(free_text="x" * 121), "does not fit name"),
        (Back(), "first phase"),
        (Back(back=BuilderPhase.MODEL), "not before"),
        (Back(back=BuilderPhase.BASICS), "not before"),
    ],
)
def test_an_answer_that_does_not_fit_changes_nothing(answer: BuilderAnswer, said: str) -> None:
    state = begun("a timer for pasta")
    before = state.text()
    with pytest.raises(Invalid, match=said):
        answered(state, answer)
    assert state.text() == before


@pytest.mark.parametrize("text", ["gpt", "openai:", "a b:c", "../x"])
def test_a_model_that_cannot_be_one_is_refused(text: str) -> None:
    [state] = [state for state in run(begun("timer")) if state.pending_slot == "model"]
    with pytest.raises(Invalid, match="provider:name"):
        answered(state, FreeText(free_text=text))


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("a pomodoro timer that rings", "Pomodoro Keeper"),
        ("a coding assistant that reviews the pull requests of a large Django code base", "Django Smith"),
        ("Ich möchte einen Bot, der mir beim Kochen hilft", "Kochen Companion"),
        ("analyse our budget every month", "Budget Lens"),
        ("a bot that waters my plants", "Plants Companion"),
        ("research\npapers about bees", "Bees Scholar"),
        ("TIMER FOR PASTA", "Pasta Keeper"),
    ],
)
def test_a_name_is_made_of_what_a_bot_is_about(description: str, name: str) -> None:
    assert proposed_names(description, purpose_of(description).category)[0][0] == name


def test_an_option_of_an_older_program_is_refused_in_our_words() -> None:
    state = begun("I want a coding assistant")
    assert isinstance(state.pending_turn, AskQuestion)
    gone = state.pending_turn.options[0].model_copy(update={"id": "not-proposed-any-more"})
    old = state.model_copy(update={"pending_turn": state.pending_turn.model_copy(update={"options": (gone,)})})
    with pytest.raises(Invalid, match="not offered any more"):
        answered(old, FIRST)


def test_another_is_no_name() -> None:
    names = [name for name, _ in proposed_names("another coding assistant, for Rust", PurposeCategory.CODING)]
    assert names[0] == "Rust Smith"


def test_a_person_who_says_the_same_twice_has_said_it_once() -> None:
    state = answered(begun("research"), FreeText(free_text="research"))
    assert state.description == "research"


def test_skills_are_offered_with_a_sentence_each() -> None:
    skills = tuple((name, f"Does {name}. Use it often.") for name in SKILLS)
    states = run(begun("I want a coding assistant", Surroundings(skills=skills)))
    turn = next(each.pending_turn for each in states if each.pending_slot == "skills")
    assert isinstance(turn, AskQuestion)
    assert turn.options[0].description == "Does code-review. Does code-generation."


def test_an_unknown_skill_is_refused_by_name() -> None:
    [state] = [state for state in run(begun("timer")) if state.pending_slot == "skills"]
    with pytest.raises(Invalid, match="'flying'"):
        answered(state, FreeText(free_text="web-search, flying"))


def test_no_to_a_preview_asks_the_phase_again() -> None:
    states = run(begun("a timer for pasta"))
    [shown] = [
        state for state in states if isinstance(state.pending_turn, ShowPreview) and state.phase == "personality"
    ]
    again = answered(shown, Confirm(confirm=False))
    assert again.pending_slot == "tone"
    assert [exchange.slot for exchange in again.conversation] == ["name"]


def test_no_to_the_end_goes_back_to_the_skills() -> None:
    end = run(begun("a timer for pasta"))[-1]
    again = answered(end, Confirm(confirm=False))
    assert again.pending_slot == "skills"
    assert again.config.skills is None
    assert again.config.model == "ollama:llama3.2"
    assert answered(end, YES) == end


@pytest.mark.parametrize("phase", list(BuilderPhase)[:4])
def test_back_to_any_phase_forgets_that_phase_and_later_ones_alone(phase: BuilderPhase) -> None:
    end = run(begun("analyse our budget and portfolio risk every month"))[-1]
    back = answered(end, Back(back=phase))
    assert back.phase == phase
    assert [exchange.phase for exchange in back.conversation] == [
        exchange.phase for exchange in end.conversation if exchange.phase.is_before(phase)
    ]
    assert run(back)[-1] == end


def test_reconfiguring_offers_to_keep_everything() -> None:
    end = run(begun("I want a coding assistant"))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    target = Target(bot_id="b", slug="ada", config=end.pending_turn.config.wire(), version=1)
    states = run(begin_again("t", "", HERE, target))
    assert states[-1].pending_turn == end.pending_turn
    for state in states:
        if isinstance(state.pending_turn, AskQuestion):
            assert state.pending_turn.options[0].label.startswith("Keep ")


def test_reconfiguring_offers_nothing_twice_and_names_that_are_about_the_bot() -> None:
    end = run(begun("I want a coding assistant"))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    target = Target(bot_id="b", slug="ada", config=end.pending_turn.config.wire(), version=1)
    asked = {
        state.pending_slot: [option.label for option in state.pending_turn.options]
        for state in run(begin_again("t", "", HERE, target))
        if isinstance(state.pending_turn, AskQuestion)
    }
    assert asked["name"] == ["Keep Coding Smith", "Anvil"]
    assert asked["tone"] == ["Keep technical", "Friendly", "Direct"]
    assert asked["variety"] == ["Keep 0.2", "Strict", "Free"]
    assert asked["length"] == ["Keep 4096", "Short", "Long"]
    assert asked["skills"] == ["Keep code-review, code-generation", "None"]


def test_reconfiguring_changes_what_was_said_and_nothing_else() -> None:
    end = run(begun("I want a coding assistant"))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    was = end.pending_turn.config
    state = begin_again("t", "", HERE, Target(bot_id="b", slug="ada", config=was.wire(), version=1))
    while not isinstance(state.pending_turn, ReadyToAssemble):
        changed = FreeText(free_text="0.65") if state.pending_slot == "variety" else usual_answer(state)
        state = answered(state, changed)
    settings = was.model_settings.model_copy(update={"temperature": 0.65})
    assert state.pending_turn.config == was.model_copy(update={"model_settings": settings})


def replayed(state: BuilderState) -> BuilderState:
    """Say again only what was kept, to a new interview."""
    clean = begin(state.session_id, state.initial_description, state.surroundings)
    for text in state.clarifications:
        clean = answered(clean, FreeText(free_text=text))
    for exchange in state.conversation:
        while isinstance(clean.pending_turn, ShowPreview):
            clean = answered(clean, YES)
        turn = clean.pending_turn
        assert isinstance(turn, AskQuestion)
        assert turn.question == exchange.question
        ids = [option.id for option in turn.options]
        said = FreeText(free_text=exchange.answer)
        clean = answered(clean, OptionIndex(option_index=ids.index(exchange.option_id)) if exchange.option_id else said)
    while isinstance(clean.pending_turn, ShowPreview) and clean.phase != state.phase:
        clean = answered(clean, YES)
    return clean


ANSWERS: st.SearchStrategy[BuilderAnswer] = st.one_of(
    st.builds(OptionIndex, option_index=st.integers(-1, 4)),
    st.builds(FreeText, free_text=st.sampled_from(["Ada", "0.4", "3000", "web-search", "ollama:x", "warm", ""])),
    st.builds(Confirm, confirm=st.booleans()),
    st.builds(Back, back=st.sampled_from([None, *BuilderPhase])),
    st.just(YES),
    st.just(FIRST),
)


@pytest.mark.parametrize(
    "description",
    [
        *("a timer for " + "x" * 300, "a timer called Bob for " + "x" * 300, "a timer " * 1249, "x" * 10_000),
        *("research " + "word " * 1990, "timer \x85 \u200b", 'a timer called "\x85"', "İ" * 250 + " coding"),
    ],
)
@pytest.mark.parametrize("said", [None, "y" * 10_000, "\x7f", "\x85", "z" * 300])
def test_whatever_is_said_an_interview_comes_to_its_end(description: str, said: str | None) -> None:
    state = begun(description)
    for _ in range(60):
        if isinstance(state.pending_turn, ReadyToAssemble):
            return
        try:
            state = answered(state, FreeText(free_text=said or ""))
        except Invalid:
            state = answered(state, usual_answer(state))
    pytest.fail("it never ends")


@given(st.text(), st.lists(st.text(), max_size=8))
def test_any_text_is_an_answer_or_is_refused_in_our_words(description: str, texts: list[str]) -> None:
    try:
        state = begun(f"{description} timer")
    except Invalid:
        return
    for text in texts:
        try:
            state = answered(state, FreeText(free_text=text))
        except Invalid:
            state = answered(state, usual_answer(state))


@given(st.sampled_from(DESCRIPTIONS), st.lists(ANSWERS, max_size=40))
def test_any_way_through_reaches_only_what_a_clean_replay_reaches(
    description: str, answers: list[BuilderAnswer]
) -> None:
    state = begun(description)
    for answer in answers:
        before = state.text()
        try:
            state = answered(read_state(before), answer)
        except Invalid:
            assert read_state(before).text() == before
    assert replayed(state) == state
