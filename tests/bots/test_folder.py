"""The folder of a bot: what is in it is read as it is, and whatever is hostile is named and not followed."""

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure import Denied, Invalid, NotFound, Unavailable
from perdure.bots.folder import BotFolder, read_bot, require_bot_path, verify
from perdure.bots.writing import Update, hold_bots_lock, remove_bot, write_bot
from tests.bots.texts import IDENTITY, SOUL, TEXTS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_bot(tmp_path, "ada", Update(TEXTS))
    return tmp_path / "ada"


def test_a_bot_is_read_from_its_files(folder: Path) -> None:
    bot = read_bot(folder)
    assert (bot.slug, bot.name, bot.category) == ("ada", "Ada", "coding")
    assert (bot.soul.tone, bot.soul.traits) == ("technical", ("precise",))
    assert (bot.soul.personality, bot.soul.purpose) == ("- Use exact terms.", "Reviews Python.")
    assert bot.soul.boundaries == ("Never print secrets.",)
    assert (bot.user, [skill.name for skill in bot.skills]) == ("Kim", ["summarize"])
    assert verify(folder) == []


def test_what_is_written_is_private(folder: Path) -> None:
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in folder.rglob("*"))


def test_windows_line_ends_and_a_byte_order_mark_are_read(folder: Path) -> None:
    plain = read_bot(folder)
    for name in TEXTS:
        path = folder / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert read_bot(folder) == plain


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def filled(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


@pytest.mark.parametrize("name", list(TEXTS))
@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (link, "not a regular file"),
        (pipe, "not a regular file"),
        (huge, "larger than 1024 KiB"),
        (a_folder, "not a regular file"),
        (filled(b"\xff\xfe"), "not UTF-8"),
        (filled(b"a\0b"), "NUL"),
        (filled(b"\n" * 20_001), "20,000 lines"),
    ],
    ids=["link", "pipe", "huge", "folder", "no text", "nul", "lines"],
)
def test_a_hostile_file_is_named(folder: Path, name: str, spoil: Callable[[Path], object], match: str) -> None:
    spoil(folder / name)
    with pytest.raises(Invalid, match=match) as caught:
        read_bot(folder)
    assert f"ada/{name}" in str(caught.value)
    assert verify(folder) == [caught.value.detail]


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "skills.toml"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(Invalid, match=f"ada/{name} is missing"):
        read_bot(folder)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"


@pytest.mark.parametrize(
    ("front", "match"),
    [
        ("name: [", "SOUL.md:3: This is not valid YAML"),
        ("name: Ada\nname: Eve", "SOUL.md:3: The key 'name' is a duplicate"),
        ("? [a]\n: b", "A key must be text"),
        (BOMB, "SOUL.md:2: Anchors"),
        ("name: !!python/object/apply:os.system ['true']", "Tags"),
        ("- a\n- b", "must be keys and values"),
        ("", "must be keys and values"),
        ("just text", "must be keys and values"),
        ("x: " + "[" * 500, "levels"),
        ("x: [" + "1," * 3000 + "]", "values"),
        ("x: '" + "y" * 70_000 + "'", "64 KiB"),
        ("x: \x01", "U\\+0001 is not allowed in YAML"),
        ("x: 2020-99-99", "not valid YAML"),
        ("x: " + "9" * 5000, "not valid YAML"),
        ("tone: a\ntraits: []", "'name' is missing"),
        ("name: no\ntone: a", "SOUL.md:2: 'name' must be text, not False"),
        ("name: [a]\ntone: a", "'name' must be text, not a list"),
        ("name: ' '\ntone: a", "'name' must be one line"),
        ('name: "a\\nb"\ntone: a', "'name' must be one line"),
        (f"name: {'x' * 121}\ntone: a", "'name' must be one line"),
        ("name: a\ntone: b\ntraits: x", "SOUL.md:4: 'traits' must be a list"),
        ("name: a\ntone: b\ntraits: [1]", "'traits' must be a list"),
    ],
)
def test_bad_front_matter_is_named_with_its_line(folder: Path, front: str, match: str) -> None:
    (folder / "SOUL.md").write_text(f"---\n{front}\n---\n\n## Purpose\n")
    with pytest.raises(Invalid, match=match) as caught:
        read_bot(folder)
    assert "ada/SOUL.md:" in str(caught.value)


@pytest.mark.parametrize("text", ["", "no front matter", "---\nname: a\n", "\n---\nname: a\n---\n"])
def test_a_soul_without_front_matter_is_refused(folder: Path, text: str) -> None:
    (folder / "SOUL.md").write_text(text)
    with pytest.raises(Invalid, match="Expected front matter"):
        read_bot(folder)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("temperature: 0.2", "temperature: hot", "'temperature' must be a number from 0 to 2, not 'hot'"),
        ("temperature: 0.2", "temperature: 2.1", "'temperature'"),
        ("temperature: 0.2", "temperature: .nan", "'temperature'"),
        ("temperature: 0.2", "temperature: true", "'temperature'"),
        ("max_tokens: 4096", "max_tokens: 0", "'max_tokens' must be a number from 1"),
        ("max_tokens: 4096", "max_tokens: 1.5", "'max_tokens' must be a whole number"),
        ("model: ollama:llama3.2", "model:", "'model' is missing"),
        ("category: coding", f"category: {'x' * 51}", "'category'"),
    ],
)
def test_a_bad_identity_is_named_with_its_line(folder: Path, old: str, new: str, match: str) -> None:
    (folder / "IDENTITY.md").write_text(IDENTITY.replace(old, new))
    with pytest.raises(Invalid, match=match) as caught:
        read_bot(folder)
    assert "ada/IDENTITY.md:" in str(caught.value)


def test_the_provider_may_stand_beside_the_model(folder: Path) -> None:
    (folder / "IDENTITY.md").write_text(IDENTITY.replace("model: ollama:llama3.2", "model: llama3.2"))
    settings = read_bot(folder).model_settings
    assert (settings.provider, settings.model) == ("ollama", "ollama:llama3.2")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[", "not valid TOML"),
        ("a = 1", "'a' must be a table"),
        ('["../x"]', "not a valid skill name"),
        ("[con]", "not a valid skill name"),
        ('[summarize]\nskill_type = "magic"', "skill_type"),
        ("[tea]", "skills/tea/SKILL.md is missing"),
        ("x = " + "[" * 5000, "not valid TOML"),
        ("".join(f"[a{n}]\n" for n in range(101)), "more than 100"),
        (f"[{'a.' * 100_000}a]", "more than 100 dots"),
        (f"[a]\n{'b . ' * 100_000}b = 1", "more than 100 dots"),
        ('"b".' * 100_000 + "b = 1", "more than 100 dots"),
        ('x = ["""\n\'""", {' + "b." * 100_000 + "b = 1}]", "more than 100 dots"),
        ('x = "' + '\\"' * 500_000, "not valid TOML"),
    ],
)
def test_a_bad_list_of_skills_is_named(folder: Path, text: str, match: str) -> None:
    (folder / "skills.toml").write_text(text)
    with pytest.raises(Invalid, match=match) as caught:
        read_bot(folder)
    assert "ada/skills" in str(caught.value)


def test_dots_in_the_texts_of_a_list_of_skills_are_not_keys(folder: Path) -> None:
    text = (folder / "skills.toml").read_text()
    dots = "." * 500
    added = f'about = "{dots} \\" {dots}"\nmore = \'{dots}\'\nlong = """\n{dots}\n"""\n# it\'s {dots}\n'
    (folder / "skills.toml").write_text(text.replace("[summarize]\n", f"[summarize]\n{added}"))
    assert [skill.name for skill in read_bot(folder).skills] == ["summarize"]


def test_a_link_in_the_middle_of_a_path_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "skills").rename(tmp_path / "elsewhere")
    (folder / "skills").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid, match="ada/skills is not a folder"):
        read_bot(folder)
    with pytest.raises(Invalid, match="ada/skills is not a folder"):
        write_bot(tmp_path, "ada", Update({"skills/tea/SKILL.md": "x"}))
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["summarize"]
    (tmp_path / "eve").symlink_to(folder)
    with pytest.raises(Invalid, match="eve is not a folder"):
        read_bot(tmp_path / "eve")


def test_what_is_in_the_way_of_a_file_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / "USER.md.new").mkdir()
    with BotFolder.open(folder) as opened, pytest.raises(Invalid, match="ada/USER.md.new is a folder"):
        opened.write("USER.md.new", "x")
    with pytest.raises(NotFound):
        read_bot(tmp_path / "nobody")
    with pytest.raises(NotFound):
        verify(tmp_path / "nobody")


def test_a_skill_that_nothing_names_is_reported(folder: Path) -> None:
    (folder / "skills" / "tea").mkdir()
    assert verify(folder) == ["ada/skills/'tea' exists, but skills.toml does not name it."]


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "SOUL.md/x", "skills/../SKILL.md", "skills/a/b/SKILL.md", "skills/con/SKILL.md", "", "a"],
)
def test_a_path_that_no_bot_has_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        require_bot_path(path)


def test_a_persons_way_to_write_boundaries_is_read(folder: Path) -> None:
    (folder / "SOUL.md").write_text(
        SOUL.replace("- Never print secrets.", "Be kind.\nAlways.\n\n* Ask first.\n  Twice.\n")
    )
    assert read_bot(folder).soul.boundaries == ("Be kind.\nAlways.", "Ask first.\nTwice.")


async def test_a_holder_that_does_not_end_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async with hold_bots_lock(tmp_path):
        with pytest.raises(Unavailable, match="for too long"):
            async with hold_bots_lock(tmp_path, wait_s=0):
                pass
    async with hold_bots_lock(tmp_path, wait_s=0):
        pass


@pytest.fixture
def bottomless(folder: Path) -> Iterator[Path]:
    """The folder of a bot, with more folders inside each other than can be gone through."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(3 * sys.getrecursionlimit()):
        os.mkdir("x", dir_fd=at)
        inner = os.open("x", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    yield folder
    subprocess.run(["rm", "-rf", folder.with_name(".ada.gone")], check=True)


async def test_folders_without_end_stop_neither_a_deletion_nor_other_bots(bottomless: Path) -> None:
    bots_dir = bottomless.parent
    with contextlib.suppress(Denied):  # some systems can remove it
        remove_bot(bots_dir, "ada")
    assert not bottomless.exists()
    async with hold_bots_lock(bots_dir):
        write_bot(bots_dir, "ada", Update(TEXTS))
    assert verify(bottomless) == []
