"""The secrets of a home: private files that survive a crash whole, and leave in no backup."""

import os
import tarfile
from pathlib import Path

import pytest

from perdure import failpoints
from perdure.app.access.secret_files import SecretFiles, require_secret
from perdure.errors import Damaged, Denied, Invalid, NotFound
from perdure.interfaces.cli.errors import run

KEY = "sk-canary-5f1d"


@pytest.fixture
def secrets(tmp_path: Path) -> SecretFiles:
    return SecretFiles(tmp_path / "home")


def test_a_secret_is_stored_in_a_private_file(secrets: SecretFiles) -> None:
    assert secrets.read("OPENAI_API_KEY") is None
    assert secrets.names() == []
    path = secrets.write("OPENAI_API_KEY", f"  {KEY}\n")
    assert (secrets.read("OPENAI_API_KEY"), path.read_text()) == (KEY, f"{KEY}\n")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert secrets.names() == ["OPENAI_API_KEY"]
    secrets.write("OPENAI_API_KEY", "sk-another-key")
    assert secrets.read("OPENAI_API_KEY") == "sk-another-key"
    secrets.remove("OPENAI_API_KEY")
    assert secrets.read("OPENAI_API_KEY") is None
    with pytest.raises(NotFound):
        secrets.remove("OPENAI_API_KEY")


@pytest.mark.parametrize("name", ["", "../token", "a/b", "1A", "A B", "A" * 65, "A\n", ".hidden"])
def test_a_name_that_could_lead_elsewhere_is_refused(secrets: SecretFiles, name: str) -> None:
    for use in (secrets.read, secrets.remove, lambda name: secrets.write(name, KEY)):
        with pytest.raises(Invalid, match="Invalid name of a secret"):
            use(name)


@pytest.mark.parametrize("value", ["", "short", "with blank inside", "two\nlines-of-it", "schlüssel-1234", "x" * 4097])
def test_what_cannot_be_sent_as_a_key_is_refused_without_repeating_it(value: str) -> None:
    with pytest.raises(Invalid) as refused:
        require_secret(value)
    assert not value or value not in refused.value.detail


def test_a_file_that_is_no_secret_is_damaged(secrets: SecretFiles) -> None:
    path = secrets.write("A", KEY)
    for content in (b"", b"\xff\xfe", b"two\nlines that are too many", b"x" * 10_000):
        path.write_bytes(content)
        with pytest.raises(Damaged, match="does not contain a valid secret"):
            secrets.read("A")


def test_a_link_is_not_followed(secrets: SecretFiles, tmp_path: Path) -> None:
    path = secrets.write("A", KEY)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text(KEY)
    with pytest.raises(Denied):
        secrets.read("A")


@pytest.mark.parametrize("point", ["files.write.before", "files.fsync.before", "files.name.before"])
def test_a_write_that_dies_leaves_the_old_secret(secrets: SecretFiles, point: str) -> None:
    secrets.write("A", KEY)

    def die() -> None:
        raise OSError(5, os.strerror(5))

    with failpoints.armed(point, die), pytest.raises(Exception, match="cannot be written"):
        secrets.write("A", "sk-another-key")
    assert secrets.read("A") == KEY
    assert secrets.names() == ["A"]
    secrets.write("A", "sk-another-key")
    assert secrets.read("A") == "sk-another-key"


def test_no_backup_contains_a_secret(secrets: SecretFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "migrate"]) == 0
    secrets.write("OPENAI_API_KEY", KEY)
    archive = tmp_path / "backup.tar.gz"
    capsys.readouterr()
    assert run(["db", "backup", str(archive)]) == 0
    said = capsys.readouterr().out
    assert f"Skipped, because they are secrets: OPENAI_API_KEY. They stay in {secrets.folder}." in said.replace(
        "\n", " "
    )
    with tarfile.open(archive) as found:
        contents = [found.extractfile(member) for member in found.getmembers()]
        assert not any(KEY.encode() in each.read() for each in contents if each is not None)
