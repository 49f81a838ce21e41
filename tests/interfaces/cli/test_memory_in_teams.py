"""`perdure memory` as a team uses it: in a repository, in a job of a CI, in a shallow clone."""

import io
import os
import subprocess
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal
from tests.memory.repositories import GitRepository

BEGIN = "<!-- perdure:memory:begin -->"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """A repository with two commits, which is the current folder."""
    made = GitRepository(tmp_path / "shop")
    made.commit("one", shop__cart_py="1", shop__tax_py="1", lib__x_py="1")
    made.commit("two", shop__cart_py="2")
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def terminal(repository: GitRepository, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands in that repository, with no home yet."""
    assert repository.folder.is_dir()
    return Terminal(capsys)


def given(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def titles(found: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [match["record"]["title"] for match in found["matches"]]


def remember(terminal: Terminal, title: str, *paths: str) -> list[str]:
    """Add a record, and return the paths that it got."""
    words = [word for path in paths for word in ("--path", path)]
    added = terminal.json("memory", "add", "--type", "lesson", "--title", title, *words)
    found: list[str] = terminal.json("memory", "show", added["id"])["paths"]
    return found


def test_a_path_is_relative_to_the_current_folder_or_absolute(
    terminal: Terminal, repository: GitRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    absolute = str(repository.folder / "shop" / "cart.py")
    assert remember(terminal, "at the root", "shop/cart.py", absolute) == ["shop/cart.py"]
    monkeypatch.chdir(repository.folder / "shop")
    assert remember(terminal, "below", "cart.py", "../lib/x.py", "./tax.py", absolute, "gone.py") == [
        *("shop/cart.py", "lib/x.py", "shop/tax.py", "shop/gone.py"),
    ]
    for asked in (("related", "--path", "cart.py"), ("related", absolute), ("query", "--paths", "cart.py")):
        assert titles(terminal.json("memory", *asked)) == ["below", "at the root"]
    (tmp_path / "linked").symlink_to(repository.folder)
    monkeypatch.chdir(tmp_path)
    assert remember(terminal, "elsewhere", "shop/shop/tax.py", "linked/shop/tax.py", absolute) == [
        *("shop/tax.py", "shop/cart.py"),
    ]
    assert titles(terminal.json("memory", "related", "--path", str(repository.folder / "lib"))) == ["below"]


def test_a_path_in_no_repository_is_refused_and_nothing_is_stored(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (str(tmp_path / "x.py"), "../x.py"):
        assert terminal("memory", "add", "--type", "lesson", "--title", "t", "--path", path) == 2
        assert f"The path {path!r} is in no git repository" in terminal.err
    assert terminal("memory", "related", "--path", ".") == 2
    assert "is a whole repository" in terminal.err
    monkeypatch.chdir(tmp_path)
    assert remember(terminal, "without a repository", "a/b.py") == ["a/b.py"]
    assert terminal.json("memory", "status")["records"] == 1


def test_paths_of_git_are_those_of_the_root_wherever_they_are_given(
    terminal: Terminal, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(terminal, "cart", "shop/cart.py")
    monkeypatch.chdir(repository.folder / "shop")
    for text in ("shop/cart.py\n", f"{repository.folder}/shop/cart.py\n"):
        given(monkeypatch, text)
        assert titles(terminal.json("memory", "related", "--paths-from", "-")) == ["cart"]


def test_empty_standard_input_is_refused_and_changes_no_section(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(terminal, "cart", "shop/cart.py")
    body = Path("body.md")
    assert terminal("memory", "related", "--path", "shop/cart.py", "--apply", "body.md") == 0
    before = body.read_text()
    for words in (
        ("related", "--paths-from", "-", "--apply", "body.md"),
        ("related", "--path", "shop/cart.py", "--apply", "-"),
        ("add", "-"),
        ("import", "-"),
    ):
        given(monkeypatch, "")
        assert terminal("memory", *words) == 2, words
        assert (terminal.out, terminal.err) == ("", "perdure: Standard input is empty; nothing was changed.\n")
    assert body.read_text() == before


def test_a_stale_section_is_removed_and_none_is_made_of_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = Path("body.md")
    nothing = ("memory", "related", "--path", "lib/x.py", "--apply", "body.md")
    assert terminal(*nothing) == 0
    assert not body.exists()
    remember(terminal, "cart", "shop/cart.py")
    body.write_text("Fixes it.\n")
    assert terminal("memory", "related", "--path", "shop/cart.py", "--apply", "body.md") == 0
    assert BEGIN in body.read_text()
    monkeypatch.setenv("MEMORY_ENABLED", "false")
    with_section = body.read_text()
    assert terminal(*nothing) == 0
    assert body.read_text() == with_section, "a memory that is switched off knows nothing about it"
    monkeypatch.delenv("MEMORY_ENABLED")
    assert terminal(*nothing) == 0
    assert terminal.out == f"Nothing related was found. The section was removed from {body.absolute()}.\n"
    assert body.read_text() == "Fixes it.\n"
    given(monkeypatch, with_section)
    assert terminal("memory", "related", "--path", "lib/x.py", "--apply", "-") == 0
    assert terminal.out == "Fixes it.\n"
    assert terminal("memory", "related", "--path", "lib/x.py", "--markdown") == 0
    assert terminal.out == ""


def test_commits_and_pull_requests_are_links_to_the_origin(terminal: Terminal, repository: GitRepository) -> None:
    repository.git("remote", "add", "origin", "git@gitlab.com:acme/shop.git")
    sha = repository.git("rev-parse", "HEAD")
    about = ("--path", "shop/cart.py", "--sha", sha, "--pr", "7")
    assert terminal("memory", "add", "--type", "incident", "--title", "cart", *about) == 0
    assert terminal("memory", "related", "--path", "shop/cart.py", "--markdown") == 0
    assert f"[`{sha[:12]}`](<https://gitlab.com/acme/shop/-/commit/{sha}>)" in terminal.out
    assert "[7](<https://gitlab.com/acme/shop/-/merge_requests/7>)" in terminal.out


def test_a_report_is_of_the_repository_that_the_tests_ran_in(terminal: Terminal, repository: GitRepository) -> None:
    repository.git("remote", "add", "origin", "https://gitlab.com/group/acme/shop.git")
    Path("report.xml").write_text('<testsuite><testcase name="t" file="t.py"><failure/></testcase></testsuite>')
    assert terminal("memory", "ingest", "junit", "report.xml") == 0
    [match] = terminal.json("memory", "related", "--path", "t.py")["matches"]
    assert match["record"]["repo"] == "group/acme/shop"


@pytest.fixture
def shallow(repository: GitRepository, tmp_path: Path) -> Path:
    """A clone of the newest commit alone."""
    repository.git("revert", "--no-edit", "HEAD")
    folder = tmp_path / "shallow"
    command = ["git", "clone", "-q", "--depth", "1", f"file://{repository.folder}", str(folder)]
    subprocess.run(command, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    return folder


def test_a_shallow_clone_is_named_as_the_reason(
    shallow: Path, terminal: Terminal, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shallow)
    assert terminal("memory", "query", "--sha", "HEAD") == 3
    assert "this is a shallow clone, which lacks the commit before it. Fetch the history" in terminal.err
    assert terminal("memory", "query", "--sha", repository.git("rev-parse", "HEAD~1")) == 3
    assert "This is a shallow clone, which may lack it." in terminal.err
    given(monkeypatch, "")
    assert terminal("memory", "related", "--paths-from", "-", "--apply", "body.md") == 2
    assert "This is a shallow clone: `git diff A...B` needs a commit that both have." in terminal.err
    report = terminal.json("memory", "ingest", "revert")
    assert report["added"] == 1
    assert "is a shallow clone: only its newest commits were read." in report["errors"][0]
    [record] = terminal.json("memory", "search", "revert")["matches"]
    assert "paths" not in record["record"], "not those of the whole tree"
    assert terminal("memory", "ingest", "revert", "--strict") == 1
