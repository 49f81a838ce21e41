"""`perdure new`, `bot`, `draft` and `choice` with a server process: each prints what it prints with a home."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.bots.archive import unpack_bot
from tests.interfaces.cli.interviews import WISH, YES, coding, said, written
from tests.interfaces.cli.twins import Twins, twins

RENAMED = [said("name"), said("Ada II"), YES]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    """Two homes: a bot in two versions with an edit by hand, two drafts, and what was chosen."""
    folder = tmp_path_factory.mktemp("twins")
    with twins(folder) as both, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert both.same("new", WISH, "--answers", written(coding())).code == 0
        assert both.same("new", "--reconfigure", "ada", "--answers", written(RENAMED)).code == 0
        for side in (both.home, both.server):
            soul = side.home / "bots" / "ada" / "SOUL.md"
            soul.write_text(f"{soul.read_text()}\nAlways greet Grace.\n")
        assert both.same("new", "a timer for pasta", "--answers", written([])).code == 2
        assert both.same("new", WISH, "--answers", written([said("Eve")])).code == 2
        yield both


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder for files with answers."""
    monkeypatch.chdir(tmp_path)


READS = {
    "bot list": 0,
    "bot ls --limit 1": 0,
    "bot show ada": 0,
    "bot show ada --prompt": 0,
    "bot show nobody": 3,
    "bot show ../ada": 2,
    "bot explain ada SOUL.md:2": 0,
    "bot explain ada SOUL.md:12": 0,
    "bot explain ada USER.md:3": 0,
    "bot explain ada SOUL.md:9999": 2,
    "bot explain ada SOUL.md": 2,
    "bot explain ada skills/no/SKILL.md:1": 3,
    "bot versions ada": 0,
    "bot versions nobody": 3,
    "bot verify ada": 0,
    "bot verify nobody": 3,
    "bot delete ada": 4,
    "bot delete nobody --yes": 3,
    "bot rollback ada 9": 3,
    "bot rollback ada 0": 2,
    "bot export nobody -o x.bot": 3,
    "bot import nothing.bot": 3,
    "draft list": 0,
    "draft ls --limit 1": 0,
    "draft show zzz": 3,
    "draft show 01890000-0000-7000-8000-000000000000": 3,
    "draft resume zzz --yes": 3,
    "draft delete zzz --yes": 3,
    "draft delete 01890000-0000-7000-8000-000000000000": 4,
    "choice list": 0,
    "choice ls --limit 1": 0,
    "choice remove nothing": 3,
    "choice clear": 4,
    "new --no-input": 2,
    "new --resume zzz --yes": 3,
    "new --reconfigure nobody --yes": 3,
    "new --resume --reconfigure ada --yes": 2,
}
"""What changes nothing, with its exit code."""


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(("command", "code"), READS.items(), ids=READS)
def test_what_changes_nothing_prints_the_same(both: Twins, command: str, code: int, form: tuple[str, ...]) -> None:
    printed = both.same(*command.split(), *form)
    assert printed.code == code
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("number", [0, 1])
def test_a_draft_is_shown_by_its_id_or_a_prefix(both: Twins, number: int) -> None:
    here, there = (found["drafts"][number]["session_id"] for found in both.each("draft", "list"))
    for form in ((), ("--json",)):
        shown = both.same_of(("draft", "show", here, *form), ("draft", "show", there, *form))
        assert shown.code == 0
        assert both.server("draft", "show", there[:-1], *form) == both.server("draft", "show", there, *form)
    refused = both.same_of(("draft", "delete", here[:-1], "--yes"), ("draft", "delete", there[:-1], "--yes"))
    assert (refused.code, f"Did you mean {there}?" in refused.err) == (3, True)


def test_an_interview_is_left_and_resumed_to_a_bot(both: Twins) -> None:
    left = both.same("new", WISH, "--answers", written([said("Flo")]), "--json")
    assert (left.code, "perdure new --resume" in left.json["detail"]) == (2, True)
    assert both.same("new", "--resume", "--answers", written([{"option_index": 99}])).code == 2
    here, there = (found["drafts"][0]["session_id"] for found in both.each("draft", "list"))
    answers = written(coding()[1:])
    done = both.same_of(
        ("draft", "resume", here, "--answers", answers, "--json"),
        ("draft", "resume", there, "--answers", answers, "--json"),
    )
    assert done.json["result"]["bot_slug"] == "flo"
    assert both.same("bot", "show", "flo", "--json").json["folder"] == str(both.server.home / "bots" / "flo")
    over = both.same_of(("draft", "show", here, "--json"), ("draft", "show", there, "--json"))
    assert (over.code, over.json["code"]) == (3, "over")
    assert both.same("bot", "delete", "flo", "--with-choices", "--yes", "--json").code == 0


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_a_change_shows_its_differences_before_it_is_built(both: Twins, form: tuple[str, ...]) -> None:
    assert both.same("new", 'a coding assistant called "Gus"', "--yes").code == 0
    changed = both.same("new", "a formal tone", "--reconfigure", "gus", "--yes", *form)
    assert changed.code == 0
    assert "+tone: formal" in (json.dumps(changed.json["changes"]) if form else changed.err)
    assert "Nothing changed" in both.same("new", "--reconfigure", "gus", "--yes").out
    assert both.same("bot", "delete", "gus", "--with-choices", "--yes").code == 0


def test_a_change_of_a_deleted_bot_is_not_resumed(both: Twins) -> None:
    assert both.same("new", 'a coding assistant called "Hal"', "--yes").code == 0
    assert both.same("new", "--reconfigure", "hal", "--answers", written([])).code == 2
    assert both.same("bot", "delete", "hal", "--yes").code == 0
    refused = both.same("new", "--resume", "--yes")
    assert (refused.code, "perdure draft delete" in refused.err) == (3, True)
    here, there = (found["drafts"][0]["session_id"] for found in both.each("draft", "list"))
    assert both.same_of(("draft", "delete", here, "--yes"), ("draft", "delete", there, "--yes")).code == 0


def test_a_rollback_keeps_edits_beside(both: Twins) -> None:
    back = both.same("bot", "rollback", "ada", "1", "--json")
    assert back.json["result"]["set_aside"] == ["SOUL.md.old"]
    assert "Always greet Grace." in (both.server.home / "bots" / "ada" / "SOUL.md.old").read_text()
    assert "as version 4" in both.same("bot", "rollback", "ada", "1").out


def test_a_bot_goes_through_one_file_from_each_side_to_the_other(both: Twins, tmp_path: Path) -> None:
    here, there = tmp_path / "here.bot", tmp_path / "there.bot"
    assert both.home("bot", "export", "ada", "-o", str(here)).code == 0
    exported = both.server("bot", "export", "ada", "-o", str(there))
    assert exported.out == f"Wrote {there}: {there.stat().st_size:,} bytes.\n"
    assert both.server("bot", "export", "ada", "-o", str(there)).code == 4
    assert unpack_bot(there.read_bytes(), "x").slug == unpack_bot(here.read_bytes(), "x").slug == "ada"
    for form in ((), ("--json",)):
        assert both.same_of(("bot", "import", str(there), *form), ("bot", "import", str(here), *form)).code == 0
    assert both.server("bot", "delete", "ada-2", "--yes").code == both.home("bot", "delete", "ada-2", "--yes").code == 0
    assert both.same("bot", "delete", "ada-3", "--yes").code == 0
    here.write_bytes(here.read_bytes()[:-40])
    assert both.same("bot", "import", str(here), "--json").code == 7


def test_a_file_that_cannot_be_read_is_named(both: Twins) -> None:
    souls = [side.home / "bots" / "ada" / "USER.md" for side in (both.home, both.server)]
    before = [soul.read_bytes() for soul in souls]
    for soul in souls:
        soul.write_bytes(b"\xff")
    try:
        for command, code in (("verify", 7), ("show", 2)):
            assert both.same("bot", command, "ada").code == code
    finally:
        for soul, data in zip(souls, before, strict=True):
            soul.write_bytes(data)


def test_choices_are_removed(both: Twins) -> None:
    here, there = (found["choices"][0]["id"] for found in both.each("choice", "list"))
    for code in (0, 3):
        assert both.same_of(("choice", "remove", here), ("choice", "remove", there)).code == code
    assert both.same("choice", "clear", "--yes", "--json").json["removed"] > 0
    assert both.same("choice", "list").out == "No choices are remembered.\n"
