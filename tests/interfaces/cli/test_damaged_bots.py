"""Rows of drafts, bots and choices that were edited by hand: each command names what is wrong, and others go on."""

from pathlib import Path

import pytest

from tests.interfaces.cli.interviews import WISH, coding, forged
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_damaged import edit

LOOKING = (["show", "ada"], ["explain", "ada", "SOUL.md:3"], ["export", "ada", "-o", "ada.zip"], ["verify", "ada"])
OTHERS = ("[]", "null", "1", '"x"', '{"SOUL.md": 5}')


@pytest.fixture
def ada(perdure: Terminal) -> str:
    slug: str = forged(perdure, answers=coding())["bot_slug"]
    return slug


def ask(perdure: Terminal, *command: str) -> int:
    code = perdure(*command)
    assert "Something went wrong inside" not in perdure.err
    return code


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("verb", LOOKING, ids=lambda verb: verb[0])
def test_files_of_another_form_are_damaged(perdure: Terminal, ada: str, verb: list[str], other: str) -> None:
    edit(f"UPDATE bot_versions SET files = '{other}', state = 'pending'")
    assert ask(perdure, "bot", *verb) == 7
    assert "files of ada, version 1, is damaged" in perdure.err
    assert ask(perdure, "bot", "list") == 0
    assert ask(perdure, "bot", "delete", ada, "--yes") == 0


@pytest.mark.parametrize(
    ("column", "verb"),
    [
        ("conversation", ["show", "ada"]),
        ("provenance", ["explain", "ada", "SOUL.md:3"]),
        ("config", ["export", "ada", "-o", "ada.zip"]),
        ("sha256", ["versions", "ada"]),
        ("hand_edits", ["versions", "ada"]),
    ],
)
@pytest.mark.parametrize("other", ["null", "1", '"x"'])
def test_parts_of_another_form_are_damaged(
    perdure: Terminal, ada: str, column: str, verb: list[str], other: str
) -> None:
    edit(f"UPDATE bot_versions SET {column} = '{other}'")
    assert ask(perdure, "bot", *verb) == 7
    assert f"{column} of {ada}, version 1, is damaged" in perdure.err


@pytest.mark.parametrize("exchange", ['"x"', "-5", "[]"])
def test_a_line_of_an_exchange_that_is_none_is_damaged(perdure: Terminal, ada: str, exchange: str) -> None:
    span = f'[{{"line": 1, "end": 30, "source": "answer", "exchange": {exchange}}}]'
    edit(f"""UPDATE bot_versions SET provenance = '{{"SOUL.md": {span}}}'""")
    assert ask(perdure, "bot", "explain", ada, "SOUL.md:3") == 7


def test_a_version_whose_texts_are_not_what_was_kept_is_not_brought_to_disk(perdure: Terminal, ada: str) -> None:
    soul = Path.cwd().parent / "home" / "bots" / ada / "SOUL.md"
    forged(perdure, "--reconfigure", ada, "never swear")
    before = soul.read_text()
    edit("UPDATE bot_versions SET files = replace(files, 'name: Ada', 'name: Eve') WHERE number = 1")
    assert ask(perdure, "bot", "rollback", ada, "1") == 7
    assert "do not match their SHA-256" in perdure.err
    edit("UPDATE bot_versions SET files = replace(files, 'name: Ada', 'name: Eve'), state = 'pending' WHERE number = 2")
    assert ask(perdure, "bot", "show", ada) == 7
    assert soul.read_text() == before


@pytest.mark.parametrize("other", ["null", "1", "[1]", '{"a": 1}'])
def test_a_choice_that_is_damaged_stops_nothing_else(perdure: Terminal, ada: str, other: str) -> None:
    edit(f"UPDATE builder_memory SET chosen_skills = '{other}'")
    assert ask(perdure, "new", WISH, "--yes") == 0
    assert ask(perdure, "new", "--reconfigure", ada, "--yes") == 0


@pytest.mark.parametrize(
    ("path", "value"), [("$.target.config", "{}"), ("$.target.config.skills", "null"), ("$.target.config.name", '""')]
)
def test_a_draft_about_a_bot_that_cannot_be_is_damaged(perdure: Terminal, ada: str, path: str, value: str) -> None:
    Path("answers.json").write_text("[]")
    assert ask(perdure, "new", "--reconfigure", ada, "--answers", "answers.json") == 2
    (draft,) = perdure.json("draft", "list")["drafts"]
    edit(f"UPDATE builder_drafts SET state_json = json_replace(state_json, '{path}', json('{value}'))")
    for verb in (["show"], ["resume", "--yes"]):
        assert ask(perdure, "draft", verb[0], draft["session_id"], *verb[1:]) == 7
        assert f"draft {draft['session_id']} is damaged" in perdure.err
    assert ask(perdure, "draft", "delete", draft["session_id"], "--yes") == 0
