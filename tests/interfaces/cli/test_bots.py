"""`perdure bot`: look at bots, explain them, take changes back, take them along; also with files that others wrote."""

import os
import re
import zipfile
from pathlib import Path

import pytest

from tests.interfaces.cli.interviews import MODEL, YES, coding, forged, said
from tests.interfaces.cli.terminal import Terminal

CHANGE = [said("name"), said("Ada II"), YES]


@pytest.fixture
def bots(ready: Path) -> Path:
    return ready.parent / "home" / "bots"


@pytest.fixture
def ada(perdure: Terminal, bots: Path) -> Path:
    """The folder of a bot."""
    forged(perdure, answers=coding())
    return bots / "ada"


def test_no_bots_is_a_sentence(perdure: Terminal) -> None:
    assert perdure("bot", "list") == 0
    assert perdure.out == "There are no bots yet. `perdure new` creates one.\n"


def test_bots_are_listed(perdure: Terminal, ada: Path) -> None:
    assert perdure("bot", "ls") == 0
    assert perdure.out.splitlines()[1].split() == ["ada", "Ada", "coding", "1"]
    (bot,) = perdure.json("bot", "list")["bots"]
    assert (bot["slug"], bot["state"], bot["version"]) == (ada.name, "current", 1)


def test_a_bot_is_shown_with_what_was_edited_by_hand(perdure: Terminal, ada: Path) -> None:
    soul = ada / "SOUL.md"
    soul.write_text(soul.read_text().replace("name: Ada", "name: Augusta") + "\x1b[2J\n")
    assert perdure("bot", "show", "ada") == 0
    assert f"{MODEL}, temperature 0.2, up to 4096 tokens" in perdure.out
    assert "+name: Augusta" in perdure.out
    assert "\x1b" not in perdure.out
    shown = perdure.json("bot", "show", "ada")
    assert list(shown["edits"]) == ["SOUL.md"]
    assert shown["folder"] == str(ada)
    assert "Python" in shown["prompt"]


def test_the_prompt_is_printed_alone(perdure: Terminal, ada: Path) -> None:
    soul = ada / "SOUL.md"
    soul.write_text(soul.read_text() + "\nBy hand.\n")
    assert perdure("bot", "show", "ada", "--prompt") == 0
    prompt = perdure.out
    assert prompt == perdure.json("bot", "show", "ada")["prompt"]
    assert prompt.startswith("You are Ada.")
    assert "By hand." in prompt


@pytest.mark.usefixtures("ready")
def test_the_purpose_that_a_bot_was_made_for_is_shown(perdure: Terminal) -> None:
    forged(perdure, "a bot for our household called Kim")
    forged(perdure, "Answer questions about my grandmother's stamp collection")
    assert perdure("bot", "list") == 0
    assert perdure.out.splitlines()[0].split() == ["bot", "name", "purpose", "version"]
    listed = perdure.json("bot", "list")["bots"]
    assert [(each["category"], each["bot_purpose"]) for each in listed] == [
        ("simple_utility", "household"),
        ("custom", "other"),
    ]
    for each, title in zip(listed, ("family and household", "something else"), strict=True):
        assert perdure("bot", "list") == 0
        assert re.search(rf"^{each['slug']} .* {title} +1$", perdure.out, re.MULTILINE)
        assert perdure("bot", "show", each["slug"]) == 0
        assert re.search(rf"^purpose +{title}$", perdure.out, re.MULTILINE)
        assert perdure.json("bot", "show", each["slug"])["bot_purpose"] == each["bot_purpose"]


def test_a_bot_is_shown_with_its_version_its_purpose_and_what_it_holds_to(perdure: Terminal, ada: Path) -> None:
    assert perdure("bot", "show", ada.name) == 0
    assert re.search(r"^version +1, created \d{4}-\d\d-\d\dT[\d:]{8} \(UTC\)$", perdure.out, re.MULTILINE)
    assert re.search(r"^for +You are a coding assistant\. Work mainly in Python: ", perdure.out, re.MULTILINE)
    assert re.search(r"^holds to +Ask before you change files: ", perdure.out, re.MULTILINE)
    shown = perdure.json("bot", "show", "ada")
    assert shown["version"] == 1
    assert shown["purpose"].startswith("You are a coding assistant.\n\nWork mainly in Python: ")
    assert len(shown["boundaries"]) == 1
    assert perdure("new", "--reconfigure", "ada", "never guess", "--yes") == 0
    assert perdure("bot", "show", "ada") == 0
    assert re.search(r"^holds to .* do it after a yes; Never guess$", perdure.out, re.MULTILINE)


def test_a_line_is_explained_by_its_question_and_answer(perdure: Terminal, ada: Path) -> None:
    lines = (ada / "SOUL.md").read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "Ask before you change files" in line)
    assert perdure("bot", "explain", "ada", f"SOUL.md:{number}") == 0
    assert "asked: Which rules must it keep to? Answered: Ask before it changes files" in perdure.out
    found = perdure.json("bot", "explain", "ada", f"SOUL.md:{number}")
    assert (found["source"]["kind"], found["answer"]) == ("answer", "Ask before it changes files")
    (ada / "SOUL.md").write_text("\n".join([*lines, "By hand."]))
    assert perdure("bot", "explain", "ada", f"SOUL.md:{len(lines) + 1}") == 0
    assert perdure.out.endswith("edited by hand\n")


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("SOUL.md:0", 2),
        ("SOUL.md:9999", 2),
        ("SOUL.md", 2),
        ("../x:1", 2),
        ("/etc/passwd:1", 2),
        ("skills/no/SKILL.md:1", 3),
    ],
)
def test_a_place_that_is_none_is_refused(perdure: Terminal, ada: Path, place: str, code: int) -> None:
    assert ada.is_dir()
    assert perdure("bot", "explain", "ada", place) == code


def test_a_rollback_is_a_new_version_and_keeps_hand_edits_beside(perdure: Terminal, ada: Path) -> None:
    forged(perdure, "--reconfigure", "ada", answers=CHANGE)
    soul = ada / "SOUL.md"
    soul.write_text(soul.read_text() + "\nBy hand.\n")
    assert perdure("bot", "rollback", "ada", "1") == 0
    assert "Restored version 1 of ada as version 3.\n" in perdure.out
    assert "SOUL.md.old has your text: the file was edited by hand after version 1.\n" in perdure.out
    assert perdure.json("bot", "show", "ada")["name"] == "Ada"
    found = perdure.json("bot", "versions", "ada")["versions"]
    assert [(each["number"], each["origin"]) for each in found] == [
        (3, "rollback"),
        (2, "reconfigure"),
        (1, "assemble"),
    ]
    assert perdure("bot", "versions", "ada") == 0
    assert perdure.out.splitlines()[1].split()[:3] == ["3", "current", "rollback"]
    assert perdure("bot", "rollback", "ada", "9") == 3
    assert perdure("bot", "rollback", "ada", "0") == 2


def test_a_rollback_keeps_an_edit_made_between_two_versions_beside_and_says_so(perdure: Terminal, ada: Path) -> None:
    soul = ada / "SOUL.md"
    before = soul.read_text()
    soul.write_text(before + "\nBy hand.\n")
    forged(perdure, "--reconfigure", "ada", answers=CHANGE)
    edited = soul.read_text()
    assert perdure("bot", "versions", "ada") == 0
    assert perdure.out.splitlines()[0].endswith("edited by hand")
    assert [line.split()[4:] for line in perdure.out.splitlines()[1:]] == [["SOUL.md"], []]
    assert [each["hand_edits"] for each in perdure.json("bot", "versions", "ada")["versions"]] == [["SOUL.md"], []]
    assert perdure.json("bot", "rollback", "ada", "1")["result"]["set_aside"] == ["SOUL.md.old"]
    assert (soul.read_text(), (ada / "SOUL.md.old").read_text()) == (before, edited)
    assert "By hand." in edited
    assert perdure("bot", "rollback", "ada", "2") == 0
    assert perdure.out == "Restored version 2 of ada as version 4.\n"
    assert perdure("bot", "rollback", "ada", "1") == 0
    assert "SOUL.md.old-2 has your text: the file was edited by hand after version 1.\n" in perdure.out


@pytest.mark.parametrize(
    "text",
    ["", "no front matter", "---\nname: [\n---\n", "---\nname: &a [*a]\n---\n", "---\n!!python/name:os.system\n---\n"],
)
def test_a_file_that_cannot_be_read_is_named(perdure: Terminal, ada: Path, text: str) -> None:
    (ada / "SOUL.md").write_text(text)
    assert perdure("bot", "verify", "ada") == 7
    assert "SOUL.md" in perdure.out
    assert perdure("bot", "show", "ada") == 2
    assert "SOUL.md" in perdure.err
    assert perdure("new", "--reconfigure", "ada", "--yes") == 2
    assert (ada / "SOUL.md").read_text() == text
    assert perdure("bot", "list") == 0
    assert "ada" in perdure.out
    assert perdure("bot", "rollback", "ada", "1") == 0
    assert perdure("bot", "verify", "ada") == 0
    assert perdure.out == "ada: no problems found.\n"


def test_a_link_out_of_the_folder_is_not_followed(perdure: Terminal, ada: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2")
    (ada / "USER.md").unlink()
    (ada / "USER.md").symlink_to(secret)
    for words in (["show", "--prompt"], ["verify"], ["explain"], ["export", "-o", "x.bot"]):
        place = ["USER.md:1"] if words == ["explain"] else []
        assert perdure("bot", words[0], "ada", *place, *words[1:]) != 0
        assert "hunter2" not in perdure.out + perdure.err
    assert not Path("x.bot").exists()


def test_a_bot_goes_into_one_file_and_comes_back_as_another(perdure: Terminal, ada: Path, bots: Path) -> None:
    (ada / "SOUL.md").write_text((ada / "SOUL.md").read_text() + "\nBy hand.\n")
    assert perdure("bot", "export", "ada", "-o", "ada.bot") == 0
    assert perdure.out.startswith(f"Wrote {Path.cwd() / 'ada.bot'}: ")
    assert Path("ada.bot").stat().st_mode & 0o777 == 0o600
    assert perdure("bot", "import", "ada.bot") == 0
    assert perdure.out.startswith("Ada was imported: ada-2, version 1.\nThe slug ada belongs to an existing bot, which")
    assert f"  {bots / 'ada-2' / 'SOUL.md'}\n" in perdure.out
    assert "Show it:    perdure bot show ada-2\n" in perdure.out
    assert (bots / "ada-2" / "SOUL.md").read_text() == (ada / "SOUL.md").read_text()
    assert perdure.json("bot", "import", "ada.bot")["result"]["bot_slug"] == "ada-3"
    for slug in ("ada", "ada-2", "ada-3"):
        assert perdure("bot", "delete", slug, "--yes") == 0
    assert perdure("bot", "import", "ada.bot") == 0
    assert "existing bot" not in perdure.out


def test_an_export_without_a_file_name_is_named_after_the_bot(perdure: Terminal, ada: Path) -> None:
    assert perdure("bot", "export", ada.name) == 0
    assert perdure.out.startswith(f"Wrote {Path.cwd() / 'ada.bot'}: ")
    assert zipfile.is_zipfile("ada.bot")
    assert perdure("bot", "export", ada.name) == 4


def test_an_export_replaces_nothing_unless_told_and_then_only_when_it_is_whole(
    perdure: Terminal, ada: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ada.is_dir()
    mine = Path("mine")
    mine.write_text("mine")
    assert perdure("bot", "export", "ada", "-o", "mine") == 4
    assert mine.read_text() == "mine"
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        assert perdure("bot", "export", "ada", "-o", "mine", "--force") == 8
    assert "No space left on device" in perdure.err
    assert mine.read_text() == "mine"
    assert {path.name for path in Path().iterdir()} == {"mine", "answers.json"}
    assert perdure("bot", "export", "ada", "-o", "mine", "--force") == 0
    assert zipfile.is_zipfile(mine)
    assert perdure("bot", "export", "ada", "-o", ".") == 4
    assert perdure("bot", "export", "ada", "-o", "no/such/folder") == 1


def _full(_fd: int) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("entry", ["../evil", "/abs", "SOUL.md/../../evil", "skills/../../evil"])
def test_an_archive_that_wants_out_is_refused(perdure: Terminal, ada: Path, bots: Path, entry: str) -> None:
    assert perdure("bot", "export", "ada", "-o", "ada.bot") == 0
    with zipfile.ZipFile("ada.bot", "a") as archive:
        archive.writestr(entry, "evil")
    assert perdure("bot", "import", "ada.bot") == 2
    assert [path.name for path in bots.iterdir() if not path.name.startswith(".")] == [ada.name]
    assert not list(bots.parent.parent.rglob("evil"))


def test_what_is_no_archive_is_refused(perdure: Terminal) -> None:
    Path("text").write_text("text")
    os.mkfifo("pipe")
    assert perdure("bot", "import", "text") == 2
    Path("damaged").write_bytes(b"PK\3\4 and no more")
    assert perdure("bot", "import", "damaged") == 7
    assert perdure("bot", "import", "pipe") == 3
    assert perdure("bot", "import", "nothing") == 3
    assert perdure("bot", "import", ".") == 3


def test_a_deleted_bot_is_gone_and_no_person_deletes_by_accident(perdure: Terminal, ada: Path) -> None:
    assert perdure("bot", "delete", "ada") == 4
    assert ada.is_dir()
    assert perdure("bot", "delete", "ada", "--yes") == 0
    assert perdure.out == "Deleted ada.\n"
    assert not ada.exists()
    assert perdure("bot", "delete", "ada", "--yes") == 3
    assert perdure.json("bot", "list") == {"bots": []}


@pytest.mark.parametrize("slug", ["nobody", "../ada", "Ada", "", "con", "a" * 65, "\x1b[2J", "ada/"])
@pytest.mark.parametrize("verb", ["show", "versions", "verify", "export", "explain", "rollback", "delete"])
def test_a_bot_that_is_not_there_is_not_found(perdure: Terminal, ada: Path, verb: str, slug: str) -> None:
    more = {"export": ["-o", "x"], "delete": ["--yes"]}.get(verb, [])
    after = {"explain": ["SOUL.md:1"], "rollback": ["1"]}.get(verb, [])
    assert perdure("bot", verb, *more, "--", slug, *after) in (2, 3)
    assert "\x1b" not in perdure.err
    assert ada.is_dir()
