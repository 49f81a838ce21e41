"""`perdure choice`: what was chosen for bots, and how it is forgotten."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.interfaces.cli.interviews import YES, coding, forged, said
from tests.interfaces.cli.terminal import Terminal


def test_choices_are_listed_removed_and_cleared(perdure: Terminal) -> None:
    assert perdure("choice", "list") == 0
    assert "No choices are remembered." in perdure.out
    forged(perdure, answers=coding())
    forged(perdure, "--reconfigure", "ada", answers=[said("tone"), said("formal"), YES])
    newest, first = perdure.json("choice", "list")["choices"]
    assert (newest["bot_slug"], newest["tone"], first["tone"]) == ("ada", "formal", "friendly")
    assert perdure("choice", "remove", newest["id"]) == 0
    assert perdure("choice", "remove", newest["id"]) == 3
    assert perdure.json("choice", "list")["choices"] == [first]
    assert perdure("choice", "clear") == 4
    assert perdure.json("choice", "clear", "--yes") == {"removed": 1}
    assert perdure.json("choice", "list") == {"choices": []}
    assert perdure.json("bot", "show", "ada")["tone"] == "formal"


def test_a_choice_and_its_bot_are_listed_with_the_same_purpose(perdure: Terminal) -> None:
    forged(perdure, "plan the meals of our family", "--yes")
    assert perdure("bot", "list") == 0
    assert "family and household" in perdure.out
    slug = perdure.out.splitlines()[1].split()[0]
    assert perdure("choice", "list") == 0
    assert "family and household" in perdure.out
    assert perdure("bot", "delete", slug, "--yes") == 0
    assert perdure("choice", "list") == 0
    assert "simple utility" in perdure.out, "of a deleted bot, the category is known"


def test_a_bot_is_deleted_with_its_choices(perdure: Terminal) -> None:
    forged(perdure, answers=coding("Ada"))
    forged(perdure, answers=coding("Eve"))
    assert perdure("bot", "delete", "ada", "--yes") == 0
    assert {each["bot_slug"] for each in perdure.json("choice", "list")["choices"]} == {"ada", "eve"}
    assert perdure("bot", "delete", "eve", "--with-choices", "--yes") == 0
    assert {each["bot_slug"] for each in perdure.json("choice", "list")["choices"]} == {"ada"}


def test_a_choice_of_which_little_is_known_is_listed_too(perdure: Terminal, ready: Path) -> None:
    with closing(sqlite3.connect(ready.parent / "home" / "perdure.db")) as connection:
        connection.execute(
            "INSERT INTO builder_memory (id, purpose_category, initial_description, created_at)"
            " VALUES ('foreign', 'coding', 'a bot', 1)"
        )
        connection.commit()
    assert perdure("choice", "list") == 0
    assert perdure.out.splitlines()[1].split() == ["foreign", "coding"]
    [choice] = perdure.json("choice", "list")["choices"]
    assert (choice["tone"], choice["model"], choice["bot_slug"], choice["skills"]) == (None, None, None, [])
