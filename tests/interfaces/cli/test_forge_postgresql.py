"""The journey of a bot on a home whose database is a PostgreSQL server."""

import os
import secrets
from pathlib import Path

import pytest

from tests.interfaces.cli.interviews import FIRST, MODEL, WISH, YES, begun, coding, forged, front_of, said, written
from tests.interfaces.cli.terminal import Terminal
from tests.postgres import PostgresServer


@pytest.fixture(autouse=True)
def home(ready: Path, postgres: PostgresServer) -> Path:
    """A home whose settings name a server; its bots are on disk all the same."""
    assert ready == Path.cwd()
    home = Path(os.environ["PERDURE_HOME"])
    (home / "perdure.db").unlink()
    url = postgres.new_database(f"test_{secrets.token_hex(6)}")
    (home / "config.toml").write_text(f'database_url = "{url}"\n')
    return home


def test_a_bot_is_made_listed_shown_edited_and_changed(perdure: Terminal, home: Path) -> None:
    made = forged(perdure, answers=coding())
    assert (made["bot_slug"], made["version"]) == ("ada", 1)
    assert [(bot["slug"], bot["version"]) for bot in perdure.json("bot", "list")["bots"]] == [("ada", 1)]
    assert perdure.json("bot", "show", "ada")["model_config"]["model"] == MODEL
    soul = home / "bots/ada/SOUL.md"
    soul.write_text(soul.read_text() + "- Say good morning.\n")
    assert "Say good morning." in perdure.json("bot", "show", "ada")["edits"]["SOUL.md"]

    direct = [said("tone"), said("direct"), YES]
    assert forged(perdure, "--reconfigure", "ada", answers=direct)["version"] == 2
    assert front_of(soul)["tone"] == "direct"
    assert "- Say good morning." in soul.read_text()
    assert [each["number"] for each in perdure.json("bot", "versions", "ada")["versions"]] == [2, 1]
    assert perdure("bot", "rollback", "ada", "1") == 0
    assert front_of(soul)["tone"] == "friendly"
    assert not (home / "perdure.db").exists()


def test_a_draft_is_listed_shown_by_a_prefix_and_changed_by_its_whole_id(perdure: Terminal) -> None:
    first, second = begun(perdure, said("Ada")), begun(perdure, wish="a timer for pasta")
    assert [each["session_id"] for each in perdure.json("draft", "list")["drafts"]] == [second, first]
    assert perdure("draft", "show", first[:4]) == 4
    assert "2 drafts have ids with the prefix" in perdure.err
    assert perdure.json("draft", "show", first[:-1])["question_count"] == 1
    assert perdure("draft", "resume", first[:-1], "--answers", written(coding()[1:])) == 3
    assert f"Did you mean {first}?" in perdure.err
    assert perdure("draft", "delete", second[:-1], "--yes") == 3
    assert perdure("draft", "resume", first, "--answers", written(coding()[1:])) == 0
    assert perdure("draft", "delete", second, "--yes") == 0
    assert perdure.json("draft", "list") == {"drafts": []}
    assert [bot["slug"] for bot in perdure.json("bot", "list")["bots"]] == ["ada"]


def test_a_second_bot_is_offered_what_was_chosen_for_the_first(perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    assert perdure("new", WISH, "--answers", written([said("Bob"), FIRST, FIRST])) == 2
    draft = perdure.json("draft", "list")["drafts"][0]["session_id"]
    suggestion = perdure.json("draft", "show", draft)["turn"]["suggestion"]
    assert suggestion == {"option_id": "friendly", "reason": "your last coding bot was friendly"}
