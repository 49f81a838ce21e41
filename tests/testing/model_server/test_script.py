"""Which answer a request gets, scripts in files, and the server as a process."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.errors import Invalid
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall, read_script
from perdure.testing.model_server.script import Order


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def ask(server: ModelServer, *texts: str) -> httpx.Response:
    """Ask with messages of the user and the model in turn."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return httpx.post(f"{server.url}/v1/chat/completions", json={"model": "m", "messages": messages})


def text_of(response: httpx.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def test_answers_are_given_in_order_and_by_the_last_user_message(server: ModelServer) -> None:
    server.script.add(ScriptedAnswer("one"), ScriptedAnswer("rain", match="weather"), ScriptedAnswer("two"))
    assert text_of(ask(server, "Hello")) == "one"
    assert text_of(ask(server, "What weather is it?")) == "rain"
    assert text_of(ask(server, "weather", "rain", "Thanks")) == "two"
    assert server.script.left == 0


def test_a_script_that_is_exhausted_says_so(server: ModelServer) -> None:
    response = ask(server, "Hello")
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "The script has no answer left for this request."


@pytest.mark.parametrize("order", ["requests", "turns"])
def test_a_script_that_repeats_gives_its_last_answer_again(order: Order) -> None:
    answers = [ScriptedAnswer("one"), ScriptedAnswer("two"), ScriptedAnswer(status=500)]
    with ModelServer(Script(answers, order=order, repeats=True)) as server:
        assert text_of(ask(server, "Hello")) == "one"
        assert text_of(ask(server, "Hello", "one", "More")) == "two"
        assert ask(server, "Hello", "one", "More", "two", "More").status_code == 500
        for _ in range(2):
            assert text_of(ask(server, "Hello", "one", "More", "two", "More")) == "two"


def test_of_answers_that_match_the_last_one_is_repeated() -> None:
    answers = [ScriptedAnswer("rain", match="weather"), ScriptedAnswer("sun", match="weather"), ScriptedAnswer("one")]
    with ModelServer(Script(answers, repeats=True)) as server:
        assert [text_of(ask(server, "weather")) for _ in range(4)] == ["rain", "sun", "one", "sun"]
        assert text_of(ask(server, "Hello")) == "one"


def test_by_turns_a_request_that_is_sent_again_has_the_same_answer() -> None:
    answers = [ScriptedAnswer("one"), ScriptedAnswer(status=500), ScriptedAnswer("two")]
    with ModelServer(Script(answers, order="turns")) as server:
        assert text_of(ask(server, "Hello")) == "one"
        assert text_of(ask(server, "Hello")) == "one"
        assert ask(server, "Hello", "one", "More").status_code == 500
        assert text_of(ask(server, "Hello", "one", "More")) == "two"
        assert text_of(ask(server, "Hello", "one", "More")) == "two"
    assert [each.outcome for each in server.requests] == ["answered", "answered", "failed", "answered", "answered"]
    assert sorted(server.repeated_requests) == sorted({server.requests[0].sha256, server.requests[4].sha256})


def test_by_turns_an_answer_by_text_counts_from_that_message() -> None:
    calls = (ScriptedCall("look", {}),)
    answers = [
        ScriptedAnswer("hi"),
        ScriptedAnswer(calls=calls, match="weather"),
        ScriptedAnswer("rain", match="weather"),
    ]
    with ModelServer(Script(answers, order="turns")) as server:
        assert text_of(ask(server, "Hello")) == "hi"
        assert "tool_calls" in ask(server, "Hello", "hi", "weather").json()["choices"][0]["message"]
        assert text_of(ask(server, "Hello", "hi", "weather", "(calls)")) == "rain"


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    answers = [{"text": "Hi", "usage": {"input": 3}}, {"calls": [{"name": "look", "arguments": {"a": 1}}]}]
    path.write_text(json.dumps({"order": "turns", "answers": answers}))
    with ModelServer(read_script(path)) as server:
        assert ask(server, "Hello").json()["usage"]["prompt_tokens"] == 3
        call = ask(server, "Hello", "Hi", "Look").json()["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "look", "arguments": '{"a": 1}'}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ({"answers": 3}, "expected a list of answers"),
        ({"order": "chance", "answers": []}, "order must be one of requests, turns; found 'chance'"),
        ([3], "answer 1 must be an object; found int"),
        ([{"txt": "a"}], "answer 1 has the unknown key 'txt'"),
        ([{"finish": "never"}], "finish must be one of stop, length, refusal; found 'never'"),
        ([{"calls": [{"tool": "a"}]}], "unexpected keyword argument 'tool'"),
    ],
)
def test_a_script_that_is_wrong_is_rejected(tmp_path: Path, content: Any, said: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(Invalid, match=said):
        read_script(path)


def test_the_process_serves_until_a_signal(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"text": "Good morning."}]')
    command: Sequence[str] = [sys.executable, "-m", "perdure.testing.model_server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
        assert text_of(httpx.post(f"{url}/chat/completions", json=body)) == "Good morning."
        recorded = httpx.get(f"{url}/requests").json()
        assert [(each["body"], each["outcome"]) for each in recorded] == [(body, "answered")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_process_without_a_script_says_what_is_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perdure.testing.model_server", str(tmp_path / "none.json")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == f"The script {tmp_path / 'none.json'} cannot be read: No such file or directory.\n"


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"a": 1, "a": 2}'])
def test_a_body_that_is_no_object_is_rejected(server: ModelServer, body: bytes) -> None:
    assert httpx.post(f"{server.url}/v1/responses", content=body).status_code == 400
    assert httpx.get(f"{server.url}/v1/responses").status_code == 404
    assert server.requests == []
