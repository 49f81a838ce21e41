"""Archives: what goes in comes out, and whatever is not as written is refused."""

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from perdure import Conflict, Damaged, Denied, Invalid
from perdure.store.backup.archive import MANIFEST, Manifest, unpack_archive, write_archive
from perdure.store.backup.places import DATABASE


def make(folder: Path, name: str = "backup.tar.gz") -> tuple[Path, Manifest]:
    """An archive with a database and files in two folders."""
    (folder / "dump").write_bytes(b"database bytes")
    for path, text in {
        "bots/timer/SOUL.md": "# soul\n",
        "bots/timer/skills/web-search/SKILL.md": "skill é\n",
        "state/memory.jsonl": '{"id": 1}\n',
        "state/memory.jsonl.lock": "",
        "state/memory.jsonl.new": "half",
        "state/memory.idx.sqlite": "derived",
        "state/memory.idx.sqlite-wal": "derived",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    manifest = write_archive(
        folder / name,
        dump=folder / "dump",
        database="sqlite",
        version=1,
        folders={"bots": folder / "bots", "memory": folder / "state"},
        program="test",
    )
    return folder / name, manifest


def places(folder: Path) -> dict[str, Path]:
    return {DATABASE: folder / "out.db", "bots": folder / "out-bots", "memory": folder / "out-memory"}


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    archive, manifest = make(tmp_path)
    assert unpack_archive(archive, places(tmp_path)) == manifest
    assert (tmp_path / "out.db").read_bytes() == b"database bytes"
    assert (tmp_path / "out-bots/timer/skills/web-search/SKILL.md").read_text() == "skill é\n"
    assert (tmp_path / "out-memory/memory.jsonl").read_text() == '{"id": 1}\n'


def test_locks_and_derived_files_stay_out(tmp_path: Path) -> None:
    _, manifest = make(tmp_path)
    assert [entry.path for entry in manifest.entries] == [
        "database",
        "bots/timer/SOUL.md",
        "bots/timer/skills/web-search/SKILL.md",
        "memory/memory.jsonl",
    ]


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "link").symlink_to(secret)
    (tmp_path / "bots" / "folder").symlink_to(tmp_path)
    _, manifest = make(tmp_path)
    assert not any("link" in entry.path or "secret" in entry.path for entry in manifest.entries)


def test_archive_and_unpacked_files_are_private(tmp_path: Path) -> None:
    archive, _ = make(tmp_path)
    unpack_archive(archive, places(tmp_path))
    assert archive.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out.db").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out-bots").stat().st_mode & 0o777 == 0o700


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "backup.tar.gz").write_text("mine")
    with pytest.raises(Conflict):
        make(tmp_path)
    assert (tmp_path / "backup.tar.gz").read_text() == "mine"


def test_missing_folders_are_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "dump").write_bytes(b"x")
    manifest = write_archive(
        tmp_path / "a",
        dump=tmp_path / "dump",
        database="sqlite",
        version=1,
        folders={"bots": tmp_path / "no"},
        program="",
    )
    assert len(manifest.entries) == 1


def test_an_archive_that_was_cut_anywhere_is_refused(tmp_path: Path) -> None:
    archive, _ = make(tmp_path)
    whole = archive.read_bytes()
    for size in range(0, len(whole), 13):
        archive.write_bytes(whole[:size])
        target = tmp_path / f"cut-{size}"
        target.mkdir()
        with pytest.raises(Damaged):
            unpack_archive(archive, places(target))


def test_a_flipped_byte_is_found(tmp_path: Path) -> None:
    archive, manifest = make(tmp_path)
    with tarfile.open(archive) as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    members["bots/timer/SOUL.md"] = b"# evil\n"
    rewrite(archive, list(members.items()))
    with pytest.raises(Damaged, match="manifest"):
        unpack_archive(archive, places(tmp_path))
    assert manifest.version == 1


def rewrite(archive: Path, members: list[tuple[str, bytes]]) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize(
    "name",
    [
        "../escape",
        "bots/../../escape",
        "/etc/escape",
        "bots/a\\..\\b",
        "elsewhere/file",
        "database/below",
        "bots",
        "",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused_and_nothing_is_written_there(tmp_path: Path, name: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    rewrite(archive, [(DATABASE, b"x"), (name, b"evil")])
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises((Invalid, Damaged)):
        unpack_archive(archive, places(inside))
    assert not list(tmp_path.rglob("escape"))
    assert not Path("/etc/escape").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_only_plain_files_are_taken(tmp_path: Path, kind: bytes) -> None:
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("bots/thing")
        member.type = kind
        member.linkname = "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(Invalid):
        unpack_archive(archive, places(tmp_path))
    assert not os.path.lexists(tmp_path / "out-bots" / "thing")


def test_the_same_file_twice_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar.gz"
    rewrite(archive, [(DATABASE, b"x"), ("bots/a", b"1"), ("bots/a", b"2")])
    with pytest.raises(Invalid):
        unpack_archive(archive, places(tmp_path))


def test_two_spellings_of_one_file_are_refused(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar.gz"
    rewrite(archive, [(DATABASE, b"x"), ("bots/a", b"1"), ("bots/./a", b"2")])
    with pytest.raises(Invalid):
        unpack_archive(archive, places(tmp_path))


@pytest.mark.parametrize(
    "manifest",
    [b"", b"{", b"[]", b"null", b'{"format": 1}', b'{"format": 1, "entries": [{"x": 1}]}', b"\xff\xfe"],
)
def test_a_manifest_that_is_invalid_is_refused(tmp_path: Path, manifest: bytes) -> None:
    archive = tmp_path / "odd.tar.gz"
    rewrite(archive, [(DATABASE, b"x"), (MANIFEST, manifest)])
    with pytest.raises(Damaged):
        unpack_archive(archive, places(tmp_path))


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    archive = tmp_path / "newer.tar.gz"
    rewrite(archive, [(DATABASE, b"x"), (MANIFEST, json.dumps({"format": 9}).encode())])
    with pytest.raises(Invalid, match="format 9"):
        unpack_archive(archive, places(tmp_path))


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "dump").write_text("")
    with pytest.raises(Denied):
        write_archive(
            tmp_path / "file" / "a", dump=tmp_path / "dump", database="sqlite", version=1, folders={}, program=""
        )
