"""The page about conversations: every command of it runs, against the scripted server."""

from pathlib import Path

import pytest

from perdure.testing.model_server import ModelServer, ScriptedAnswer
from tests.test_docs import ROOT, blocks
from tests.test_docs_models import shell

PAGE = (ROOT / "docs/how-to/chat-with-a-bot.md").read_text()


pytestmark = pytest.mark.usefixtures("default_model")


def test_a_conversation_is_continued_by_the_commands_of_the_page(tmp_path: Path, model_server: ModelServer) -> None:
    model_server.script.add(*(ScriptedAnswer(f"Answer {number}.") for number in (1, 2, 3)))
    (block,) = blocks(PAGE, "sh")
    said = shell(tmp_path, block)
    assert said.startswith("Answer 1.\nAnswer 2.\nAnswer 3.\n")
    assert "What can you do?" in said
    assert not model_server.repeated_requests
