"""`perdure run` and `perdure goal`, called in this process: what is printed where, and how it ends."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal

PLAN = """
goal: publish
steps:
  - {id: fetch, exec: "echo fetched"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, exec: "sh -c 'echo $PERDURE_OUT_SURE'", needs: [sure]}
"""


@pytest.fixture
def plan(ready: Path) -> Path:
    path = ready / "plan.yaml"
    path.write_text(PLAN)
    return path


def test_a_command_prints_its_output_and_nothing_else_on_standard_output(perdure: Terminal) -> None:
    assert perdure("run", "--", "printf", "a b") == 0
    assert perdure.out == "a b"
    assert "step command: done in" in perdure.err


def test_what_a_tool_complains_about_goes_to_standard_error(perdure: Terminal) -> None:
    assert perdure("run", "--shell", "echo good; echo bad >&2; exit 3") == 1
    assert perdure.out == "good\n"
    assert "bad\n" in perdure.err
    assert "failed: exit 3" in perdure.err


def test_a_command_that_fails_ends_with_one_and_tells_its_own_code(perdure: Terminal) -> None:
    goal = perdure.json("run", "--", "sh", "-c", "exit 7")
    assert goal["status"] == "failed"
    assert goal["output"]["exit_code"] == 7


def test_the_goal_of_run_is_the_goal_of_the_list(perdure: Terminal) -> None:
    goal = perdure.json("run", "--", "true")
    (listed,) = perdure.goals()
    assert {**goal, **listed, "output": goal["output"], "tokens": goal["tokens"]} == goal


def test_events_come_as_lines_and_nothing_else(perdure: Terminal) -> None:
    assert perdure("run", "--jsonl", "--", "true") == 0
    assert perdure.err == ""
    assert [event["type"] for event in perdure.events] == ["goal", "action", "tool_output", "termination"]
    assert [event["seq"] for event in perdure.events] == [1, 2, 3, 4]


def test_a_resumed_run_tells_only_of_its_own_events(perdure: Terminal, plan: Path) -> None:
    assert perdure("run", "--plan", str(plan)) == 5
    assert perdure.out == "fetched\n"
    perdure("goal", "answer", perdure.newest(), "yes")
    assert perdure("run", "--continue", "--jsonl") == 0
    assert perdure.events[0]["seq"] > 4


def test_a_goal_that_has_ended_is_reported_again_and_left_unchanged(perdure: Terminal) -> None:
    perdure("run", "--", "echo", "hello")
    before = perdure.goals()
    goal_id = perdure.newest()
    for arguments in (["run", "--resume", goal_id], ["goal", "resume", goal_id]):
        assert perdure(*arguments) == 0
        assert perdure.out == "hello\n"
        assert "has ended already" in perdure.err
    assert perdure("run", "--resume", goal_id, "--jsonl") == 0
    assert perdure.out == ""
    assert perdure.goals() == before


def test_a_question_is_answered_by_the_exact_command_that_is_shown(perdure: Terminal, plan: Path) -> None:
    assert perdure("run", "--plan", str(plan)) == 5
    goal = perdure.newest()
    assert perdure("goal", "answer", goal, "sure.1", "yes", "--resume") == 0
    assert perdure.out == "yes\n"


def test_an_answer_is_only_recorded_unless_asked_to_continue(perdure: Terminal, plan: Path) -> None:
    perdure("run", "--plan", str(plan))
    goal = perdure.newest()
    assert perdure("goal", "answer", goal, "no") == 0
    assert perdure.out == f"Recorded.\nResume it where it stopped.\n  perdure goal resume {goal}\n"
    assert perdure.goals()[0]["steps"] == 1
    assert perdure("run", "--resume", goal) == 0
    assert perdure.out == "no\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["answer", "ID", "maybe"], 2),
        (["answer", "ID", "other.1", "yes"], 4),
        (["answer", "ID", "sure.1", "yes", "really"], 2),
        (["decide", "ID", "fetch.1", "retry"], 4),
        (["decide", "ID", "fetch.1", "never"], 2),
        (["decide", "ID", "fetch.1", "retry", "--value", "1"], 2),
        (["decide", "ID", "fetch.1", "skip", "--value", "{"], 2),
        (["approve", "ID"], 4),
        (["deny", "ID", "--reason", "no"], 4),
        (["resume", "ID", "--json", "--jsonl"], 2),
        (["resume", "ID", "--max-iterations", "1"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_what_fits_nothing_is_refused_and_changes_nothing(
    perdure: Terminal, plan: Path, arguments: list[str], code: int
) -> None:
    perdure("run", "--plan", str(plan))
    before = perdure.goals()
    assert perdure("goal", *[before[0]["id"] if word == "ID" else word for word in arguments]) == code
    assert perdure.goals() == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["--list", "--", "a"], 2),
        (["a", "b"], 2),
        (["--"], 2),
        (["a", "--ephemeral"], 2),
        (["--bot", "ada", "--", "a"], 2),
        (["--model", "openai:x", "--shell", "a"], 2),
        (["--plan", "plan.yaml", "--", "a"], 2),
        (["a", "--plan", "plan.yaml"], 2),
        (["--continue", "--resume", "x"], 2),
        (["--list", "--jsonl"], 2),
        (["--list", "--max-tokens", "5"], 2),
        (["--json", "--jsonl", "--", "a"], 2),
        (["--plan", "plan.yaml", "--shell", "a"], 2),
        (["--resume", "x", "--ephemeral"], 2),
        (["--jobs", "0", "--", "a"], 2),
        (["--max-iterations", "0", "--", "a"], 2),
        (["--budget", "nan", "--", "a"], 2),
        (["--budget", "-1", "--", "a"], 2),
        (["--timeout", "soon", "--", "a"], 2),
        (["--timeout", "0s", "--", "a"], 2),
        (["--", ""], 2),
        (["--plan", "nowhere.yaml"], 3),
        (["--plan", "."], 3),
        (["--resume", "nothing"], 3),
        (["--continue"], 3),
        (["--", "no-such-program-anywhere"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_bad_input_has_its_exit_code_and_one_sentence(perdure: Terminal, arguments: list[str], code: int) -> None:
    Path("plan.yaml").write_text(PLAN)
    assert perdure("run", *arguments) == code
    assert "Traceback" not in perdure.err
    assert perdure.out == "" or "--json" in arguments


@pytest.mark.parametrize("name", ["plan.yaml", "plan.yml"])
def test_a_plan_file_is_not_a_text_for_a_model(perdure: Terminal, name: str) -> None:
    Path(name).write_text("goal: g\nsteps: [{id: a, exec: 'true'}]")
    assert perdure("run", name) == 2
    assert perdure.err == f"perdure: {name} is a file. To run it as a plan: perdure run --plan {name}\n"
    assert perdure.goals() == []
    assert perdure("run", "--", "cat", name) == 0


def test_a_plan_comes_from_a_shell_pipe_too_and_a_named_one_is_refused(perdure: Terminal) -> None:
    os.mkfifo("pipe")
    assert perdure("run", "--plan", "pipe") == 2
    assert "pipe is a pipe, not a regular file" in perdure.err
    assert perdure.goals() == []
    ours, its = os.pipe()
    with os.fdopen(its, "w") as pipe:
        pipe.write("goal: g\nsteps: [{id: a, exec: 'echo piped'}]")
    assert perdure("run", "--plan", f"/dev/fd/{ours}") == 0
    assert perdure.out == "piped\n"
    os.close(ours)


def test_a_plan_that_is_invalid_is_refused_with_file_and_line(perdure: Terminal) -> None:
    Path("plan.yaml").write_text("goal: x\nsteps:\n  - {id: a, exec: [true], needs: [b]}\n")
    assert perdure("run", "--plan", "plan.yaml") == 2
    assert "plan.yaml:3" in perdure.err
    assert perdure.goals() == []


TWO = "goal: x\nsteps:\n  - {id: a, exec: 'true'}\n  - {id: b, exec: 'true', needs: [a]}\n"


def test_a_limit_makes_a_goal_wait_until_it_is_raised(perdure: Terminal) -> None:
    Path("plan.yaml").write_text(TWO)
    assert perdure("run", "--plan", "plan.yaml", "--max-iterations", "1") == 6
    goal = perdure.newest()
    assert perdure.goals()[0]["waiting_for"] == "limit"
    assert perdure("run", "--resume", goal) == 6
    assert f"  perdure goal resume {goal} --max-iterations 2\n" in perdure.err
    assert perdure("goal", "resume", goal, "--max-iterations", "9") == 0
    assert "limit: iterations raised to 9" in perdure.err


def test_a_timeout_is_the_time_of_the_tools(perdure: Terminal) -> None:
    Path("plan.yaml").write_text(TWO.replace("'true'}", "'sleep 1.1'}"))
    assert perdure("run", "--plan", "plan.yaml", "--timeout", "1s") == 6
    assert "--timeout" in perdure.err


def test_continue_takes_the_newest_goal_of_this_folder(
    perdure: Terminal, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perdure("run", "--plan", str(plan))
    here = perdure.newest()
    (tmp_path / "other").mkdir()
    text = plan.read_text()
    monkeypatch.chdir(tmp_path / "other")
    Path("plan.yaml").write_text(text)
    perdure("run", "--plan", "plan.yaml")
    assert perdure("run", "--continue") == 5
    assert here not in perdure.err
    monkeypatch.chdir(tmp_path / "work")
    assert perdure("run", "--continue") == 5
    assert here in perdure.err


def test_goals_are_listed_by_their_status(perdure: Terminal, plan: Path) -> None:
    perdure("run", "--plan", str(plan))
    perdure("run", "--", "true")
    perdure("run", "--", "false")
    assert [goal["mind"] for goal in perdure.goals("--status", "waiting")] == ["plan"]
    assert [goal["text"] for goal in perdure.goals("--status", "done")] == ["true"]
    assert [goal["text"] for goal in perdure.goals("--status", "failed")] == ["false"]
    assert perdure.goals("--status", "running") == perdure.goals("--status", "interrupted") == []
    assert len(perdure.goals("--limit", "2")) == 2
    assert perdure("goal", "ls", "--status", "sleeping") == 2


def test_show_has_the_calls_and_the_way_to_continue(perdure: Terminal, plan: Path) -> None:
    perdure("run", "--plan", str(plan))
    goal = perdure.newest()
    shown = perdure.json("goal", "show", goal)
    assert [(call["step"], call["state"]) for call in shown["timeline"]] == [("fetch", "done"), ("sure", "asks")]
    assert shown["timeline"][1]["options"] == ["yes", "no"]
    assert shown["pending"] == []
    perdure("goal", "show", goal)
    command = f"perdure goal answer {goal} ANSWER --resume"
    assert f"sure asks: Publish? (yes, no)\n  {command}\n" in perdure.out
    assert shown["next"] == [{"command": command, "why": "sure asks: Publish? (yes, no)"}]


def test_the_exact_command_names_the_home_that_was_named(perdure: Terminal, plan: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    perdure("run", "--plan", str(plan), "--home", home)
    assert f"ANSWER --resume --home {home}\n" in perdure.err


def test_cancel_ends_a_goal_once(perdure: Terminal, plan: Path) -> None:
    perdure("run", "--plan", str(plan))
    goal = perdure.newest()
    assert perdure("goal", "cancel", goal) == 0
    assert perdure.goals()[0]["reason"] == "cancelled"
    assert perdure("goal", "cancel", goal) == 4
    assert perdure("run", "--resume", goal) == 130


def test_replay_prints_the_timeline_and_a_hash(perdure: Terminal) -> None:
    perdure("run", "--", "echo", "hello")
    first = perdure.json("goal", "replay", "20")["state_hash"]
    assert perdure("goal", "replay", "20") == 0
    assert f"State hash: {first}" in perdure.out
    assert "2-3     command" in perdure.out


def test_replay_names_an_event_that_was_tampered_with(perdure: Terminal) -> None:
    perdure("run", "--", "echo", "hello")
    with closing(sqlite3.connect(Path(os.environ["PERDURE_HOME"]) / "perdure.db")) as plain, plain:
        plain.execute("DROP TRIGGER events_are_never_changed")
        plain.execute("UPDATE events SET payload = replace(payload, 'hello', 'jello') WHERE seq = 3")
    assert perdure("goal", "replay", "20") == 7
    assert "Event 3" in perdure.err


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_an_ephemeral_goal_leaves_no_trace(perdure: Terminal, tmp_path: Path) -> None:
    before = tree(tmp_path)
    assert perdure("run", "--ephemeral", "--", "echo", "hello") == 0
    assert perdure.out == "hello\n"
    assert tree(tmp_path) == before
    assert perdure("run", "--ephemeral", "--home", str(tmp_path / "new"), "--", "echo", "hello") == 0
    assert tree(tmp_path) == before


def test_an_ephemeral_goal_that_waits_says_that_it_is_gone(perdure: Terminal, plan: Path) -> None:
    assert perdure("run", "--ephemeral", "--plan", str(plan)) == 5
    assert "ephemeral" in perdure.err
    assert "--resume" not in perdure.err


def test_words_of_a_goal_send_no_escapes(perdure: Terminal) -> None:
    Path("plan.yaml").write_text('goal: "x \\e[31m"\nsteps:\n  - {id: a, ask: {question: "\\e]0;owned\\a?\\u202e"}}\n')
    perdure("run", "--plan", "plan.yaml")
    said = perdure.err
    perdure("goal", "show", perdure.newest())
    said += perdure.out
    perdure("run", "--list")
    assert not {"\x1b", "\x07", "\u202e"} & set(said + perdure.out)
    assert "\\x1b]0;owned" in said


def test_the_output_of_a_tool_is_unchanged_where_no_terminal_is(perdure: Terminal) -> None:
    assert perdure("run", "--", "printf", "\\033[31m\\r\\n") == 0
    assert perdure.out == "\x1b[31m\r\n"
