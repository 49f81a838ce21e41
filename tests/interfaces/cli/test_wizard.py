"""The wizard at a real terminal: arrow keys, Other, Back, Ctrl-C, a kill, somebody else's answer, a dumb terminal."""

import json
import re
import signal

import pytest

from tests.interfaces.cli.interviews import FIRST, WISH, YES, begun, coding, forged, said, written
from tests.interfaces.cli.on_terminal import CTRL_C, CTRL_D, DOWN, ENTER, LEFT, UP, Start
from tests.interfaces.cli.terminal import Terminal


def test_a_bot_is_made_with_arrow_keys_other_and_back(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    assert "Basics (1 of 5) ──" in program.until("Other…        say it in your own words")
    program.press(UP, ENTER)  # from the first to the last, which is Other
    program.until("? What should it be called?")
    program.press("Ada: the 'first' 🦄", ENTER)
    assert "✓ What should it be called?  Ada: the 'first' 🦄" in program.until("Whatever the project uses")
    program.press(ENTER)
    assert re.search(
        r"╭─ So far ─+╮.*name   Ada: the 'first' 🦄.*focus  Python", program.until("ask this part again"), re.DOTALL
    )
    program.press(ENTER)
    assert "Personality (2 of 5)" in program.until("← Back")
    program.press(LEFT)
    assert "← Back" in program.until("» Other…")  # where one was
    assert perdure.json("draft", "list")["drafts"][0]["phase"] == "basics"
    program.press(ENTER)
    program.until("? What should it be called? Ada: the 'first' 🦄")
    program.press("\x7f" * 15, ENTER)  # all but Ada
    program.until("Whatever the project uses")
    for asked in ("Is that right?", "How should it speak?", "must hold to?", "Is that right?", "Which model"):
        program.press(ENTER)
        program.until(asked)
    for asked in ("Is that right?", "Which skills", "Is that right?", "Build it?"):
        program.press(ENTER)
        program.until(asked)
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
def test_who_leaves_is_told_how_to_come_back(start: Start, perdure: Terminal, how: str) -> None:
    program = start("new", WISH)
    program.until("Other…")
    if how.startswith("SIG"):
        program.kill(signal.Signals[how])
    else:
        program.press({"ctrl-c": CTRL_C, "ctrl-d": CTRL_D}[how])
    code, shown, _ = program.end()
    (draft,) = perdure.json("draft", "list")["drafts"]
    assert code == 130
    assert "Nothing is lost. Go on where you were:" in shown
    assert f"new --resume {draft['session_id']}" in shown
    assert "Traceback" not in shown


def test_who_leaves_while_typing_is_told_too(start: Start) -> None:
    program = start("new", WISH)
    program.until("Other…")
    program.press(UP, ENTER)
    program.until("? What should it be called?")
    program.press("half a na", CTRL_C)
    code, shown, _ = program.end()
    assert code == 130
    assert "Nothing is lost." in shown


def test_nothing_typed_leads_back_to_the_options(start: Start) -> None:
    program = start("new", WISH)
    program.until("Other…")
    program.press(UP, ENTER)
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
    assert f"Going on: {WISH}" in shown
    assert question(shown) == question(before)
    again.press(CTRL_C)
    assert again.end()[0] == 130
    assert perdure.json("draft", "show", kept["session_id"]) == kept


def test_an_answer_that_somebody_else_gave_first_is_shown(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure)
    program = start("new", "--resume", session_id)
    program.until("Other…")
    assert perdure("draft", "resume", session_id, "--answers", written([said("Ada")])) == 2
    program.press(ENTER)
    shown = program.until("Whatever the project uses")
    assert "is at revision 2 by now, not at 1." in shown
    program.press(ENTER)
    program.until("So far")
    assert perdure.json("draft", "show", session_id)["turn"]["preview"]["name"] == "Ada"


def test_a_session_that_somebody_else_has_finished_says_so(start: Start, perdure: Terminal) -> None:
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
    program = start("new", "--resume", begun(perdure, said("Ada"), FIRST, YES, FIRST, FIRST, YES))
    program.until("← Back")
    program.press(DOWN, ENTER)
    program.until("? Which model")
    program.press("ollama", ENTER)
    shown = program.until("← Back")
    assert "✗ Which model should answer?  ollama" in shown
    assert "'ollama' names no model." in shown
    assert "✓" not in shown
    assert "--resume" not in shown  # nobody has left
    program.press(ENTER)
    program.until("(Other: provider:name) ollama")
    program.press(":x", ENTER)
    assert "✓ Which model should answer?  ollama:x" in program.until("Is that right?")


def test_what_is_typed_at_a_list_is_an_answer_in_own_words(start: Start, perdure: Terminal) -> None:
    program = start("new", WISH)
    program.until("Other…")
    program.press("Jo and Kim", ENTER)
    assert "✓ What should it be called?  Jo and Kim" in program.until("Whatever the project uses")
    program.press(ENTER)
    program.until("ask this part again")
    program.press("x", "n")  # only y and n are answers here
    assert "Is that right?  No" in program.until("» Other…")
    program.press(ENTER)
    program.until("Jo and Kim")
    program.press(ENTER)
    program.until("» Python")
    program.press(DOWN, ENTER)
    program.until("ask this part again")
    program.press("y")
    program.until("Personality (2 of 5)")
    (draft,) = perdure.json("draft", "list")["drafts"]
    assert draft["phase"] == "personality"


def test_who_answers_a_part_again_begins_with_what_was_said(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, said("Ada"), FIRST, YES))
    program.until("← Back")
    program.press(DOWN, ENTER)
    program.until("must hold to?")
    program.press(LEFT)
    program.until("What should it be called?")
    program.press(ENTER)
    program.until("Whatever the project uses")
    program.press(ENTER)
    program.until("ask this part again")
    program.press(ENTER)
    assert "» Friendly" in program.until("← Back")


def test_any_part_can_be_answered_again_from_the_review(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1])
    program = start("new", "--resume", session_id)
    assert "← Basics       back to that part" in program.until("← Model")
    program.press(DOWN, DOWN, DOWN, ENTER)
    assert "✓ Build it?  ← Personality" in program.until("← Back")
    shown = perdure.json("draft", "show", session_id)
    assert (shown["phase"], [each["answer"] for each in shown["conversation"]]) == ("personality", ["Ada", "Python"])


def test_a_preview_that_is_resumed_says_which_part_it_is_of(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, said("Ada"), FIRST))
    assert re.search(r"Going on: .*Basics \(1 of 5\).*So far", program.until("ask this part again"), re.DOTALL)


def test_a_suggestion_has_a_star_and_is_where_one_begins(start: Start, perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    program = start("new", "--resume", begun(perdure, said("Eve"), FIRST, YES))
    shown = program.until("← Back")
    assert "» Friendly" in shown
    assert "★ your last coding bot was friendly" in shown


def test_a_change_shows_its_diff_and_nothing_happens_without_a_yes(start: Start, perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    begun_with = [said("Ada II"), YES, FIRST, FIRST, YES, FIRST, FIRST, FIRST, YES, FIRST, YES]
    assert perdure("new", "--reconfigure", "ada", "--answers", written(begun_with)) == 2
    program = start("new", "--resume")
    assert re.search(r"Review \(5 of 5\).*\+display_name: Ada II", program.until("back to the skills"), re.DOTALL)
    program.press(DOWN, ENTER)
    program.until("Which skills")
    assert perdure.json("bot", "show", "ada")["name"] == "Ada"


@pytest.mark.parametrize("width", [40, 80, 110])
def test_every_word_is_shown_whatever_the_width(start: Start, perdure: Terminal, width: int) -> None:
    long = "I want a coding assistant " + "that reads a very long list of things " * 20
    program = start("new", "--resume", begun(perdure, said("X" * 120), wish=long), width=width)
    shown = " ".join(program.until("say it in your own words").split())
    assert "Whatever the project uses reads the project first and follows its habits Other…" in shown
    program.press(ENTER)
    shown = program.until("ask this part again")
    assert all(len(line) <= width for line in shown.splitlines() if "│" in line)
    assert shown.replace("\n", "").count("X") == 120
    assert "that reads a very long…" in " ".join(shown.replace("│", " ").split())


def test_hostile_texts_reach_no_terminal(start: Start, perdure: Terminal) -> None:
    program = start("new", "--resume", begun(perdure, said("[red]x[/red] ---")), width=100)
    program.until("Other…")
    program.press(ENTER)
    assert "[red]x[/red]" in program.until("Is that right?")


def test_a_dumb_terminal_is_asked_by_numbers(start: Start) -> None:
    program = start("new", WISH, term="dumb")
    assert "  1. Coding Smith: says what it is about: coding" in program.until("A number, your own words [1]:")
    program.press("Ada\n")
    program.until("A number, your own words [1]:")
    program.press("2\n")
    program.until("Is that right? yes, no [yes]:")
    program.press("\n")
    program.until("A number, your own words, or back [1]:")
    program.press("back\n")
    program.until("A number, your own words [1]:")
    program.press("Eve\n")
    for _ in range(10):
        program.until("]:")
        program.press("\n")
    code, _, out = program.end()
    assert code == 0
    assert out.startswith("Eve is ready: eve, version 1.")
    assert "\x1b" not in program.seen


@pytest.mark.parametrize("key", [CTRL_C, CTRL_D])
def test_who_leaves_a_dumb_terminal_is_told_how_to_come_back(start: Start, key: str) -> None:
    program = start("new", WISH, term="dumb")
    program.until("[1]:")
    if key == CTRL_C:
        program.kill(signal.SIGINT)
    else:
        program.press(key)
    code, shown, _ = program.end()
    assert code == 130
    assert "Nothing is lost. Go on where you were:" in shown


def test_a_deletion_is_asked_about_on_a_terminal(start: Start, perdure: Terminal) -> None:
    session_id = begun(perdure)
    program = start("draft", "delete", session_id)
    program.until("Delete it for good?")
    program.press("n\n")
    assert program.end()[0] == 1
    program = start("draft", "delete", session_id)
    program.until("Delete it for good?")
    program.press("y\n")
    assert program.end()[0] == 0
    assert perdure.json("draft", "list") == {"drafts": []}
