"""The page about conversations: every command of it runs, against the scripted server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer
from tests.test_docs import ROOT, blocks
from tests.test_docs_models import shell

PAGE = (ROOT / "docs/how-to/chat-with-a-bot.md").read_text()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    answers = [ScriptedAnswer(f"Answer {number}.") for number in (1, 2, 3)]
    with ModelServer(Script(answers, order="turns")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
        monkeypatch.setenv("PERDURE_MODEL", "openai:scripted")
        yield server


def test_a_conversation_is_continued_by_the_commands_of_the_page(tmp_path: Path, server: ModelServer) -> None:
    (block,) = blocks(PAGE, "sh")
    said = shell(tmp_path, block)
    assert said.startswith("Answer 1.\nAnswer 2.\nAnswer 3.\n")
    assert "What can you do?" in said
    assert not server.answered_again
