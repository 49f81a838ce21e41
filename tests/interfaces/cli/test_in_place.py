"""Questions of a goal at a real terminal: answered in place, left open, interrupted, or answered elsewhere."""

import asyncio
import select
import signal
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app import open_ephemeral
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.run_ui.in_place import InPlace
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi, Showing
from perdure.kernel.events import Event, GoalBegun, Head, MindSpec, OutcomeUnknown, ToolCall, seal
from perdure.kernel.fold import apply, fold
from tests.interfaces.cli.on_terminal import CTRL_C, CTRL_D, DOWN, ENTER, ESC, UP, Program, Start
from tests.interfaces.cli.terminal import Terminal
from tests.waiting import waiting_goal

SURE = '{id: sure, ask: {question: "Publish it?", options: [yes, no]}}'
NAME = '{id: name, ask: {question: "Under which title?"}}'
LEAVE = "leave it  decide later; the goal keeps waiting"


def plan(*questions: str) -> str:
    """Write a plan with questions, and a step after them."""
    needs = [question[5:9].strip(",") for question in questions]
    steps = [*questions, f'{{id: end, shell: true, exec: "echo . >> ended", needs: [{", ".join(needs)}]}}']
    Path("plan.yaml").write_text("goal: publish\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
    return "plan.yaml"


def decisions(perdure: Terminal) -> list[tuple[str, str, Any]]:
    """Return what was decided on the newest goal, in order."""
    perdure("goal", "export", perdure.newest())
    found = [event["payload"] for event in perdure.events if event["type"] == "decision"]
    return [(each["call_id"], each["decision"], each.get("value")) for each in found]


def status(perdure: Terminal) -> str:
    return str(perdure.goals()[0]["status"])


def test_two_questions_of_a_plan_are_answered_in_the_order_they_were_asked(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE, NAME))
    assert "? Publish it? (↑ ↓ Enter; Esc leaves it open)" in program.until(LEAVE)
    program.press(DOWN, ENTER)
    assert "✓ Publish it?  no" in program.until("? Under which title?")
    program.press("Ada's report", ENTER)
    code, shown, _ = program.end()
    assert code == 0
    assert "✓ Under which title?  Ada's report" in shown
    assert decisions(perdure) == [("sure.1", "answer", "no"), ("name.1", "answer", "Ada's report")]
    assert Path("ended").read_text() == ".\n"


def test_a_question_of_a_flow_is_answered_in_place(start: Start, ready: Path) -> None:
    (ready / "asking.py").write_text(
        "from perdure import Goal, flow\n\n\n@flow\nasync def publish(goal: Goal) -> str:\n"
        "    who = await goal.ask('Who signs it?')\n    when = await goal.ask('When?', ['now', 'later'])\n"
        "    return f'{who}, {when}'\n"
    )
    program = start("run", "--flow", "asking:publish")
    program.until("? Who signs it?")
    program.press("Ada", ENTER)
    program.until(LEAVE)
    program.press(ENTER)
    code, shown, out = program.end()
    assert (code, out) == (0, "Ada, now\n")
    assert "resumed after event" not in shown


HURRIED = """
from perdure import flow

@flow
async def asks(goal, seconds):
    try:
        return await goal.ask("Approve?", ["yes", "no"], timeout_s=seconds)
    except TimeoutError:
        return "too late"

@flow
async def asks_in_a_block(goal, seconds):
    try:
        async with goal.timeout(seconds):
            return await goal.ask("Approve?", ["yes", "no"])
    except TimeoutError:
        return "too late"
"""


@pytest.mark.parametrize("flow", ["asks", "asks_in_a_block"])
def test_a_question_with_a_near_deadline_is_asked_in_place(start: Start, ready: Path, flow: str) -> None:
    (ready / "hurried.py").write_text(HURRIED)
    program = start("run", "--flow", f"hurried:{flow}", "--args", "[45]")
    program.until(LEAVE)
    program.press(DOWN, ENTER)
    code, _, out = program.end()
    assert (code, out) == (0, "no\n")


@pytest.mark.parametrize(
    ("flow", "what", "term"),
    [("asks", "/ask#0.1", "xterm-256color"), ("asks_in_a_block", "/timeout#0.1", "dumb")],
)
def test_a_deadline_that_passes_ends_the_question(start: Start, ready: Path, flow: str, what: str, term: str) -> None:
    (ready / "hurried.py").write_text(HURRIED)
    program = start("run", "--flow", f"hurried:{flow}", "--args", "[2]", term=term)
    program.until("leave it")
    code, shown, out = program.end()
    assert (code, out) == (0, "too late\n")
    assert f"{what} timed out at 20" in shown


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("no", "no"), ("2", "no"), ("N", "no"), ("x\x7fno", "no"), ("zzz" + UP + DOWN, "yes"), ("", "yes")],
    ids=["label", "number", "beginning", "corrected", "moved", "nothing"],
)
def test_enter_accepts_the_option_that_was_typed(start: Start, perdure: Terminal, keys: str, answer: str) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    program.press(keys + ENTER)
    assert program.end()[0] == 0
    assert decisions(perdure) == [("sure.1", "answer", answer)]


def test_enter_rejects_a_text_that_names_no_option(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    program.press("zzz" + ENTER)
    program.until("'zzz' names none of the options")
    program.press(ESC)
    assert program.end()[0] == 5
    assert decisions(perdure) == []


@pytest.mark.parametrize("key", [CTRL_D, ESC, ENTER], ids=["ctrl-d", "esc", "nothing"])
def test_a_question_that_is_left_open_keeps_the_goal_waiting(start: Start, perdure: Terminal, key: str) -> None:
    program = start("run", "--plan", plan(NAME))
    program.until("? Under which title?")
    program.press(key)
    code, shown, _ = program.end()
    assert code == 5
    assert f"goal answer {perdure.newest()} ANSWER --resume" in shown
    assert decisions(perdure) == []


def test_a_question_left_open_does_not_hold_up_what_another_answer_allows(start: Start, perdure: Terminal) -> None:
    path = Path(plan(SURE))
    path.write_text(path.read_text() + f"  - {NAME}\n")
    program = start("run", "--plan", "plan.yaml")
    program.until(LEAVE)
    program.press(ENTER)
    program.until("? Under which title?")
    program.press(CTRL_D)
    assert program.end()[0] == 5
    assert Path("ended").exists()
    assert decisions(perdure) == [("sure.1", "answer", "yes")]


@pytest.mark.parametrize("how", ["ctrl-c", "SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interrupt_at_a_question_says_how_to_come_back(start: Start, perdure: Terminal, how: str) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    if how == "ctrl-c":
        program.press(CTRL_C)
    else:
        program.kill(signal.Signals[how])
    code, shown, _ = program.end()
    said = shown[shown.index("Interrupted") :].splitlines()
    assert code == 130
    assert said[0] == "Interrupted; the goal keeps waiting. To answer, resume it:"
    assert said[1].endswith(f"run --resume {perdure.newest()}")
    assert len(said) == 2
    assert status(perdure) == "waiting"


def test_a_step_after_an_answer_can_be_interrupted(start: Start, perdure: Terminal) -> None:
    Path("plan.yaml").write_text(
        f"goal: publish\nsteps:\n  - {SURE}\n"
        '  - {id: end, shell: true, exec: "touch begun; until test -e go; do sleep 0.02; done", needs: [sure]}\n'
    )
    program = start("run", "--plan", "plan.yaml")
    program.until(LEAVE)
    program.press(ENTER)
    program.until("end   running")
    while not Path("begun").exists():  # in a session of its own by then, which Ctrl-C does not reach
        select.select([], [], [], 0.01)
    program.press(CTRL_C)
    program.until("Stopping after the running step")
    Path("go").touch()
    assert program.end()[0] in (0, 130)
    assert perdure("run", "--resume", perdure.newest()) == 0


def test_an_answer_from_elsewhere_ends_the_question_and_the_run_continues(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    assert perdure("goal", "answer", perdure.newest(), "no") == 0
    code, shown, _ = program.end()
    assert code == 0
    assert "sure.1 was decided elsewhere by a person: answer 'no'." in shown
    assert decisions(perdure) == [("sure.1", "answer", "no")]


def test_a_goal_that_another_process_resumes_is_waited_for(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    assert perdure("goal", "answer", perdure.newest(), "no", "--resume") == 0
    code, _, _ = program.end()
    assert (code, status(perdure)) == (0, "done")
    assert Path("ended").read_text() == ".\n"


def test_a_goal_that_is_cancelled_elsewhere_ends_the_question(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    assert perdure("goal", "cancel", perdure.newest()) == 0
    code, shown, _ = program.end()
    assert code == 130
    assert "The goal was ended elsewhere: cancelled." in shown


@pytest.mark.parametrize("flag", ["--no-input", "--json", "--jsonl"])
def test_who_wants_no_questions_gets_none(start: Start, flag: str) -> None:
    program = start("run", "--plan", plan(SURE), flag)
    code, shown, _ = program.end()
    assert code == 5
    assert LEAVE not in shown


def test_a_kill_at_a_question_loses_nothing_and_it_is_asked_again(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE))
    program.until(LEAVE)
    program.kill(signal.SIGKILL)
    assert program.end()[0] == -signal.SIGKILL
    assert (status(perdure), decisions(perdure)) == ("waiting", [])
    again = start("run", "--resume", perdure.newest())
    again.until(LEAVE)
    again.press(ENTER)
    assert again.end()[0] == 0
    assert decisions(perdure) == [("sure.1", "answer", "yes")]


def test_a_terminal_that_cannot_move_its_cursor_is_asked_by_numbers(start: Start, perdure: Terminal) -> None:
    program = start("run", "--plan", plan(SURE, NAME), term="dumb")
    assert "  2. no\n" in program.until("A number (empty: leave it open):").replace("\r", "")
    program.press("9\n")
    program.until("Expected a number from 1 to 3.")
    program.press("2\n")
    program.until("Your answer (empty: leave it open):")
    program.press("Ada\n")
    assert program.end()[0] == 0
    assert decisions(perdure) == [("sure.1", "answer", "no"), ("name.1", "answer", "Ada")]


def resumed_unknown(start: Start, ready: Path) -> Program:
    async def make() -> str:
        async with Perdure.open() as p:
            return await waiting_goal(p.database.state_store(), "unknown", ready)

    program = start("goal", "resume", asyncio.run(make()))
    shown = program.until(LEAVE)
    assert "Nobody knows." in shown
    assert "skip      its effect exists" in shown
    assert "retry     it had no effect; run it again" in shown
    return program


def test_an_unknown_outcome_is_left_open_by_enter_alone(start: Start, perdure: Terminal, ready: Path) -> None:
    program = resumed_unknown(start, ready)
    program.press(ENTER)
    assert program.end()[0] == 5
    assert (decisions(perdure), Path("paid").exists()) == ([], False)


def test_an_unknown_outcome_is_settled_in_place(start: Start, perdure: Terminal, ready: Path) -> None:
    program = resumed_unknown(start, ready)
    program.press(UP, UP, ENTER)
    code, shown, _ = program.end()
    assert code == 0
    assert "✓ What should be done about pay?  retry" in shown
    assert decisions(perdure) == [("pay.1", "retry", None)]
    assert Path("paid").read_text() == ".\n"


def test_why_an_outcome_is_unknown_is_said_once_before_the_question(ready: Path) -> None:
    why = OutcomeUnknown("pay.1", "Nobody knows.")
    call = ToolCall("pay.1", "pay", "exec", {"argv": ["pay"]}, "once")
    begun = seal(GoalBegun("pay", MindSpec("plan"), str(ready)), Head("g"), event_id="e", iteration=0, timestamp_us=0)
    state = fold([begun])
    for body in (call, why):
        event = seal(body, state.head, event_id="e", iteration=1, timestamp_us=0)
        apply(state, event)
    options = Options(json=False, home=None, verbose=True, debug=False, no_input=True)

    async def whys(events: list[Event]) -> list[str]:
        ui = RunUi(Showing(options))
        ui._see(events, state)
        async with open_ephemeral() as goals:
            offers = InPlace(ui, goals, RunOptions())._offers(state)
        await ui.close(is_clean=True)
        return [offer.why for offer in offers]

    assert asyncio.run(whys([])) == ["Nobody knows."]
    assert asyncio.run(whys([event])) == [""]
