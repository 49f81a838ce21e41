"""The interview: what it asks, what it makes of answers, and that nothing said before is lost or left over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Invalid
from perdure.forge.answers import Back, BuilderAnswer, Confirm, FreeText, OptionIndex, OptionIndexes
from perdure.forge.assembly.texts import build_pages, user_page
from perdure.forge.categories import DEFAULTS, guess_purpose
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import preview, shown_turn
from perdure.forge.interview.interview import apply_answer, start_interview, start_reconfiguration
from perdure.forge.questions.names import proposed_names
from perdure.forge.questions.purposes import PURPOSE_QUESTIONS
from perdure.forge.state import BuilderState, InterviewContext, PastChoice, Target, read_state
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble
from perdure.forge.vocabulary import BotPurpose, BuilderPhase, PurposeCategory

SKILLS = ("web-search", "data-analysis", "text-generation", "code-review", "code-generation", "summarize")
HERE = InterviewContext(
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
    "Help me plan a trip to Japan",
    "a bird watching friend",
    "a fitness coach who motivates me",
    "smart",
)


def begun(description: str, context: InterviewContext = HERE) -> BuilderState:
    return start_interview("s", description, context)


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
        states.append(apply_answer(states[-1], usual_answer(states[-1])))
    return states


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_an_interview_is_as_long_as_its_kind_needs(description: str) -> None:
    end = run(begun(description))[-1]
    usual = DEFAULTS[end.kind]
    assert usual.min_questions <= end.question_count <= usual.max_questions


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


def test_what_was_stated_is_not_asked() -> None:
    states = run(begun('a friendly coding assistant called "Ada" that reviews Python'))
    assert not {state.pending_slot for state in states} & {"name", "focus", "tone", "category"}
    config = states[-1].config
    assert (config.name, config.tone, config.category) == ("Ada", "friendly", "coding")


@pytest.mark.parametrize(
    ("description", "purpose"),
    [
        ("I want a coding assistant", "coding"),
        ("Help me write a cover letter", "writing"),
        ("Help me learn Spanish", "study"),
        ("help me with my taxes", None),
        ("help my customers with refunds", "customer_service"),
        ("papers about bees, with citations", "research"),
        ("analyse our spreadsheets", "data"),
        ("remind me to stand up", "personal_assistant"),
        ("plan the meals of our family", "household"),
        ("plan a trip to Japan", "travel"),
        ("a fitness coach who motivates me", "health"),
        ("I am on-call and need help with alerts", "on_call"),
        ("play chess with me", "games"),
        ("help me plan family dinners, my son is allergic to nuts", "household"),
        ("keep track of the books that I read", "personal_assistant"),
        ("a bot that books flights", "travel"),
        ("smart", None),
    ],
)
def test_a_purpose_is_found_by_whole_words_and_help_me_is_not_customer_service(
    description: str, purpose: str | None
) -> None:
    found = guess_purpose(description)
    assert (str(found.purpose) if found.is_clear else None) == purpose


@pytest.mark.parametrize("description", ["keep a reading log", "Keep a log of the books I have read", "keep a diary"])
def test_a_log_of_what_was_read_is_suggested_to_be_an_everyday_task(description: str) -> None:
    assert guess_purpose(description).purpose == "personal_assistant"
    assert suggested(begun(f"{description}, please")).purpose == "personal_assistant"


def test_an_allergy_in_a_description_is_a_fact_and_a_limit() -> None:
    end = suggested(begun("help me plan family dinners, my son is allergic to nuts"))
    assert (end.config.answers["task"], end.config.answers["limits"]) == (
        "Plan meals and write the shopping list, by shop section and with amounts.",
        "Ask once about allergies and what is not eaten, and always keep to it.",
    )
    assert isinstance(end.pending_turn, ReadyToAssemble)
    assert "- Their son is allergic to nuts.\n" in user_page(end.pending_turn.config).text


def test_every_purpose_has_two_or_three_questions_of_its_own_whose_answers_shape_the_files() -> None:
    assert len(BotPurpose) >= 12
    for purpose in BotPurpose:
        own = PURPOSE_QUESTIONS[purpose]
        assert 2 <= len(own) <= 3
        assert purpose.category in PurposeCategory
        ends = {}
        for choice in (0, 1):
            state = apply_answer(begun("something quite unheard of, please"), named(purpose))
            while not isinstance(state.pending_turn, ReadyToAssemble):
                is_own = (state.pending_slot or "").startswith(f"{purpose}.")
                state = apply_answer(state, OptionIndex(option_index=choice if is_own else 0))
            config = state.pending_turn.config
            assert (config.purpose, config.category) == (purpose, str(purpose.category))
            asked = [each.slot for each in state.conversation if each.slot.startswith(f"{purpose}.")]
            assert len(asked) >= 2
            pages = {**build_pages(config), "USER.md": user_page(config)}
            ends[choice] = pages["SOUL.md"].text + pages["USER.md"].text
            assert all(text in ends[choice] for text in config.answers.values())
        assert ends[0] != ends[1]


@pytest.mark.parametrize("purpose", BotPurpose)
def test_each_question_of_a_purpose_shapes_the_files_by_itself(purpose: BotPurpose) -> None:
    def end(changed: str | None) -> BuilderState:
        state = apply_answer(begun("something quite unheard of, please"), named(purpose))
        while not isinstance(state.pending_turn, ReadyToAssemble):
            state = apply_answer(state, OptionIndex(option_index=int(state.pending_slot == changed)))
        return state

    def texts(state: BuilderState) -> tuple[str, str]:
        assert isinstance(state.pending_turn, ReadyToAssemble)
        config = state.pending_turn.config
        return build_pages(config)["SOUL.md"].text, user_page(config).text

    usual = end(None)
    own = [each.slot for each in usual.conversation if each.slot.startswith(f"{purpose}.")]
    assert DEFAULTS[usual.kind].min_questions <= usual.question_count <= DEFAULTS[usual.kind].max_questions
    assert 2 <= len(own) <= 3
    assert len({texts(usual), *(texts(end(slot)) for slot in own)}) == 1 + len(own)


def named(purpose: BotPurpose) -> FreeText:
    return FreeText(free_text=str(purpose))


def suggested(state: BuilderState) -> BuilderState:
    """Take what is suggested, else the first option, until everything is known."""
    while not isinstance(turn := state.pending_turn, ReadyToAssemble):
        assert isinstance(turn, AskQuestion)
        ids = [each.id for each in turn.options]
        state = apply_answer(
            state, OptionIndex(option_index=ids.index(turn.suggestion.option_id) if turn.suggestion else 0)
        )
    return state


@pytest.mark.parametrize("purpose", BotPurpose)
def test_what_is_suggested_assumes_no_subject_no_limit_and_nothing_about_the_person(purpose: BotPurpose) -> None:
    end = suggested(apply_answer(begun("something quite unheard of, please"), named(purpose)))
    open_ = {each.name for each in PURPOSE_QUESTIONS[purpose] if each.can_be_open}
    assert open_
    assert not open_ & end.config.answers.keys()


def test_what_the_description_says_about_a_subject_or_a_limit_is_kept() -> None:
    end = suggested(begun("Plan cheap meals for our family, and write the shopping list"))
    assert end.config.answers["limits"] == "Keep the budget in mind: propose the cheap way first."
    assert end.config.answers["task"].startswith("Plan meals")
    plain = suggested(begun("Plan the meals of our family, and write the shopping list"))
    assert set(plain.config.answers) == {"task"}


def test_a_purpose_of_ones_own_gets_no_skill_and_no_borrowed_focus() -> None:
    state = begun("something for my stamp collection")
    turn = state.pending_turn
    assert state.pending_slot == "purpose"
    assert isinstance(turn, AskQuestion)
    assert turn.suggestion is not None
    assert turn.suggestion.option_id == "other"
    with pytest.raises(Invalid, match="50"):
        apply_answer(state, FreeText(free_text="x" * 51))
    end = run(apply_answer(state, FreeText(free_text="stamps")))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    config = end.pending_turn.config
    assert (config.purpose, config.category, config.skills) == (BotPurpose.OTHER, "stamps", ())
    assert config.personality.purpose == (
        "Your task: something for the user's stamp collection.\n\nAnswer in a few sentences, then stop."
    )


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_the_bot_so_far_travels_with_every_question_and_is_confirmed_once(description: str) -> None:
    states = run(begun(description))
    for state in states:
        match state.pending_turn:
            case AskQuestion(preview=shown) | ReadyToAssemble(preview=shown):
                assert shown == preview(state)
            case turn:
                assert isinstance(turn, Clarify)
    end = states[-1].pending_turn
    assert isinstance(end, ReadyToAssemble)
    assert end.preview is not None
    assert (end.preview.name, end.preview.skills) == (end.config.name, tuple(each.name for each in end.config.skills))


def test_a_vague_wish_is_clarified_when_the_bot_is_complex() -> None:
    state = begun("research")
    assert isinstance(state.pending_turn, Clarify)
    with pytest.raises(Invalid, match="free text"):
        apply_answer(state, FIRST)
    after = apply_answer(state, FreeText(free_text="papers about bees"))
    assert isinstance(after.pending_turn, AskQuestion)
    assert after.description == "research\npapers about bees"
    assert after.question_count == 0


def test_an_answer_is_stored_with_the_real_question_and_the_chosen_label() -> None:
    state = begun("a timer for pasta")
    turn = state.pending_turn
    assert isinstance(turn, AskQuestion)
    [exchange] = apply_answer(state, FIRST).conversation
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
        (FreeText(free_text="x" * 10_001), "the maximum is 10,000"),
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
        apply_answer(state, answer)
    assert state.text() == before


@pytest.mark.parametrize("text", ["gpt", "openai:", "a b:c", "../x"])
def test_a_model_that_cannot_be_one_is_refused(text: str) -> None:
    [state] = [state for state in run(begun("timer")) if state.pending_slot == "model"]
    with pytest.raises(Invalid, match="provider:name"):
        apply_answer(state, FreeText(free_text=text))


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("a pomodoro timer that rings", "Pomodoro Timer"),
        ("a timer for pasta", "Pasta Timer"),
        ("I need a bot for our on-call rotation", "Rotation Responder"),
        ("another coding assistant, for Rust", "Rust Engineer"),
        ("Ich möchte einen Bot, der mir beim Kochen hilft", "Kochen Helper"),
        ("analyse our budget every month", "Budget Analyst"),
        ("a bot that waters my plants", "Plant Gardener"),
        ("research\npapers about bees", "Bee Researcher"),
        ("TIMER FOR PASTA", "Pasta Timer"),
        ("Help me learn Spanish before my trip in June", "Spanish Tutor"),
        ("help my customers with refunds", "Refund Desk"),
        ("a bird watching friend", "Bird Watching Friend"),
        ("something that tells somebody a joke", "My Helper"),
        ("plan our family's meals and chores", "Chore Planner"),
        ("summarise papers about batteries", "Battery Researcher"),
        ("analyse our sales data", "Sales Analyst"),
        ("Help me learn physics", "Physics Tutor"),
        ("research old movies", "Movie Researcher"),
        ("plant tomatoes in my garden", "Tomato Gardener"),
        ("dungeon master for my friends", "Dungeon Game Master"),
        ("Support me while I learn to code", "My Tutor"),
        ("Help my son with his maths homework", "Math Tutor"),
        ("Help me with cooking without meat", "My Cook"),
        ("Can you help me quit smoking?", "Smoking Coach"),
    ],
)
def test_a_name_is_made_of_what_a_bot_is_about(description: str, name: str) -> None:
    assert proposed_names(description, guess_purpose(description).purpose)[0][0] == name


def test_an_option_of_an_older_program_is_refused_in_our_words() -> None:
    state = begun("I want a coding assistant")
    assert isinstance(state.pending_turn, AskQuestion)
    gone = state.pending_turn.options[0].model_copy(update={"id": "not-proposed-any-more"})
    old = state.model_copy(update={"pending_turn": state.pending_turn.model_copy(update={"options": (gone,)})})
    with pytest.raises(Invalid, match="not offered any more"):
        apply_answer(old, FIRST)


def test_a_person_who_says_the_same_twice_has_said_it_once() -> None:
    state = apply_answer(begun("research"), FreeText(free_text="research"))
    assert state.description == "research"


def test_skills_are_offered_with_a_sentence_each() -> None:
    skills = tuple((name, f"Does {name}. Use it often.") for name in SKILLS)
    states = run(begun("I want a coding assistant", InterviewContext(skills=skills)))
    turn = next(each.pending_turn for each in states if each.pending_slot == "skills")
    assert isinstance(turn, AskQuestion)
    assert turn.options[0].description == "Does code-review. Does code-generation."


def test_an_unknown_skill_is_refused_by_name() -> None:
    [state] = [state for state in run(begun("timer")) if state.pending_slot == "skills"]
    with pytest.raises(Invalid, match="'flying'"):
        apply_answer(state, FreeText(free_text="web-search, flying"))


@pytest.mark.parametrize("said", ["?", "help", " Help "])
def test_a_question_explains_itself(said: str) -> None:
    state = begun("I want a coding assistant")
    assert isinstance(state.pending_turn, AskQuestion)
    with pytest.raises(Invalid) as refused:
        apply_answer(state, FreeText(free_text=said))
    assert state.pending_turn.help in refused.value.detail
    assert "choose for me" in refused.value.detail


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_every_question_has_an_explanation(description: str) -> None:
    turns = [state.pending_turn for state in run(begun(description))]
    assert all(turn.help for turn in turns if isinstance(turn, AskQuestion))


@pytest.mark.parametrize("said", ["I don't know, choose for me", "i dont know", "You choose!", "no idea", "whatever"])
def test_who_does_not_know_gets_the_suggestion(said: str) -> None:
    past = PastChoice(category="coding", tone="formal", model="builtin", skills=("code-review",))
    states = run(begun("I want a coding assistant", HERE.model_copy(update={"past": (past,)})))
    [tone] = [state for state in states if state.pending_slot == "tone"]
    after = apply_answer(tone, FreeText(free_text=said))
    assert after.config.tone == "formal"
    assert after.conversation[-1].option_id == "formal"
    name = apply_answer(states[0], FreeText(free_text=said))
    assert isinstance(states[0].pending_turn, AskQuestion)
    assert name.config.name == states[0].pending_turn.options[0].label


def test_what_only_begins_like_that_is_an_answer() -> None:
    state = apply_answer(begun("I want a coding assistant"), FreeText(free_text="Whatever Works"))
    assert state.config.name == "Whatever Works"


def test_several_rules_can_be_chosen_and_ones_own_beside_them() -> None:
    [state] = [state for state in run(begun("I want a coding assistant")) if state.pending_slot == "boundaries"]
    assert isinstance(state.pending_turn, AskQuestion)
    assert state.pending_turn.multiple
    after = apply_answer(state, OptionIndexes(option_indexes=[2, 0]))
    assert after.config.boundaries is not None
    assert [rule.split(":")[0] for rule in after.config.boundaries] == [
        "Never print secrets",
        "Never call code done without a test",
    ]
    assert after.conversation[-1].answer == "Never print secrets, Never call code done without a test"
    own = apply_answer(state, FreeText(free_text="Never print secrets\nSpeak of no one by name"))
    assert own.config.boundaries == (after.config.boundaries[0], "Speak of no one by name")
    for wrong in ([], [0, 0], [0, 9]):
        with pytest.raises(Invalid):
            apply_answer(state, OptionIndexes(option_indexes=wrong))
    [tone] = [each for each in run(begun("I want a coding assistant")) if each.pending_slot == "tone"]
    with pytest.raises(Invalid, match="takes one option"):
        apply_answer(tone, OptionIndexes(option_indexes=[0, 1]))


def test_back_within_a_part_asks_that_part_again() -> None:
    state = apply_answer(begun("I want a coding assistant"), FIRST)
    again = apply_answer(state, Back(back=BuilderPhase.BASICS))
    assert [each.answer for each in again.earlier] == [each.answer for each in state.conversation]
    assert without_earlier(again) == begun("I want a coding assistant")


def without_earlier(state: BuilderState) -> BuilderState:
    return state.model_copy(update={"earlier": ()})


def test_back_keeps_each_answer_until_the_question_is_answered_again() -> None:
    end = run(begun("I want a coding assistant"))[-1]
    state = apply_answer(end, Back(back=BuilderPhase.BASICS))
    while isinstance(turn := shown_turn(state), AskQuestion):
        given = next(each for each in end.conversation if each.slot == state.pending_slot)
        assert turn.earlier is not None
        assert turn.earlier.answer == given.answer
        at = [number for number, each in enumerate(turn.options) if each.id in turn.earlier.option_ids]
        state = apply_answer(state, OptionIndexes(option_indexes=at) if at else FreeText(free_text=given.answer))
    assert state == end


def test_an_earlier_answer_that_is_not_offered_any_more_is_not_shown() -> None:
    target = target_of("I want a coding assistant")
    state = apply_answer(start_reconfiguration("t", "", HERE, target), FreeText(free_text="purpose, name"))
    while state.pending_slot != "name":
        state = apply_answer(
            state, FreeText(free_text="a tutor for physics") if state.pending_slot == "wish" else FIRST
        )
    named = apply_answer(state, OptionIndex(option_index=1))
    again = apply_answer(named, Back(back=BuilderPhase.BASICS))
    again = apply_answer(again, FreeText(free_text="purpose, name"))
    while again.pending_slot != "name":
        again = apply_answer(again, FreeText(free_text="a cook") if again.pending_slot == "wish" else FIRST)
    turn = shown_turn(again)
    assert isinstance(turn, AskQuestion)
    assert turn.earlier is None


def test_no_to_the_end_goes_back_to_the_skills() -> None:
    end = run(begun("a timer for pasta"))[-1]
    again = apply_answer(end, Confirm(confirm=False))
    assert again.pending_slot == "skills"
    assert again.config.skills is None
    assert again.config.model == "ollama:llama3.2"
    assert apply_answer(end, YES) == end


@pytest.mark.parametrize("phase", list(BuilderPhase)[:4])
def test_back_to_any_phase_forgets_that_phase_and_later_ones_alone(phase: BuilderPhase) -> None:
    end = run(begun("analyse our budget and portfolio risk every month"))[-1]
    back = apply_answer(end, Back(back=phase))
    assert back.phase == phase
    assert [exchange.phase for exchange in back.conversation] == [
        exchange.phase for exchange in end.conversation if exchange.phase.is_before(phase)
    ]
    assert run(back)[-1] == end


def target_of(description: str) -> Target:
    end = run(begun(description))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    return Target(bot_id="b", slug="ada", config=end.pending_turn.config.wire(), version=1)


def changed(target: Target, **answers: str) -> BuilderState:
    """Change some parts of a bot; the names are those of the slots, with _ for a dot."""
    state = start_reconfiguration("t", "", HERE, target)
    while not isinstance(state.pending_turn, ReadyToAssemble):
        said = answers.get((state.pending_slot or "").replace(".", "_"))
        state = apply_answer(state, FIRST if said is None else FreeText(free_text=said))
    return state


def test_reconfiguring_asks_what_is_to_change_and_then_that_alone() -> None:
    state = start_reconfiguration("t", "", HERE, target_of("I want a coding assistant"))
    assert isinstance(state.pending_turn, AskQuestion)
    assert state.pending_turn.question == "What should change?"
    nothing = apply_answer(state, OptionIndex(option_index=len(state.pending_turn.options) - 1))
    assert isinstance(nothing.pending_turn, ReadyToAssemble)
    assert nothing.pending_turn.config.wire() == state.target.config  # type: ignore[union-attr]
    both = apply_answer(state, OptionIndexes(option_indexes=[2, 3]))
    assert [slot for each in run(both) if (slot := each.pending_slot)] == ["name", "tone"]
    for each in run(both)[:-1]:
        assert isinstance(each.pending_turn, AskQuestion)
        assert each.pending_turn.options[0].label.startswith("Keep ")


def test_what_a_request_says_is_not_asked_about() -> None:
    state = start_reconfiguration("t", "make it friendlier", HERE, target_of("I want a coding assistant"))
    assert state.pending_slot == "tone"
    assert isinstance(apply_answer(state, FreeText(free_text="friendly")).pending_turn, ReadyToAssemble)


@pytest.mark.parametrize(
    ("request_", "suggested"),
    [
        ("make it friendlier", "friendly"),
        ("it should be more formal", "formal"),
        ("speak less friendly", "keep"),
        ("friendly or playful, I do not mind the tone", "keep"),
        ("make it technical: another tone", "keep"),
    ],
)
def test_the_tone_that_a_request_names_is_suggested(request_: str, suggested: str) -> None:
    state = start_reconfiguration("t", request_, HERE, target_of("I want a coding assistant"))
    turn = state.pending_turn
    assert state.pending_slot == "tone"
    assert isinstance(turn, AskQuestion)
    assert turn.suggestion is not None
    [option] = [option for option in turn.options if option.id == turn.suggestion.option_id]
    assert option is turn.options[0]
    assert suggested in (option.id, option.label.casefold())


def test_reconfiguring_offers_nothing_twice_and_names_that_are_about_the_bot() -> None:
    state = start_reconfiguration("t", "", HERE, target_of("I want a coding assistant"))
    state = apply_answer(state, FreeText(free_text="name, tone, settings, skills, focus"))
    asked = {
        each.pending_slot: [option.label for option in each.pending_turn.options]
        for each in run(state)
        if isinstance(each.pending_turn, AskQuestion)
    }
    assert asked["name"] == ["Keep Coding Assistant", "Anvil", "Lint"]
    assert asked["tone"] == ["Keep technical", "Friendly", "Direct"]
    assert asked["variety"] == ["Keep 0.2", "Strict", "Free"]
    assert asked["length"] == ["Keep 4096", "Short", "Long"]
    assert asked["skills"] == ["Keep code-review, code-generation", "None"]
    assert asked["coding.task"][0].startswith("Keep Review changes first")
    assert "Review changes" not in asked["coding.task"]


def test_reconfiguring_changes_what_was_said_and_nothing_else() -> None:
    target = target_of("I want a coding assistant")
    end = changed(target, changes="settings", variety="0.65")
    assert isinstance(end.pending_turn, ReadyToAssemble)
    was = BuilderConfig.model_validate(target.config)
    settings = was.model_settings.model_copy(update={"temperature": 0.65})
    assert end.pending_turn.config == was.model_copy(update={"model_settings": settings})


def test_a_bot_can_be_made_for_something_else() -> None:
    target = target_of("I want a coding assistant")
    wish = "Help me learn Spanish. I am a nurse."
    end = changed(target, changes="purpose", wish=wish, purpose="study", study_level="a little from school")
    assert isinstance(end.pending_turn, ReadyToAssemble)
    config, was = end.pending_turn.config, BuilderConfig.model_validate(target.config)
    assert (config.description, config.purpose, config.category) == (wish, BotPurpose.STUDY, "custom")
    assert config.answers["level"] == "What they know already: a little from school."
    assert config.personality.purpose.startswith("You help the user learn Spanish. They are a nurse.")
    assert "Python" not in config.personality.purpose
    assert (config.name, config.skills, config.model_settings) == (was.name, was.skills, was.model_settings)


def test_the_question_what_changes_takes_options_and_own_words_together() -> None:
    state = start_reconfiguration("t", "", HERE, target_of("I want a coding assistant"))
    state = apply_answer(state, FreeText(free_text="What it is for\nnever mention prices, names or dates"))
    asked = [each for each in run(state) if isinstance(each.pending_turn, AskQuestion)]
    assert [each.pending_slot for each in asked][-1] == "boundaries"
    turn = asked[-1].pending_turn
    assert isinstance(turn, AskQuestion)
    assert turn.options[0].label == "Never mention prices, names or dates."
    assert asked[0].pending_slot == "wish"


def test_words_that_name_no_part_of_a_bot_are_rejected_with_the_options_of_the_screen() -> None:
    state = start_reconfiguration("t", "", HERE, target_of("I want a coding assistant"))
    with pytest.raises(Invalid) as caught:
        apply_answer(state, FreeText(free_text="Its rules\nsomething blue"))
    assert caught.value.detail.startswith('"something blue" names no part of the bot. Choose one of "What it is for",')


@pytest.mark.parametrize(
    ("default", "reason"),
    [
        (None, "the default model, as soon as you connect one: perdure model login"),
        ("openai:gpt-4.1", "the default model, which is now openai:gpt-4.1"),
    ],
)
def test_builtin_is_explained_as_the_default_model(default: str | None, reason: str) -> None:
    context = HERE.model_copy(update={"default_model": default})
    state = start_interview("t", "I want a coding assistant", context)
    [turn] = [each.pending_turn for each in run(state) if each.pending_slot == "model"]
    assert isinstance(turn, AskQuestion)
    assert [each.description for each in turn.options if each.id == "builtin"] == [reason]


def test_a_focus_can_be_changed_and_takes_the_place_of_the_old_one() -> None:
    target = target_of("I want a coding assistant")
    config = BuilderConfig.model_validate(target.config)
    end = changed(target, changes="focus", coding_language="Haskell")
    assert isinstance(end.pending_turn, ReadyToAssemble)
    before, after = (each.personality.purpose.split("\n\n") for each in (config, end.pending_turn.config))
    assert (before[0], before[2]) == (after[0], after[2])
    assert after[1] == "Work mainly in Haskell; follow the conventions of its community."


def test_rules_can_be_added_to_those_that_are_kept() -> None:
    target = target_of("I want a coding assistant")
    state = apply_answer(start_reconfiguration("t", "", HERE, target), FreeText(free_text="boundaries"))
    after = apply_answer(state, OptionIndexes(option_indexes=[0, 1]))
    assert isinstance(after.pending_turn, ReadyToAssemble)
    rules = after.pending_turn.config.personality.boundaries
    assert [rule.split(":")[0] for rule in rules] == ["Never print secrets", "Ask before you change files"]


def replayed(state: BuilderState) -> BuilderState:
    """Say again only what was kept, to a new interview."""
    clean = start_interview(state.session_id, state.initial_description, state.context)
    for text in state.clarifications:
        clean = apply_answer(clean, FreeText(free_text=text))
    for exchange in state.conversation:
        turn = clean.pending_turn
        assert isinstance(turn, AskQuestion)
        assert turn.question == exchange.question
        ids = [option.id for option in turn.options]
        chosen = exchange.option_ids or ((exchange.option_id,) if exchange.option_id else ())
        indexes = OptionIndexes(option_indexes=[ids.index(each) for each in chosen])
        clean = apply_answer(clean, indexes if chosen else FreeText(free_text=exchange.answer))
    return clean


ANSWERS: st.SearchStrategy[BuilderAnswer] = st.one_of(
    st.builds(OptionIndex, option_index=st.integers(-1, 4)),
    st.builds(OptionIndexes, option_indexes=st.lists(st.integers(-1, 3), max_size=3)),
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
            state = apply_answer(state, FreeText(free_text=said or ""))
        except Invalid:
            state = apply_answer(state, usual_answer(state))
    pytest.fail("it never ends")


@given(st.text(), st.lists(st.text(), max_size=8))
def test_any_text_is_an_answer_or_is_refused_in_our_words(description: str, texts: list[str]) -> None:
    try:
        state = begun(f"{description} timer")
    except Invalid:
        return
    for text in texts:
        try:
            state = apply_answer(state, FreeText(free_text=text))
        except Invalid:
            state = apply_answer(state, usual_answer(state))


@given(st.sampled_from(DESCRIPTIONS), st.lists(ANSWERS, max_size=40))
def test_any_way_through_reaches_only_what_a_clean_replay_reaches(
    description: str, answers: list[BuilderAnswer]
) -> None:
    state = begun(description)
    for answer in answers:
        before = state.text()
        try:
            state = apply_answer(read_state(before), answer)
        except Invalid:
            assert read_state(before).text() == before
    assert replayed(state) == without_earlier(state)


def reconfigured(request: str, description: str = "a friendly coding assistant called Ada") -> BuilderState:
    config = run(begun(description))[-1].pending_turn
    assert isinstance(config, ReadyToAssemble)
    return start_reconfiguration(
        "r", request, HERE, Target(bot_id="b", slug="ada", config=config.config.wire(), version=1)
    )


@pytest.mark.parametrize(
    ("request_text", "slot", "label"),
    [
        ("make it more formal", "tone", "Formal"),
        ("Call it Kubi", "name", "Kubi"),
        ('rename it to "The Old One"', "name", "The Old One"),
        ("it should never restart my pods", "boundaries", "Never restart the user's pods."),
        ("never mention prices and write in French", "boundaries", "Never mention prices. Write in French."),
        ("never swear and use slang", "boundaries", "Never swear and use slang."),
    ],
)
def test_what_a_request_names_is_what_is_asked_and_suggested(request_text: str, slot: str, label: str) -> None:
    state = reconfigured(request_text)
    turn = state.pending_turn
    assert isinstance(turn, AskQuestion)
    assert state.pending_slot == slot
    assert turn.options[0].label == label
    assert turn.options[1].id == "keep"
    assert turn.suggestion is not None
    assert turn.suggestion.option_id == turn.options[0].id
    assert [option.label for option in turn.options].count(label) == 1


def test_a_request_of_other_words_is_asked_about() -> None:
    assert reconfigured("bake bread").pending_slot == "changes"
    less = reconfigured("make it less formal")
    assert (less.pending_slot, less.pending_turn.suggestion.option_id) == ("tone", "keep")  # type: ignore[union-attr]


def test_a_rule_of_a_request_is_added_beside_rules_that_are_chosen() -> None:
    state = apply_answer(reconfigured("never swear"), OptionIndexes(option_indexes=[0, 2]))
    assert state.config.boundaries is not None
    assert "Never swear." in state.config.boundaries
    assert len(state.config.boundaries) > 1


@pytest.mark.parametrize("text", ["skip", "don't care", "no idea", "you pick", "dunno", "I have no idea, you pick"])
def test_more_ways_to_leave_a_choice_to_us(text: str) -> None:
    state = begun("I want a coding assistant")
    assert isinstance(state.pending_turn, AskQuestion)
    after = apply_answer(state, FreeText(free_text=text))
    assert after.conversation[-1].answer == state.pending_turn.options[0].label


def test_no_skill_is_offered_twice() -> None:
    past = PastChoice(category="custom", tone="wry", model="builtin", skills=("summarize",), purpose=BotPurpose.STUDY)
    states = run(begun("help me learn Spanish", HERE.model_copy(update={"past": (past,)})))
    [turn] = [state.pending_turn for state in states if state.pending_slot == "skills"]
    assert isinstance(turn, AskQuestion)
    labels = [option.label for option in turn.options]
    assert len(labels) == len(set(labels))
