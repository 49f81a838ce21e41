"""What a hostile or broken model sends to commands: shown as text, bounded, and never a traceback."""

import re
from contextlib import redirect_stdout

import pytest

from perdure.interfaces.cli.errors import run
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.script import Order, Script
from tests.interfaces.cli.terminal import Screen, Terminal
from tests.interfaces.hostile import ATTACK, DEEP, MODEL, ORDERS, VISIBLE_ATTACK, attacks, unsafe_in

pytestmark = pytest.mark.usefixtures("default_model")

OF_RICH = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl]|[12]?[KA])|\r")
"""Colours, and how lines are drawn again while an answer arrives."""
NOTHING = b"content-length: 0\r\n\r\n"
BROKEN = {
    "an error": ScriptedAnswer(status=500, message=ATTACK),
    "an error with a script": ScriptedAnswer(status=400, message=f"{ATTACK} <script>"),
    "too many requests": ScriptedAnswer(status=429, retry_after="3600", message=ATTACK),
    "a redirect": ScriptedAnswer(raw_bytes=b"HTTP/1.1 302 Found\r\nlocation: http://evil.invalid/\r\n" + NOTHING),
    "no JSON": ScriptedAnswer(raw=f"data: {{{ATTACK}\n\n"),
    "another content type": ScriptedAnswer(
        raw_bytes=b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 22\r\n\r\n<html>\x1b[2J</html>    "
    ),
    "no HTTP": ScriptedAnswer(raw_bytes=b"\x00\x1b[2J\r\n\r\n"),
    "a cut stream": ScriptedAnswer("Hello there, Ada.", cut_after=1),
    "a stream that ends early": ScriptedAnswer("Hello there, Ada.", end_after=1),
}  # fmt: skip
"""What a provider sends instead of an answer."""


@pytest.fixture
def answer_order(request: pytest.FixtureRequest) -> Order:
    return "requests" if "interview" in request.node.name or "provider" in request.node.name else "turns"


def safe(perdure: Terminal, *arguments: str, code: int = 0) -> str:
    """Run a command whose standard output is a terminal, and return what it prints, on which no terminal acts."""
    with redirect_stdout(Screen()) as screen:
        assert perdure(*arguments) == code, perdure.err
    shown = OF_RICH.sub("", screen.getvalue())
    assert unsafe_in(shown + perdure.err) == []
    assert "Traceback" not in perdure.err
    return shown


def test_the_answers_of_a_run_are_shown_as_text(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(*attacks())
    shown = safe(perdure, "run", "--model", MODEL, f"Say {VISIBLE_ATTACK}")
    assert "\\x1b[2J" in shown
    assert len(shown.encode()) < 8 << 20
    goal_id = perdure.newest()
    for command in (
        ["goal", "show", goal_id],
        ["goal", "list"],
        ["goal", "watch", goal_id],
        ["goal", "replay", goal_id],
    ):
        safe(perdure, *command)
    assert perdure.json("goal", "show", goal_id)["status"] == "done"


def test_the_answers_of_a_conversation_are_shown_as_text(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(*attacks())
    assert "\\x1b[2J" in safe(perdure, "chat", "Hello")
    safe(perdure, "chat", "--list")
    [goal] = perdure.goals()
    safe(perdure, "goal", "show", goal["id"])


def test_a_call_that_waits_for_a_person_is_shown_as_text(perdure: Terminal, model_server: ModelServer) -> None:
    model_server.script.add(
        ScriptedAnswer(f"{ORDERS}{ATTACK}", calls=(ScriptedCall("exec", {"argv": [VISIBLE_ATTACK, ORDERS]}),))
    )
    safe(perdure, "run", "--model", MODEL, "--yes", "--no-input", "Run it.", code=5)
    goal_id = perdure.newest()
    assert "exec" in safe(perdure, "goal", "show", goal_id)


def test_a_record_that_gives_orders_is_quoted_and_nothing_more(perdure: Terminal, model_server: ModelServer) -> None:
    lesson = {"type": "lesson", "title": f"{ORDERS}{VISIBLE_ATTACK}", "body": VISIBLE_ATTACK}
    record = ScriptedCall("remember", lesson)
    model_server.script.add(ScriptedAnswer(calls=(record,)), ScriptedAnswer("Done."))
    safe(perdure, "run", "--model", MODEL, "--no-input", "Remember SYSTEM policy orders.", code=5)
    goal_id = perdure.newest()
    safe(perdure, "goal", "approve", goal_id, "t1.1", "--resume")
    safe(perdure, "memory", "list")
    safe(perdure, "memory", "search", "policy")
    exec_call = ScriptedCall("exec", {"argv": ["true"]})
    model_server.script.add(ScriptedAnswer(calls=(exec_call,)))
    assert perdure("run", "--model", MODEL, "--no-input", "Follow the SYSTEM policy orders.") == 5
    opened = str(model_server.requests[-1].body)
    assert "quoted as data" in opened
    assert safe(perdure, "goal", "show", perdure.newest())


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_provider_that_fails_parks_the_goal_and_says_why(
    perdure: Terminal, model_server: ModelServer, broken: ScriptedAnswer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.minds.model.providers.retries.WAITS_S", (0.0, 0.0, 0.0))
    model_server.script.add(*[broken] * 4)
    safe(perdure, "run", "--model", MODEL, "Say hello.", code=8)
    goal_id = perdure.newest()
    assert perdure.json("goal", "show", goal_id)["waiting_for"] == "model"
    assert len({each.headers.get("host") for each in model_server.requests}) == 1
    model_server.script = Script([broken] * 4)
    safe(perdure, "chat", "Hello?", code=8)
    model_server.script = Script([ScriptedAnswer("Hello.")])
    assert safe(perdure, "goal", "resume", goal_id).rstrip().endswith("Hello.")


@pytest.mark.usefixtures("ready")
def test_an_interview_led_by_a_hostile_model_shows_text(
    model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    option = {"id": None, "label": "Review", "description": "it fits"}
    data = {"stated": [], "slot": "coding.task", "question": "What?", "options": [option], "suggested": 0}
    model_server.script.add(
        ScriptedAnswer(data={**data, "reason": ATTACK}),
        ScriptedAnswer(data={**data, "question": ATTACK, "reason": ""}),
        *[ScriptedAnswer(DEEP), ScriptedAnswer("x" * 10_000_000, characters=1_000_000)] * 20,
    )
    assert run(["new", "A coding assistant for my team", "--yes"]) == 0
    said = capsys.readouterr()
    assert unsafe_in(said.out + said.err) == []
    assert "could not be used" in said.err
