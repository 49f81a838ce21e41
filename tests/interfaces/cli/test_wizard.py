"""The wizard at a real terminal: arrow keys, Other, Back, Ctrl-C, a kill, somebody else's answer, a dumb terminal."""

import json
import re
import signal

import pytest

from tests.interfaces.cli.interviews import FIRST, MODEL, WISH, begun, coding, forged, said, written
from tests.interfaces.cli.on_terminal import CTRL_C, CTRL_D, DOWN, ENTER, LEFT, UP, Start
from tests.interfaces.cli.terminal import Terminal


def test_a_bot_is_made_with_arrow_keys_other_and_back(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    assert "Basics (1 of 5) ──" in program.until("← Back")
    program.press(UP, UP, ENTER)  # from the first to the last but one, which is Other
    program.until("? What should it be called?")
    program.press("Ada: the 'first' 🦄", ENTER)
    assert "✓ What should it be called?  Ada: the 'first' 🦄" in program.until("Whatever the project uses")
    program.press(ENTER)
    program.until("Explain code")
    program.press(ENTER)
    assert "Personality (2 of 5)" in program.until("says what there is to say")
    program.press(LEFT)
    assert "← Back" in program.until("» Other…")  # where one was
    assert perdure.json("draft", "list")["drafts"][0]["phase"] == "basics"
    program.press(ENTER)
    program.until("? What should it be called? Ada: the 'first' 🦄")
    program.press("\x7f" * 15, ENTER)  # all but Ada
    program.until("Whatever the project uses")
    for asked in ("Explain code", "How should it speak?", "must it keep to?", "Done", "Which model", "Which skills"):
        program.press(ENTER)
        program.until(asked)
    program.press(ENTER)
    assert re.search(
        r"╭─ Ready to be built ─+╮.*name +Ada.*language +Read the project", program.until("Build it?"), re.DOTALL
    )
    program.press(ENTER)
    code, _, out = program.end()
    assert code == 0
    assert out.startswith("Ada is ready: ada, version 1.\n")
    assert perdure.json("draft", "list") == {"drafts": []}


def test_a_person_who_says_nothing_is_asked_what_the_bot_is_for(start: Start) -> None:
    program = start("new", "--json")
    program.until("? What should your bot do?")
    program.press(ENTER)
    assert "The description is empty." in program.until("? What should your bot do?")
    program.press("a timer for pasta", ENTER)
    program.until("What should it be called?")
    program.press(CTRL_C)
    code, _, out = program.end()
    assert (code, json.loads(out)["status"]) == (130, "kept")


@pytest.mark.parametrize("how", ["ctrl-c", "ctrl-d", "SIGINT", "SIGTERM", "SIGHUP"])
def test_who_leaves_learns_how_to_come_back(start: Start, perdure: Terminal, how: str) -> None:
    program = start("new", WISH)
    program.until("Other…")
    if how.startswith("SIG"):
        program.kill(signal.Signals[how])
    else:
        program.press({"ctrl-c": CTRL_C, "ctrl-d": CTRL_D}[how])
    code, shown, _ = program.end()
    (draft,) = perdure.json("draft", "list")["drafts"]
    assert code == 130
    assert "Each accepted answer is stored; what you typed or marked at this question is not. Resume with:" in shown
    assert f"new --resume {draft['session_id']}" in shown
    assert "Traceback" not in shown


def test_who_leaves_while_typing_is_notified_too(start: Start) -> None:
    program = start("new", WISH)
    program.until("← Back")
    program.press(UP, UP, ENTER)
    program.until("? What should it be called?")
    program.press("half a na", CTRL_C)
    code, shown, _ = program.end()
    assert code == 130
    assert "Each accepted answer is stored" in shown


def test_nothing_typed_leads_back_to_the_options(start: Start) -> None:
    program = start("new", WISH)
    program.until("← Back")
    program.press(UP, UP, ENTER)
    program.until("? What should it be called?")
    program.press(ENTER)
    assert "» Other…" in program.until("say it in your own words")


def question(shown: str) -> list[str]:
    """The question and its options, without the way they came to the screen."""
    return [line.strip(" »") for line in shown[shown.index("? Which") :].splitlines() if line.strip()]


def test_a_kill_in_the_middle_loses_nothing_and_shows_the_same_question(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    program.until("Other…")
    program.press(ENTER)
    before = program.until("Other…                     say it in your own words")
    program.kill(signal.SIGKILL)
    assert program.end()[0] == -signal.SIGKILL
    kept = perdure.json("draft", "show", perdure.json("draft", "list")["drafts"][0]["session_id"])
    assert kept["question_count"] == 1
    again = start("new", "--resume")
    shown = again.until("Other…                     say it in your own words")
    assert f"Resuming: {WISH}" in shown
    assert question(shown) == question(before)
    again.press(CTRL_C)
    assert again.end()[0] == 130
    assert perdure.json("draft", "show", kept["session_id"]) == kept


def test_an_answer_that_another_process_gave_first_is_shown(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure)
    program = start("new", "--resume", session_id)
    program.until("Other…")
    assert perdure("draft", "resume", session_id, "--answers", written([said("Ada")])) == 2
    program.press(ENTER)
    shown = program.until("Whatever the project uses")
    assert "has revision 2, not 1." in shown
    program.press(ENTER)
    program.until("Explain code")
    assert perdure.json("draft", "show", session_id)["turn"]["preview"]["name"] == "Ada"


def test_a_session_that_another_process_has_finished_says_so(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1])
    program = start("new", "--resume", session_id)
    program.until("Build it?")
    assert perdure("draft", "resume", session_id, "--yes") == 0
    program.press(ENTER)
    code, _, out = program.end()
    assert code == 0
    assert out.startswith("Ada is ready: ada, version 1.")
    assert len(perdure.json("bot", "list")["bots"]) == 1


def test_an_answer_that_does_not_fit_is_not_ticked_and_asked_for_again_as_it_was_typed(
    start: Start, perdure: Terminal
) -> None:
    program = start("new", "--resume", begun(perdure, *coding()[:5]))
    program.until("← Back")
    program.press(DOWN, ENTER)
    program.until("? Which model")
    program.press("ollama", ENTER)
    shown = program.until("← Back")
    assert "✗ Which model should answer?  ollama" in shown
    assert "'ollama' is not a model." in shown
    assert "✓ Which model" not in shown
    assert "--resume" not in shown  # nobody has left
    program.press(ENTER)
    program.until("(Other: provider:name) ollama")
    program.press(":x", ENTER)
    assert "✓ Which model should answer?  ollama:x" in program.until("Which skills")


def test_what_is_typed_at_a_list_is_an_answer_in_own_words(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    program.until("Other…")
    program.press("Jo and Kim", ENTER)
    assert "✓ What should it be called?  Jo and Kim" in program.until("Whatever the project uses")
    program.press(LEFT)
    program.until("» Other…")
    program.press(ENTER)
    program.until("Jo and Kim")
    program.press(ENTER)
    program.until("» Whatever the project uses")
    for asked in ("Explain code", "Personality (2 of 5)"):
        program.press(ENTER)
        program.until(asked)
    (draft,) = perdure.json("draft", "list")["drafts"]
    assert draft["phase"] == "personality"


def test_back_after_a_resume_shows_the_answers_that_were_given(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, *coding()[:4]))
    shown = program.until("← Back")
    assert "✓ What should it be called?  Ada" in shown
    assert "✓ How should it speak?  Friendly" in shown
    program.press(LEFT)
    assert "» Friendly" in program.until("Other…")
    program.press(LEFT)
    program.until("» Other…")
    program.press(ENTER)
    program.until("? What should it be called? Ada")
    program.press(ENTER)
    assert "» Python" in program.until("Whatever the project uses")


def test_answers_after_a_step_back_survive_ctrl_c_and_a_resume(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1])
    program = start("new", "--resume", session_id)
    program.until("Build it?")
    program.press(DOWN, DOWN, ENTER)  # ← Basics
    assert "» Other…" in program.until("← Back")
    program.press(CTRL_C)
    assert program.end()[0] == 130
    program = start("new", "--resume")
    program.until("» Other…")
    program.press(ENTER)
    program.until("? What should it be called? Ada")
    program.press(ENTER)
    for asked in ("Whatever the project uses", "Explain code", "» Friendly", "must it keep to?", "Which model"):
        program.until(asked)
        program.press(ENTER)
    program.until(f"? Which model should answer? (Other: provider:name) {MODEL}")
    program.press(CTRL_C)
    program.end()


def test_back_at_the_first_question_changes_the_description(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    program.until("← Back")
    program.press(LEFT)
    program.until(f"? What should your bot do? {WISH}")
    program.press(" for Rust", ENTER)
    assert "Rust Engineer" in program.until("Other…")
    (draft,) = perdure.json("draft", "list")["drafts"]
    assert draft["initial_description"] == f"{WISH} for Rust"


@pytest.mark.parametrize("typed", ["?", "help"])
def test_a_question_is_explained(start: Start, perdure: Terminal, typed: str) -> None:
    program = start("new", WISH)
    program.until("← Back")
    program.press(typed, *([] if typed == "?" else [ENTER]))
    assert "introduces itself by this name" in " ".join(program.until("Other…").split())
    assert perdure.json("draft", "list")["drafts"][0]["revision"] == 1


def test_back_can_be_typed(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, *coding()[:1]))
    program.until("Whatever the project uses")
    program.press("back", ENTER)
    assert "← Which language does it work with most?  Back" in program.until("» Other…")
    assert perdure.json("draft", "list")["drafts"][0]["phase"] == "basics"


def test_several_rules_are_marked_and_ones_own_added(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, *coding()[:4]))
    program.until("← Back")
    program.press(ENTER)
    assert "[x] Never print secrets" in program.until("» Done")
    program.press(UP, UP, ENTER)
    assert "[x] Never call code done without a test" in program.until("» Done")
    program.press(DOWN, ENTER)
    program.until("? Which rules must it keep to?")
    program.press("Be kind", ENTER)
    program.until("» Done")
    program.press(ENTER)
    program.until("Which model")
    session_id = perdure.json("draft", "list")["drafts"][0]["session_id"]
    assert perdure("draft", "resume", session_id, "--yes") == 0
    rules = perdure.json("bot", "show", "ada")["boundaries"]
    assert [rule.split(":")[0] for rule in rules] == [
        "Never print secrets",
        "Never call code done without a test",
        "Be kind",
    ]


def test_no_color_is_respected(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    program = start("new", WISH)
    program.until("← Back")
    program.press(ENTER)
    program.until("Whatever the project uses")
    assert not re.search(r"\x1b\[[0-9;]*(?:3[0-9]|9[0-7])[0-9;]*m", program.seen)


def test_any_part_can_be_answered_again_from_the_review(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1])
    program = start("new", "--resume", session_id)
    assert "← Basics       back to that part" in program.until("← Skills")
    program.press(DOWN, DOWN, DOWN, ENTER)
    assert "✓ Build it?  ← Personality" in program.until("← Back")
    shown = perdure.json("draft", "show", session_id)
    assert (shown["phase"], [each["answer"] for each in shown["conversation"]]) == (
        "personality",
        ["Ada", "Python", "Review changes"],
    )


def test_a_suggestion_has_a_star_and_is_where_one_begins(start: Start, perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    program = start("new", "--resume", begun(perdure, said("Eve"), FIRST, FIRST))
    shown = program.until("← Back")
    assert "» Friendly" in shown
    assert "★ your last coding bot was friendly" in shown


def test_a_change_shows_its_diff_and_nothing_happens_without_a_yes(start: Start, perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    begun_with = [said("name"), said("Ada II")]
    assert perdure("new", "--reconfigure", "ada", "--answers", written(begun_with)) == 2
    program = start("new", "--resume")
    assert re.search(r"Review \(5 of 5\).*\+display_name: Ada II", program.until("back to the last part"), re.DOTALL)
    program.press(DOWN, ENTER)
    program.until("What should change?")
    assert perdure.json("bot", "show", "ada")["name"] == "Ada"


@pytest.mark.parametrize("width", [40, 80, 110])
def test_every_word_is_shown_whatever_the_width(start: Start, perdure: Terminal, width: int) -> None:
    long = "I want a coding assistant " + "that reads a very long list of things " * 20
    program = start("new", "--resume", begun(perdure, said("X" * 120), wish=long), width=width)
    shown = " ".join(program.until("say it in your own words").split())
    assert (
        "Whatever the project uses reads the project first and follows its conventions ★ you named none Other…" in shown
    )
    session_id = perdure.json("draft", "list")["drafts"][0]["session_id"]
    assert perdure("draft", "resume", session_id, "--answers", written(coding()[1:-1])) == 2
    program = start("new", "--resume", session_id, width=width)
    shown = program.until("back to the last part")
    shown = shown[shown.index("╭") :]
    assert all(len(line) <= width for line in shown.splitlines() if "│" in line)
    assert shown.replace("\n", "").count("X") == 120
    assert "that reads a very long…" in " ".join(shown.replace("│", " ").split())


def test_hostile_texts_reach_no_terminal(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, said("[red]x[/red] ---")), width=100)
    assert "[red]x[/red]" in program.until("Other…")


def test_a_dumb_terminal_is_asked_by_numbers(start: Start) -> None:
    program = start("new", WISH, term="dumb")
    asks = "A number, your own words, back or ? [1]:"
    assert "  1. Coding Assistant: as in your description" in program.until(asks)
    program.press("?\n")
    assert "introduces itself by this name" in program.until(asks)
    program.press("Ada\n")
    program.until("back or ? [4]:")
    program.press("back\n")
    assert "(your answer was: Ada)" in program.until("back or ? [your answer]:")
    program.press("Eve\n")
    for number in (4, 1, 1):
        program.until(f"back or ? [{number}]:")
        program.press("\n")
    program.until("Numbers, your own words, back or ? [1]:")
    program.press("1, 3\n")
    for _ in range(3):
        program.until("]:")
        program.press("\n")
    code, _, out = program.end()
    assert code == 0
    assert out.startswith("Eve is ready: eve, version 1.")
    assert "\x1b" not in program.seen
    assert re.search(r"^  holds to: Never print secrets.*\n {12}Never call code done", program.seen, re.MULTILINE)


def test_a_narrow_dumb_terminal_has_its_lines_broken_between_words(start: Start) -> None:
    program = start("new", WISH, term="dumb", width=60)
    program.until("back or ? [1]:")
    program.press("Ada\n")
    shown = program.until("back or ? [4]:")
    assert "  4. Whatever the project uses: reads the project first and\n    follows its" in shown.replace("\r", "")
    program.press(CTRL_C)
    code, shown, _ = program.end()
    kept = "Each accepted answer is stored; what you typed or marked at\nthis question is not. Resume with:\n"
    assert (code, kept in shown.replace("\r", "")) == (130, True)


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_who_leaves_a_dumb_terminal_learns_how_to_come_back(start: Start, key: str) -> None:
    program = start("new", WISH, term="dumb")
    program.until("[1]:")
    if key == CTRL_C:
        program.kill(signal.SIGINT)
    else:
        program.press(key)
    code, shown, _ = program.end()
    assert code == 130
    assert "Each accepted answer is stored; what you typed or marked at this question is not. Resume with:" in shown


def test_a_deletion_is_asked_about_on_a_terminal(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure)
    program = start("draft", "delete", session_id)
    program.until("Delete it permanently?")
    program.press("n\n")
    assert program.end()[0] == 1
    program = start("draft", "delete", session_id)
    program.until("Delete it permanently?")
    program.press("y\n")
    assert program.end()[0] == 0
    assert perdure.json("draft", "list") == {"drafts": []}


END_OF_LIST = "to an earlier question"


def test_marked_and_typed_rules_survive_back_and_a_resume(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, said("Ada"), FIRST, FIRST, FIRST)
    marked = "Never print secrets, call it P1, not sev1"
    program = start("new", "--resume", session_id)
    program.until(END_OF_LIST)
    program.press(ENTER)
    assert "[x] Never print secrets" in program.until(END_OF_LIST)
    program.press("call it P1, not sev1", ENTER)
    program.until(marked)
    program.press(LEFT)  # before it is confirmed: to the tone
    assert "How should it speak?" in program.until(END_OF_LIST)
    program.press(ENTER)
    assert marked in program.until(END_OF_LIST)
    program.press(ENTER)  # Done
    assert "Which model" in program.until(END_OF_LIST)
    program.press(CTRL_C)
    program.end()
    program = start("new", "--resume", session_id)
    program.until(END_OF_LIST)
    program.press(LEFT)
    assert "How should it speak?" in program.until(END_OF_LIST)
    program.press(ENTER)
    shown = program.until(END_OF_LIST)
    assert "[x] Never print secrets" in shown
    assert marked in shown
    program.press(CTRL_C)
    program.end()


@pytest.mark.parametrize("typed", ["9", "1 2"])
def test_a_number_that_is_not_an_option_is_refused(start: Start, perdure: Terminal, typed: str) -> None:
    program = start("new", WISH)
    program.until(END_OF_LIST)
    program.press(typed, ENTER)
    program.until(f"There is no option {typed}. Type 1 to 3, counted from the top, or say it in words.")
    program.press(CTRL_C)
    program.end()
    assert perdure.json("draft", "list")["drafts"][0]["revision"] == 1


def test_a_choice_that_is_left_to_us_is_shown(start: Start) -> None:
    program = start("new", WISH)
    program.until(END_OF_LIST)
    program.press("I have no idea, you pick", ENTER)
    program.until("✓ What should it be called?  Coding Assistant")
    program.press(CTRL_C)
    program.end()


def test_enter_on_a_dumb_terminal_keeps_what_was_said_before_back(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, said("Ada"), FIRST, FIRST, FIRST)
    program = start("new", "--resume", session_id, term="dumb")
    program.until("[1]:")
    program.press("77\n")
    assert "There is no option 77. Type 1 to 4, counted from the top, or say it in words." in program.until("[1]:")
    program.press("never page me\n")
    assert "Which model" in program.until("[1]:")
    program.press("back\n")
    assert "How should it speak?" in program.until("[1]:")
    program.press("\n")
    assert "(your answer was: never page me)" in program.until("[your answer]:")
    program.press("\n")
    assert "Which model" in program.until("[1]:")
    program.kill(signal.SIGINT)
    program.end()
    answers = [each["answer"] for each in perdure.json("draft", "show", session_id)["conversation"]]
    assert "never page me" in answers
