"""`perdure memory` as a team uses it: in a repository, in a job of a CI, in a shallow clone."""

import io
import json
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
        assert f"The path {path!r} is not in a git repository" in terminal.err
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


def test_paths_are_taken_as_git_prints_them(
    terminal: Terminal, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("docs/日本語.md", 'docs/a "b"\\\t.md', "shop/cart.py")
    for name in names:
        (repository.folder / name).parent.mkdir(exist_ok=True)
        (repository.folder / name).write_text("new")
        record = {"type": "lesson", "title": name, "paths": [name.replace("\\", "/")]}
        given(monkeypatch, json.dumps(record))
        assert terminal("memory", "add", "-") == 0
    repository.git("add", "-A")
    repository.git("config", "core.quotePath", "true")
    printed = repository.git("diff", "--cached", "--name-only")
    assert '"docs/\\346' in printed
    for text in (printed, repository.git("diff", "--cached", "-z", "--name-only"), printed.replace("\n", "\r\n")):
        given(monkeypatch, text)
        found = terminal.json("memory", "related", "--paths-from", "-")
        assert sorted(titles(found)) == sorted(names)


def test_an_empty_list_of_paths_in_a_shallow_clone_changes_no_section(
    shallow: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = tmp_path / "paths"
    paths.write_text("")
    assert terminal("memory", "related", "--paths-from", str(paths)) == 0, "a change without files is one"
    monkeypatch.chdir(shallow)
    assert terminal("memory", "related", "--paths-from", str(paths), "--apply", "body.md") == 2
    assert f"{paths} is empty; nothing was changed. This is a shallow clone" in terminal.err


def test_a_record_with_a_path_is_of_the_repository_of_the_path(
    terminal: Terminal, repository: GitRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.git("remote", "add", "origin", "git@gitlab.com:acme/shop.git")
    monkeypatch.chdir(tmp_path)
    remember(terminal, "here", "shop/shop/cart.py")
    remember(terminal, "nowhere", "x.py")
    [here] = terminal.json("memory", "related", "--path", str(repository.folder / "shop"))["matches"]
    assert here["record"]["repo"] == "acme/shop"
    assert terminal.json("memory", "related", "--paths-from", listed(tmp_path), "--repo", "acme/other")["matches"] == []
    [record] = terminal.json("memory", "search", "nowhere")["matches"]
    assert "repo" not in record["record"]


def listed(folder: Path) -> str:
    (folder / "list").write_text("shop/cart.py\n")
    return str(folder / "list")


def test_a_folder_of_tests_that_is_not_there_is_refused(terminal: Terminal) -> None:
    Path("report.xml").write_text('<testsuite><testcase name="t" file="t.py"><failure/></testcase></testsuite>')
    assert terminal("memory", "ingest", "junit", "report.xml", "--root", "nonexist") == 2
    assert "--root must be a folder, got 'nonexist'." in terminal.err


def test_an_import_can_be_lenient(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = '{"id": "mine-1", "type": "fact", "title": "%s"}\n<<<<<<< HEAD\n{"id": "%s", "type": "fact"}\n'
    given(monkeypatch, lines % ("one", "other-1"))
    assert terminal("memory", "import", "-") == 2
    given(monkeypatch, lines % ("two", "other-2"))
    assert terminal("memory", "import", "-", "--lenient") == 0
    assert terminal.out.startswith("Added: 1. Not added: 1 duplicate, 1 invalid.\nLine 2: the line is ")
    assert "Line 1: the id 'mine-1' belongs to another record; the line was not added.\n" in terminal.out
    assert terminal.json("memory", "show", "mine-1")["title"] == "one"


def test_a_forgotten_revert_stays_forgotten(terminal: Terminal, repository: GitRepository) -> None:
    repository.git("revert", "--no-edit", "HEAD")
    assert terminal.json("memory", "ingest", "revert")["added"] == 1
    [match] = terminal.json("memory", "search", "revert")["matches"]
    assert terminal("memory", "forget", match["record"]["id"], "--yes") == 0
    assert terminal("memory", "ingest", "revert") == 0
    assert terminal.out == "Added: 0. Not added: 0 duplicates, 1 forgotten, 0 skipped.\n"
    assert terminal.json("memory", "status")["records"] == 0


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
    assert terminal.out == f"The memory is switched off (memory.enabled); {body.absolute()} was not changed.\n"
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
    assert "merge request [7](<https://gitlab.com/acme/shop/-/merge_requests/7>)" in terminal.out


def test_a_report_is_of_the_repository_that_the_tests_ran_in(terminal: Terminal, repository: GitRepository) -> None:
    repository.git("remote", "add", "origin", "https://gitlab.com/group/acme/shop.git")
    Path("report.xml").write_text('<testsuite><testcase name="t" file="t.py"><failure/></testcase></testsuite>')
    assert terminal("memory", "ingest", "junit", "report.xml") == 0
    [match] = terminal.json("memory", "related", "--path", "t.py")["matches"]
    assert match["record"]["repo"] == "group/acme/shop"


def test_a_name_of_a_commit_becomes_its_id(terminal: Terminal, repository: GitRepository) -> None:
    sha = repository.git("rev-parse", "HEAD")
    Path("report.xml").write_text('<testsuite><testcase name="t" file="t.py"><failure/></testcase></testsuite>')
    assert terminal("memory", "add", "--type", "lesson", "--title", "by name", "--sha", "HEAD") == 0
    assert terminal("memory", "ingest", "junit", "report.xml", "--sha", sha[:8]) == 0
    assert [each["sha"] for each in terminal.json("memory", "list")["records"]] == [sha, sha]
    assert len(terminal.json("memory", "related", "--sha", sha[:10])["matches"]) == 2
    elsewhere = "fedcba9876"
    assert terminal("memory", "add", "--type", "lesson", "--title", "of a fork", "--sha", elsewhere) == 0
    assert terminal.json("memory", "related", "--sha", elsewhere)["matches"][0]["record"]["sha"] == elsewhere
    assert terminal("memory", "add", "--type", "lesson", "--title", "no commit", "--sha", "nowhere") == 3
    assert "There is no commit 'nowhere' in this repository." in terminal.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "--type", "lesson", "--title", "T", "--path", " "),
        ("related", "--path", ""),
        ("related", "--path", "a.py", "--apply", ""),
    ],
)
@pytest.mark.usefixtures("repository")
def test_an_empty_path_is_refused(terminal: Terminal, arguments: tuple[str, ...]) -> None:
    assert terminal("memory", *arguments) == 2
    assert not terminal.json("memory", "list")["records"]


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
    assert "This is a shallow clone: `git diff A...B` needs a common ancestor." in terminal.err
    report = terminal.json("memory", "ingest", "revert")
    assert (report["added"], report["skipped"]) == (0, 1), "neither without paths nor with those of the whole tree"
    assert "is a shallow clone: only its newest commits were read." in report["errors"][0]
    assert "skipped, because its paths cannot be read." in report["errors"][1]
    assert terminal("memory", "ingest", "revert", "--strict") == 1


def test_a_revert_that_a_shallow_clone_skipped_is_stored_with_its_paths_after_a_fetch(
    shallow: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shallow)
    assert terminal.json("memory", "ingest", "revert")["skipped"] == 1
    subprocess.run(["git", "fetch", "-q", "--unshallow"], check=True)
    report = terminal.json("memory", "ingest", "revert", "--strict")
    assert (report["added"], report["errors"]) == (1, [])
    [record] = terminal.json("memory", "list")["records"]
    assert record["paths"] == ["shop/cart.py"]


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("listed_path", ["../x.py", "shop/../../x.py"])
def test_a_listed_path_that_leads_out_of_the_repository_is_refused(
    terminal: Terminal, tmp_path: Path, listed_path: str
) -> None:
    paths = tmp_path / "paths"
    paths.write_text(f"shop/cart.py\n{listed_path}\n")
    assert terminal("memory", "related", "--paths-from", str(paths)) == 2
    assert f"has the path {listed_path!r}, which leads out of the repository." in terminal.err
