"""A bot as one file: what is not exactly one is refused, and nothing is written or run."""

import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Damaged, Invalid, NotFound
from perdure.bots import archive
from perdure.bots.archive import MANIFEST, PackedBot, pack_bot, read_archive, unpack_bot
from tests.bots.texts import TEXTS

BOT = PackedBot("ada", {"name": "Ada"}, TEXTS)
GOOD = pack_bot(BOT)


def zipped(*more: tuple[zipfile.ZipInfo | str, bytes], without: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(GOOD)) as good, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bad:
        for name in good.namelist():
            if name != without:
                bad.writestr(name, good.read(name))
        for entry, data in more:
            bad.writestr(entry, data)
    return buffer.getvalue()


def linked(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = 0o120777 << 16
    return entry


def test_a_bot_comes_back_as_it_went_in() -> None:
    assert unpack_bot(GOOD, "x") == BOT
    assert pack_bot(BOT) == GOOD


def test_what_lies_beside_a_file_is_not_packed() -> None:
    assert pack_bot(PackedBot("ada", BOT.config, {**TEXTS, "SOUL.md.new": "x"})) == GOOD


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "..\\evil", "skills/../../evil/SKILL.md", "evil.py", "SOUL.md.new", "skills/", "C:\\evil"],
)
def test_a_file_that_does_not_belong_is_named(name: str) -> None:
    with pytest.raises(Invalid, match="x.zip contains"):
        unpack_bot(zipped((name, b"evil")), "x.zip")


def manifest_with(**change: object) -> bytes:
    with zipfile.ZipFile(io.BytesIO(GOOD)) as good:
        manifest = json.loads(good.read(MANIFEST))
    return zipped((MANIFEST, json.dumps(manifest | change).encode()), without=MANIFEST)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (zipped((linked("skills/tea/SKILL.md"), b"/etc/passwd")), "not a regular file"),
        (zipped(without=MANIFEST), "perdure-bot.json is missing"),
        (zipped((MANIFEST, b"["), without=MANIFEST), "cannot be read"),
        (zipped((MANIFEST, b"[]"), without=MANIFEST), "cannot be read"),
        (zipped((MANIFEST, b"[" * 100_000), without=MANIFEST), "cannot be read"),
        (manifest_with(format=2), "has format 2"),
        (manifest_with(slug="../x"), "not a valid slug"),
        (manifest_with(slug=1), "cannot be read"),
        (manifest_with(config=[]), "cannot be read"),
        (manifest_with(sha256={"a": "b"}), "cannot be read"),
        (zipped(("USER.md", b"0" * (2 << 20)), without="USER.md"), "too large"),
        (zipped(*((f"skills/a{n}/SKILL.md", b"") for n in range(200))), "more than"),
    ],
)
def test_an_archive_that_is_not_ours_is_refused_by_name(data: bytes, match: str) -> None:
    with pytest.raises(Invalid, match=match):
        unpack_bot(data, "x.zip")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_that_is_there_twice_is_refused() -> None:
    with pytest.raises(Invalid, match="twice"):
        unpack_bot(zipped(("SOUL.md", b"x")), "x.zip")


def test_an_archive_that_was_altered_is_damaged() -> None:
    for data in (zipped(("USER.md", b"x"), without="USER.md"), zipped(without="USER.md"), GOOD[:-30], b"", b"PK"):
        with pytest.raises(Damaged, match="x.zip"):
            unpack_bot(data, "x.zip")


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
def test_a_byte_that_was_changed_never_gives_another_bot(at: int, change: int) -> None:
    data = bytearray(GOOD)
    data[at] ^= change
    with suppress(Invalid, Damaged):
        assert unpack_bot(bytes(data), "x.zip").files == TEXTS


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ARCHIVE_BYTES", 1 << 10)
    (tmp_path / "x.zip").write_bytes(b"x" * 3000)
    with pytest.raises(Invalid, match="larger than"):
        read_archive(tmp_path / "x.zip")
    with pytest.raises(NotFound):
        read_archive(tmp_path)
