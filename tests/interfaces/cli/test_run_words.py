"""`perdure run "words"` is for a model and `perdure run -- CMD` is a command, whatever is configured."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.goals.display.timeline import timeline
from perdure.kernel.conversation.messages import Message, TranscriptSummary
from perdure.kernel.conversation.parts import TokenUsage
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.answers import ScriptedUsage
from tests.interfaces.cli.interviews import forged
from tests.interfaces.cli.remote import Both
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_hints import state_of

NO_MODEL = (
    "No model is configured. `perdure model list` shows the providers; set one: perdure model default PROVIDER:NAME."
    " To run a command: perdure run -- echo hello"
)
WORDS = ["--json", "--", "--shell", "", "a  b", "'", '"', "$HOME", "`x`", "*", "a|b", "\\", "äß €", "a\nb", "-n"]
"""Arguments that a shell, or a parser of options, would change."""


def test_words_are_for_the_model_and_the_answer_is_the_output(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("Hello."))
    assert perdure("run", "--model", "openai:m", "echo hello") == 0
    assert perdure.out == "Hello.\n"
    (goal,) = perdure.goals()
    assert (goal["mind"], goal["text"], goal["status"], goal["bot"]) == ("model", "echo hello", "done", None)


def test_a_bot_gets_the_words_with_the_model_of_the_environment(
    perdure: Terminal, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slug = forged(perdure)["bot_slug"]
    monkeypatch.setenv("PERDURE_MODEL", "openai:gpt-4.1-mini")
    model_server.script.add(ScriptedAnswer("Done."))
    goal = perdure.json("run", "--bot", slug, "--budget", "2", "Review it.")
    assert (goal["bot"], goal["status"], goal["limits"]["usd"]["limit"]) == (slug, "done", 2)
    assert perdure("run", "--bot", "nobody-here", "Review it.") == 3


@pytest.mark.parametrize("text", ["echo hello", "Summarise it."])
def test_without_a_model_words_are_refused_and_nothing_is_recorded(perdure: Terminal, text: str) -> None:
    assert perdure("run", text) == 8
    assert perdure.err == f"perdure: {NO_MODEL}\n"
    assert perdure.goals() == []


def test_several_words_without_quotes_are_refused_with_the_command(perdure: Terminal) -> None:
    assert perdure("run", "echo", "a b") == 2
    assert perdure.err.endswith("To run a command: perdure run -- echo 'a b'\n")


def test_a_command_gets_its_arguments_as_given_with_a_model_too(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_MODEL", "openai:m")
    assert perdure("run", "--no-input", "--", "printf", "%s,", *WORDS) == 0
    assert perdure.out == "".join(f"{word}," for word in WORDS)
    (goal,) = perdure.goals()
    assert (goal["mind"], shlex.split(goal["text"])) == ("command", ["printf", "%s,", *WORDS])


def test_options_before_the_first_dashes_are_of_perdure_and_those_after_are_not(perdure: Terminal) -> None:
    assert perdure("--json", "run", "--", "echo", "--home", "/nowhere") == 0
    assert perdure.goals()[0]["text"] == "echo --home /nowhere"


def test_a_line_for_sh_is_run_by_sh(perdure: Terminal) -> None:
    assert perdure("run", "--shell", "echo a | tr a b") == 0
    assert perdure.out == "b\n"


@pytest.mark.parametrize("kind", ["text", "command", "line"])
def test_a_server_gets_the_same(both: Both, model_server: ModelServer, kind: str) -> None:
    model_server.script.add(ScriptedAnswer("Hello."))
    given = {
        "text": ["--model", "openai:m", "Say hello."],
        "command": ["--", "printf", "%s\n", "Hello."],
        "line": ["--shell", "echo Hello. | cat"],
    }
    assert both.remote("run", *given[kind]) == 0
    assert both.perdure.out == "Hello.\n"


def test_a_server_without_a_model_refuses_words(both: Both) -> None:
    assert both.remote("run", "Say hello.") == 8
    assert NO_MODEL in both.perdure.err
    assert both.same_json("goal", "list")["goals"] == []


def test_a_file_for_a_plan_needs_its_option(ready: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ready / "plan.yaml").write_text("goal: g\nsteps: [{id: a, exec: 'true'}]")
    assert run(["run", "--", "plan.yaml"]) == 1
    assert "is a file" not in capsys.readouterr().err


def test_a_model_that_fails_parks_the_goal_and_another_one_resumes_it(
    perdure: Terminal, model_server: ModelServer
) -> None:
    model_server.script.add(ScriptedAnswer(status=401, message="The key is wrong."), ScriptedAnswer("Hello."))
    assert perdure("run", "--model", "openai:m", "Say hello.") == 8
    goal = perdure.newest()
    said = perdure("goal", "show", goal), perdure.out.splitlines()
    assert "  perdure model login openai" in said[1]
    assert f"  perdure goal resume {goal} --model NAME" in said[1]
    assert perdure("goal", "resume", goal, "--model", "openai:other") == 0
    assert perdure.out == "Hello.\n"
    prompts = [event["payload"]["model"] for event in history(perdure, goal) if event["type"] == "prompt"]
    assert prompts == ["openai:m", "openai:other"]


def history(perdure: Terminal, goal: str) -> list[dict[str, Any]]:
    perdure("goal", "export", goal)
    return perdure.events[1:]


def test_run_resumes_with_another_model_too(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(status=401), ScriptedAnswer("Hello."))
    perdure("run", "--model", "openai:m", "Say hello.")
    assert perdure("run", "--resume", perdure.newest(), "--model", "openai:other") == 0
    assert perdure.out == "Hello.\n"


@pytest.mark.parametrize("model", ["builtin", "nonsense"])
def test_a_resume_with_what_is_no_model_is_refused(perdure: Terminal, model_server: ModelServer, model: str) -> None:
    model_server.script.add(ScriptedAnswer(status=401))
    perdure("run", "--model", "openai:m", "Say hello.")
    assert perdure("goal", "resume", perdure.newest(), "--model", model) == 2


def test_a_command_has_no_model(perdure: Terminal) -> None:
    perdure("run", "--", "false")
    assert perdure("goal", "resume", perdure.newest(), "--model", "openai:m") == 2
    assert "This goal is a command" in perdure.err
    assert perdure("goal", "resume", "--due", "--model", "openai:m") == 2


def test_a_provider_that_asks_to_wait_says_until_when(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(status=429, message="Slow down", retry_after="7200"))
    assert perdure("run", "--model", "openai:m", "Say hello.") == 8
    assert "Slow down. The provider asks to wait until 20" in perdure.err
    assert perdure.goals()[0]["due_at"] is not None


def test_an_unknown_provider_parks_the_goal(perdure: Terminal) -> None:
    assert perdure("run", "--model", "no-such-provider:m", "Say hello.") == 8
    assert "perdure model list" in perdure.err
    assert perdure.goals()[0]["waiting_for"] == "model"


def test_a_goal_of_a_server_is_resumed_with_another_model(both: Both, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer(status=401), ScriptedAnswer("Hello."))
    assert both.remote("run", "--model", "openai:m", "Say hello.") == 8
    [goal] = both.same_json("goal", "list")["goals"]
    assert both.remote("goal", "resume", goal["id"], "--model", "builtin") == 2
    assert both.remote("goal", "resume", goal["id"], "--model", "openai:other") == 0
    assert both.perdure.out.endswith("Hello.\n")


def test_what_a_model_was_shown_and_answered_is_in_the_timeline(both: Both, model_server: ModelServer) -> None:
    call = ScriptedCall("recall_nothing", {})
    model_server.script.add(
        ScriptedAnswer("I look.", calls=(call,), usage=ScriptedUsage(1200, 34)), ScriptedAnswer("Done.")
    )
    assert both.remote("run", "--model", "openai:gpt-4.1-mini", "Say hello.") == 0
    [goal] = both.same_json("goal", "list")["goals"]
    shown = both.same_json("goal", "show", goal["id"])
    kinds = [(step["kind"], step["state"]) for step in shown["model_steps"]]
    assert kinds[1:] == [("turn", "1 call"), ("turn", "answered")]
    assert kinds[0][0] == "prompt"
    first = shown["model_steps"][1]
    assert (first["input_tokens"], first["output_tokens"], first["cost_usd"] > 0) == (1200, 34, True)
    assert both.local("goal", "show", goal["id"]) == 0
    lines = [line.split() for line in both.perdure.out.splitlines()]
    assert ["3", "turn", "openai:gpt-4.1-mini", "1", "call:", "I", "look."] in [line[:7] for line in lines]
    assert ["value", "Done."] in lines


def test_an_unknown_price_is_never_shown_as_nothing(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(ScriptedAnswer("Hello."))
    perdure("run", "--model", "openai:m", "Say hello.")
    perdure("goal", "show", perdure.newest())
    assert "cost unknown" in perdure.out
    assert "$0.0000" not in perdure.out


def test_a_summary_says_which_events_it_stands_for() -> None:
    state = state_of(Message("Hello."), TranscriptSummary(2, 9, "They talked.", "openai:m", TokenUsage(900, 20)))
    message, summary = timeline(state).rows
    assert message[1:4] == ["message", "", "person: Hello."]
    assert summary[1:4] == ["summary", "openai:m", "of events 2-9"]
    assert summary[-2:] == ["900 in, 20 out", "unknown"]
