"""`perdure skill`: the built-in skills, and files that say that they are some."""

import asyncio
import os
from pathlib import Path

import pytest

from perdure.app.builder.skills import Skills
from perdure.settings import load_settings
from tests.interfaces.cli.on_terminal import Start
from tests.interfaces.cli.terminal import Terminal

GOOD = "---\nname: tidy\ndescription: Tidies up.\n---\nPut things back.\n"


def test_the_built_in_skills_are_listed(perdure: Terminal) -> None:
    assert perdure("skill", "list") == 0
    assert perdure.out.splitlines()[0].split() == ["skill", "origin", "what", "it", "does"]
    names = [skill["name"] for skill in perdure.json("skill", "ls")["skills"]]
    assert {"code-review", "web-search", "summarize"} <= set(names)
    for name in names:
        shown = perdure.json("skill", "show", name)
        assert shown["name"] == name
        assert shown["instructions"]


def test_a_skill_that_was_made_here_is_listed_and_shown_beside_them(perdure: Terminal) -> None:
    request = {"name": "money", "description": "Convert amounts between currencies"}
    home = load_settings().home
    asyncio.run(Skills(home, home / "bots").create(request))
    assert perdure("skill", "list") == 0
    assert perdure.out.splitlines()[-1].split()[:2] == ["money", "builder-created"]
    listed = perdure.json("skill", "list")["skills"]
    assert {skill["origin"] for skill in listed} == {"builtin", "builder-created"}
    assert perdure.json("skill", "show", "money")["instructions"].startswith("# Money")


def test_a_skill_is_shown_as_a_bot_reads_it(perdure: Terminal) -> None:
    assert perdure("skill", "show", "summarize") == 0
    assert perdure.out.startswith("summarize: ")
    assert perdure("skill", "show", "../summarize") == 3


def test_a_skill_is_validated_as_a_file_and_as_a_folder(perdure: Terminal) -> None:
    Path("tidy").mkdir()
    Path("tidy/SKILL.md").write_text(GOOD)
    assert perdure("skill", "validate", "tidy") == 0
    assert perdure.out == "tidy/SKILL.md is the skill tidy.\n"
    assert perdure.json("skill", "validate", "tidy/SKILL.md") == {"name": "tidy", "description": "Tidies up."}
    Path("draft.md").write_text(GOOD)
    assert perdure("skill", "validate", "draft.md") == 0


def test_a_skill_has_the_name_of_its_folder(perdure: Terminal) -> None:
    Path("messy").mkdir()
    Path("messy/SKILL.md").write_text(GOOD)
    assert perdure("skill", "validate", "messy") == 2
    assert "'name' is 'tidy', but the folder is 'messy'" in perdure.err


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"tidy", b"---\n", b"\xff\xfe", GOOD.encode() + b"\0", GOOD.encode() + b"\xff", b"\x1b[2J"),
        *(b"---\nname: &a [*a]\n---\nx", b"---\n!!python/object/apply:os.system [ls]\n---\nx", b"---\n" + b"[" * 9999),
        *(
            GOOD.encode().replace(b"tidy", b"../tidy"),
            GOOD.encode().replace(b"tidy", b"con"),
            GOOD.encode() + b"x" * (1 << 20),
        ),
        *(GOOD.encode().replace(b"Tidies up.", b'""'), GOOD.encode().replace(b"name", b"evil: 1\nname")),
        GOOD.encode().replace(b"Put things back.", b""),
    ],
    ids=range(16),
)
def test_a_hostile_file_is_refused_by_name(perdure: Terminal, data: bytes) -> None:
    Path("SKILL.txt").write_bytes(data)
    assert perdure("skill", "validate", "SKILL.txt") == 2
    assert "SKILL.txt" in perdure.err
    assert "\x1b" not in perdure.err


def test_what_is_no_file_is_refused_at_once(perdure: Terminal) -> None:
    os.mkfifo("pipe")
    assert perdure("skill", "validate", "pipe") == 2
    assert perdure("skill", "validate", "/dev/zero") == 2
    assert perdure("skill", "validate", "nothing") == 3
    Path("loop").symlink_to("loop")
    assert perdure("skill", "validate", "loop") == 1
    Path("inner/SKILL.md").mkdir(parents=True)
    assert perdure("skill", "validate", "inner") == 1


def test_a_skill_is_created_edited_and_validated(perdure: Terminal, tmp_path: Path) -> None:
    made = perdure.json("skill", "create", "Convert amounts between currencies", "--name", "money")
    assert made["capabilities"] == [
        {"name": "calculate", "reason": 'the description says "convert", "amounts", "currencies"'}
    ]
    assert perdure("skill", "create", "x", "--capability", "fly") == 2
    assert "'fly' is not a known capability" in perdure.err
    path = Path(os.environ["PERDURE_HOME"]) / made["path"]
    assert perdure("skill", "validate", str(path)) == 0
    text = path.read_text()
    new = tmp_path / "new.md"
    new.write_text(text.replace("between currencies", "exactly"))
    assert perdure("skill", "edit", "money", "--file", str(new)) == 0
    assert perdure.json("skill", "show", "money")["description"] == "Convert amounts exactly"
    assert perdure.json("skill", "edit", "money", "--file", str(new)) == {"name": "money", "changed": False}
    new.write_text("nothing")
    assert perdure("skill", "edit", "money", "--file", str(new)) == 2
    assert perdure("skill", "edit", "money", "--no-input") == 2
    assert "--file FILE" in perdure.err
    assert perdure.json("skill", "show", "money")["description"] == "Convert amounts exactly"


def test_a_skill_is_edited_in_an_editor(
    perdure: Terminal, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    perdure.json("skill", "create", "Convert amounts", "--name", "money")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/Convert amounts/Convert everything/' \"$1\"\n")
    editor.chmod(0o755)
    for name in ("EDITOR", "VISUAL"):
        monkeypatch.setenv(name, str(editor))
    code, _, out = start("skill", "edit", "money").end()
    assert (code, out) == (0, "The skill money was changed; existing bots keep their copy.\n")
    assert perdure.json("skill", "show", "money")["description"] == "Convert everything"


def test_a_skill_of_the_home_is_validated_by_its_name(perdure: Terminal) -> None:
    assert perdure("skill", "validate", "summarize") == 0
    assert "summarize is the skill summarize." in perdure.out
    assert perdure("skill", "create", "Count the money in the till", "--name", "money") == 0
    assert perdure("skill", "validate", "money") == 0
    assert perdure("skill", "validate", "nothing-here") == 3
