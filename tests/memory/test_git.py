"""What git is asked, and that neither a name nor a repository can make it do more."""

import os
from pathlib import Path

import pytest

from perdure.errors import Invalid, NotFound, Unavailable
from perdure.memory.ingest.git import Repository
from tests.memory.repositories import GitRepository, repository

__all__ = ["repository"]


def test_a_commit_reports_which_paths_it_changed(repository: GitRepository) -> None:
    first = repository.commit("one", src__cart_py="1", README_md="2")
    second = repository.commit("two", src__cart_py="3")
    asked = Repository(repository.folder)
    assert sorted(asked.changed_paths(first)) == ["README.md", "src/cart.py"]
    assert asked.changed_paths("HEAD") == ["src/cart.py"]
    assert asked.commit(second[:8]) == second


def test_a_merge_reports_what_it_brought(repository: GitRepository) -> None:
    repository.commit("one", a_py="1")
    repository.git("checkout", "-q", "-b", "side")
    repository.commit("two", b_py="1")
    repository.git("checkout", "-q", "main")
    repository.commit("three", c_py="1")
    repository.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    assert Repository(repository.folder).changed_paths("HEAD") == ["b.py"]


def test_odd_names_of_files_are_reported_unchanged(repository: GitRepository) -> None:
    (repository.folder / "sp ace\nline\té.py").write_text("")
    (repository.folder / os.fsdecode(b"broken\xff.py")).write_text("")
    repository.commit("odd")
    assert Repository(repository.folder).changed_paths("HEAD") == ["broken?.py", "sp ace\nline\té.py"]


@pytest.mark.parametrize(
    "name", ["--upload-pack=touch x", "--output=x", "-", "", " ", "a b", "HEAD\n", "x\0y"], ids=ascii
)
def test_a_name_that_could_be_an_option_is_refused_before_git_sees_it(name: str, repository: GitRepository) -> None:
    with pytest.raises(Invalid, match="is not a commit"):
        Repository(repository.folder).changed_paths(name)


@pytest.mark.parametrize("name", ["nothing", "HEAD..HEAD", "HEAD^{tree}", "HEAD:a.py", ":/x", "0" * 40])
def test_what_is_no_commit_is_not_found(name: str, repository: GitRepository) -> None:
    repository.commit("one", a_py="1")
    with pytest.raises(NotFound, match="There is no commit"):
        Repository(repository.folder).changed_paths(name)


def test_a_folder_without_a_repository_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(NotFound, match="not a git repository"):
        Repository(tmp_path / "plain").changed_paths("HEAD")


def test_without_git_one_sentence_says_so(repository: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Unavailable, match="Git cannot be run"):
        Repository(repository.folder).changed_paths("HEAD")


def test_a_repository_cannot_have_programs_run(repository: GitRepository, tmp_path: Path) -> None:
    sha = repository.commit("one", a_py="1")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "core.pager", "gpg.program", "core.sshCommand", "diff.x.textconv"):
        repository.git("config", key, str(program))
    repository.git("config", "log.showSignature", "true")
    (repository.folder / ".git" / "info" / "attributes").write_text("* diff=x\n")
    asked = Repository(repository.folder)
    assert asked.changed_paths(sha) == ["a.py"]
    assert asked.log("--format=%s") == ["one"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://user:secret@example.org/acme/shop.git", "acme/shop"),
        ("git@example.org:acme/shop.git", "acme/shop"),
        ("ssh://git@example.org:22/acme/shop", "acme/shop"),
        ("https://example.org/group/acme/shop/", "group/acme/shop"),
        ("git@example.org:group/acme/shop.git", "group/acme/shop"),
        ("/somewhere/acme/shop", None),
        ("nonsense", None),
    ],
)
def test_the_name_of_a_repository_is_that_of_its_origin(
    address: str, name: str | None, repository: GitRepository
) -> None:
    repository.git("remote", "add", "origin", address)
    assert Repository(repository.folder).name() == name


def test_a_repository_without_an_origin_has_no_name(repository: GitRepository) -> None:
    assert Repository(repository.folder).name() is None


def test_the_repository_of_a_hook_is_not_taken_for_the_one_that_is_named(
    repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha = repository.commit("one", a_py="1")
    other = GitRepository(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    assert Repository(repository.folder).commit("HEAD") == sha
