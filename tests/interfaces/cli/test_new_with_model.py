"""`perdure new` with a model: who asks, what a failure says, and how the built-in interviewer takes over."""

import json

import pytest

from perdure.interfaces.cli.errors import run
from perdure.testing.model_server import ModelServer, ScriptedAnswer
from perdure.testing.model_server.script import Order

WISH = "A coding assistant for my team"


pytestmark = pytest.mark.usefixtures("default_model")


@pytest.fixture
def answer_order() -> Order:
    return "requests"


def proposes(question: str, *labels: str) -> ScriptedAnswer:
    options = [{"id": None, "label": label, "description": "it fits"} for label in labels]
    data = {"stated": [], "slot": "coding.task", "question": question, "options": options}
    return ScriptedAnswer(data={**data, "suggested": None, "reason": ""})


def test_a_model_leads_the_interview_to_the_end(model_server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model_server.script.add(proposes("What will it do most?", "Review pull requests"))
    model_server.script.add(*[ScriptedAnswer(text="nonsense")] * 40)
    assert run(["new", WISH, "--yes", "--json"]) == 0
    said = capsys.readouterr()
    slug = json.loads(said.out)["result"]["bot_slug"]
    assert run(["bot", "show", slug, "--prompt"]) == 0
    assert "Review pull requests" in capsys.readouterr().out
    assert "could not be used" in said.err


def test_the_built_in_engine_asks_no_model(model_server: ModelServer) -> None:
    assert run(["new", WISH, "--yes", "--engine", "builtin"]) == 0
    assert not model_server.requests


def test_a_model_that_fails_at_the_start_is_exit_8_and_names_the_way_out(
    model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model_server.script.add(ScriptedAnswer(status=401, message="bad key"))
    assert run(["new", WISH, "--yes"]) == 8
    said = capsys.readouterr().err
    assert "perdure model login openai" in said
    assert f"new '{WISH}' --yes --engine builtin" in " ".join(said.split())


def test_a_model_that_fails_names_the_command_that_continues_the_draft_or_changes_the_bot(
    model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model_server.script.add(proposes("What will it do most?", "Review"), ScriptedAnswer(status=401, message="bad key"))
    assert run(["new", WISH, "--yes"]) == 8
    said = " ".join(capsys.readouterr().err.split())
    assert run(["draft", "list", "--json"]) == 0
    [draft] = json.loads(capsys.readouterr().out)["drafts"]
    assert f"new --resume {draft['session_id']} --engine builtin" in said
    assert run(["new", "--resume", draft["session_id"], "--yes", "--engine", "builtin", "--json"]) == 0
    slug = json.loads(capsys.readouterr().out)["result"]["bot_slug"]
    model_server.script.add(ScriptedAnswer(status=401, message="bad key"))
    assert run(["new", "--reconfigure", slug, "call it Eve", "--yes"]) == 8
    said = " ".join(capsys.readouterr().err.split())
    assert f"new --reconfigure {slug} 'call it Eve' --yes --engine builtin" in said


def test_an_interview_that_a_model_began_is_finished_without_one(
    model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model_server.script.add(proposes("What will it do most?", "Review"), ScriptedAnswer(status=401, message="bad key"))
    assert run(["new", WISH, "--yes"]) == 8
    assert "perdure new --resume" in capsys.readouterr().err
    assert run(["draft", "list", "--json"]) == 0
    [draft] = json.loads(capsys.readouterr().out)["drafts"]
    assert run(["new", "--resume", draft["session_id"], "--yes", "--engine", "builtin"]) == 0


def test_an_unknown_engine_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", WISH, "--yes", "--engine", "oracle"]) == 2
    assert "builtin, model" in capsys.readouterr().err
