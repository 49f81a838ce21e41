"""How questions are laid out: nothing is wider than the terminal, and nothing of a text is lost."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perdure.forge.answers import OptionIndex
from perdure.forge.interview.interview import apply_answer, start_interview, start_reconfiguration
from perdure.forge.state import BuilderState, InterviewContext, Target
from perdure.forge.turns import ReadyToAssemble
from perdure.interfaces.cli.forge.layout import config_rows
from perdure.interfaces.cli.prompts.layout import Choice, layout_choices

SOME = [Choice("Ada", "short, and easy to call"), Choice("Coding Smith", "says what it is about", "your last one")]
texts = st.text(st.characters(exclude_categories=("Cs", "Cc", "Mn", "Me", "Cf", "Zl", "Zp")), max_size=200)


def shown(choices: list[Choice], width: int) -> list[str]:
    """The lines of a list as a terminal has them, with room for the pointer."""
    return [
        line
        for pieces in layout_choices(choices, width)
        for line in ("   " + "".join(t for _, t in pieces)).split("\n")
    ]


def test_reasons_stand_in_a_column_where_there_is_room() -> None:
    assert shown(SOME, 80) == [
        "   Ada           short, and easy to call",
        "   Coding Smith  says what it is about",
        "                 ★ your last one",
    ]


def test_reasons_stand_below_where_there_is_not() -> None:
    assert shown(SOME, 30) == [
        "   Ada",
        "     short, and easy to call",
        "   Coding Smith",
        "     says what it is about",
        "     ★ your last one",
    ]


def test_a_long_reason_is_broken_between_words() -> None:
    assert shown([Choice("Ada", "one two three four five six seven")], 42) == [
        "   Ada  one two three four five six seven",
    ]
    assert shown([Choice("Ada", "one two three four five six seven")], 38) == [
        "   Ada  one two three four five six",
        "        seven",
    ]


def test_nothing_in_a_text_moves_the_cursor() -> None:
    assert shown([Choice("a\x1b[2Jb", "c\nd")], 80) == ["   a\\x1b[2Jb  c\\nd"]


@given(st.lists(st.builds(Choice, texts.filter(bool), texts, texts), min_size=1, max_size=5), st.integers(20, 140))
def test_no_line_is_wider_than_the_terminal(choices: list[Choice], width: int) -> None:
    assert all(cell_len(line) <= width for line in shown(choices, width))


def end_of(state: BuilderState) -> ReadyToAssemble:
    """Take the first option of every question."""
    while not isinstance(state.pending_turn, ReadyToAssemble):
        state = apply_answer(state, OptionIndex(option_index=0))
    return state.pending_turn


def test_the_last_preview_shows_all_that_was_answered() -> None:
    end = end_of(start_interview("s", "a research analyst for papers about bees", InterviewContext()))
    rows = dict(config_rows(end.config))
    assert rows["purpose"] == "research"
    assert rows["field"].startswith("Work in science and medicine")
    assert rows["readers"] == "They read the results themselves and know the subject."
    assert rows["holds to"].startswith("Never state a fact without its source")


def test_what_is_kept_is_shown_as_what_it_is() -> None:
    config = end_of(start_interview("s", "I want a coding assistant", InterviewContext())).config
    target = Target(bot_id="b", slug="ada", config=config.wire(), version=1)
    again = end_of(start_reconfiguration("t", "other rules", InterviewContext(), target)).config
    assert dict(config_rows(again))["holds to"].startswith("Never print secrets")
