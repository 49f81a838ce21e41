"""`perdure choice`: what was chosen for bots, and how it is forgotten."""

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


def test_a_bot_is_deleted_with_its_choices(perdure: Terminal) -> None:
    forged(perdure, answers=coding("Ada"))
    forged(perdure, answers=coding("Eve"))
    assert perdure("bot", "delete", "ada", "--yes") == 0
    assert {each["bot_slug"] for each in perdure.json("choice", "list")["choices"]} == {"ada", "eve"}
    assert perdure("bot", "delete", "eve", "--with-choices", "--yes") == 0
    assert {each["bot_slug"] for each in perdure.json("choice", "list")["choices"]} == {"ada"}
