"""`perdure memory`."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import append_record
from tests.interfaces.cli.terminal import Terminal
from tests.memory.repositories import GitRepository

BEGIN = "<!-- perdure:memory:begin -->"
INCIDENT = ("memory", "add", "--type", "incident", "--title", "The cart is empty", "--path", "src/cart.py")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands in an empty folder, with no home yet."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    return Terminal(capsys)


def given(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    """Have a text on standard input."""
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_record_of_flags_is_stored_as_it_was_given(terminal: Terminal) -> None:
    added = terminal.json(
        *("memory", "add", "--type", "incident", "--title", "T", "--summary", "S", "--severity", "error"),
        *("--path", "./src/a.py", "--path", "b.py", "--fingerprint", "f", "--repo", "acme/shop", "--sha", "abcd"),
        *("--pr", "12", "--source", "me", "--link", "https://e.org", "--metadata", '{"a": [1]}', "--pinned"),
    )
    assert added["added"] is True
    record = terminal.json("memory", "show", added["id"])
    assert {key: value for key, value in record.items() if key not in ("id", "timestamp", "v")} == {
        "type": "incident",
        "title": "T",
        "summary": "S",
        "severity": "high",
        "paths": ["src/a.py", "b.py"],
        "fingerprint": "f",
        "repo": "acme/shop",
        "sha": "abcd",
        "pr_number": 12,
        "source": "me",
        "links": [{"url": "https://e.org"}],
        "metadata": {"a": [1], "pinned": True},
    }


def test_the_same_record_is_stored_once_a_day_unless_asked_otherwise(terminal: Terminal) -> None:
    first = terminal.json(*INCIDENT)
    assert terminal.json(*INCIDENT) == {"added": False, "reason": "duplicate", "existing_id": first["id"]}
    assert terminal.json(*INCIDENT, "--again")["added"] is True
    assert terminal(*INCIDENT) == 0
    assert terminal.out == (
        f"Not added: the same record is stored already, as {first['id']}."
        f" `perdure memory update {first['id']}` changes it.\n"
    )


def test_one_object_on_standard_input_is_one_record(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, '{\n  "type": "fact",\n  "title": "x"\n}\n')
    added = terminal.json("memory", "add", "-")
    assert terminal.json("memory", "show", added["id"])["title"] == "x"


def test_lines_on_standard_input_are_all_stored_or_none(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, '{"type": "fact", "title": "a"}\n\n{"type": "fact", "title": "b"}\n{"type":"fact","title":"a"}')
    told = terminal.json("memory", "add", "-")
    assert (told["added"], told["not_added"]) == (2, 1)
    for text, says in (
        ('{"type": "fact", "title": "c"}\n{"type": "NO"}', "Record 2: type is 'NO'"),
        ('{"type": "fact", "title": "c"}\n{"type": ', "Line 2 is not JSON"),
        ('{"type": "fact", "title": "c"}\n[1]', "Line 2 must be a JSON object"),
        ("", "Standard input is empty"),
        ("\n", "Standard input is not JSON"),
        ("[1, 2]", "Standard input must be a JSON object"),
        (b"\xff\xfe", "Standard input is not JSON"),
        ('{"type": "fact", "title": NaN}', "Standard input has NaN, which JSON does not have"),
    ):
        given(monkeypatch, text)
        assert terminal("memory", "add", "-") == 2
        assert says in terminal.err
    assert terminal.json("memory", "status")["records"] == 2


def test_a_taken_id_is_refused_with_exit_4(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, '{"id": "mine", "type": "fact", "title": "a"}')
    assert terminal("memory", "add", "-") == 0
    for lines, says in (
        ('{"id": "mine", "type": "fact", "title": "b"}', "The id 'mine' is taken by another record"),
        (
            '{"type": "fact", "title": "c"}\n{"id": "mine", "type": "fact", "title": "d"}',
            "Record 2: the id 'mine' is taken",
        ),
    ):
        given(monkeypatch, lines)
        assert terminal("memory", "add", "-") == 4
        assert says in terminal.err
    assert terminal.json("memory", "status")["records"] == 1


@pytest.mark.parametrize(
    "command", [("import",), ("related", "--paths-from"), ("related", "--text", "cart", "--apply")], ids=" ".join
)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(terminal: Terminal, command: tuple[str, ...]) -> None:
    assert terminal(*INCIDENT) == 0
    os.mkfifo("pipe")
    assert terminal("memory", *command, "pipe") == 2
    assert "pipe is a pipe, not a regular file" in terminal.err
    assert Path("pipe").is_fifo()


def test_an_import_with_a_taken_id_adds_the_others_and_exits_4(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, '{"id": "mine", "type": "fact", "title": "a"}\n')
    assert terminal("memory", "import", "-") == 0
    given(monkeypatch, '{"id": "mine", "type": "fact", "title": "b"}\n{"id": "new", "type": "fact"}\n')
    assert terminal("memory", "import", "-") == 4
    assert "Line 1: the id 'mine' belongs to another record" in terminal.out
    assert terminal.json("memory", "status")["records"] == 2


def test_an_id_with_a_tab_is_refused_and_an_old_one_can_be_forgotten(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = '{"id": "a\\tb", "type": "fact", "title": "a"}\n'
    given(monkeypatch, line)
    assert terminal("memory", "add", "-") == 2
    assert "control character" in terminal.err
    given(monkeypatch, line)
    assert terminal("memory", "import", "-") == 2
    log = Path(terminal.json("memory", "status")["path"])
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(line)
    found = terminal.json("memory", "verify")
    assert found["odd_ids"] == [{"offset": 0, "id": "a\tb"}]
    assert terminal.json("memory", "show", "a\tb")["title"] == "a"
    assert terminal("memory", "forget", "a\tb", "--yes") == 0
    assert terminal.json("memory", "status")["records"] == 0


def test_verify_says_what_it_checks(terminal: Terminal) -> None:
    assert terminal(*INCIDENT) == 0
    assert terminal("memory", "verify") == 0
    assert "Checked in the log and the archive: JSON, checksums, ids." in terminal.out
    log = Path(terminal.json("memory", "status")["path"])
    log.write_bytes(log.read_bytes() * 2)
    found = terminal.json("memory", "verify")
    assert (found["repeated_ids"], found["checked"]) == (1, ["json", "checksums", "ids"])


@pytest.mark.parametrize("number", range(4))
def test_a_look_up_with_a_damaged_index_answers(terminal: Terminal, number: int) -> None:
    assert terminal(*INCIDENT) == 0
    index = Path(terminal.json("memory", "status")["path"]).with_name("memory.idx.sqlite")
    assert len(terminal.json("memory", "search", "cart")["matches"]) == 1
    with index.open("r+b") as file:
        file.seek(4096 * number)
        file.write(b"\xff" * 8192)
    assert len(terminal.json("memory", "query", "--paths", "src/cart.py")["matches"]) == 1
    assert terminal.json("memory", "status")["index"]["state"] == "current"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "A record needs a type"),
        (["--type", "Not A Word"], "type is 'Not A Word'"),
        (["--type", "fact", "--path", "../x"], "is not in a git repository"),
        (["--type", "fact", "--metadata", "{"], "--metadata is not JSON"),
        (["--type", "fact", "--metadata", "[1]"], "--metadata must be a JSON object"),
        (["--type", "fact", "-"], "not both"),
        (["file.json"], "Unexpected argument 'file.json'"),
    ],
)
def test_what_makes_no_record_is_refused(arguments: list[str], says: str, terminal: Terminal) -> None:
    assert terminal("memory", "add", *arguments) == 2
    assert says in terminal.err


def test_a_person_sees_what_how_bad_how_old_where_and_why(terminal: Terminal) -> None:
    terminal(*INCIDENT, "--severity", "fatal", "--pr", "7", "--summary", "A stale\x1b[2J cache.\nMore.", "--pinned")
    assert terminal("memory", "query", "--paths", "src/cart.py") == 0
    first, second, *rest = terminal.out.splitlines()
    assert first == "critical  incident  just now  The cart is empty"
    assert second.endswith(", #7, pinned")
    assert rest[:2] == ["  A stale\\x1b[2J cache.", "  paths: src/cart.py"]
    assert rest[2].startswith("  why: path src/cart.py")


def test_nothing_found_is_not_an_error(terminal: Terminal) -> None:
    assert terminal("memory", "query", "--paths", "a.py") == 0
    assert terminal.out == "Nothing was found.\n"
    assert terminal.json("memory", "search", "nothing", "of", "it") == {"matches": [], "truncated": False}


@pytest.mark.parametrize(
    "arguments", [["--pr", "7"], ["--fingerprint", "f"], ["--paths", "no.py", "src/cart.py"], ["--", "src/cart.py"]]
)
def test_a_query_finds_by_each_of_its_ways(arguments: list[str], terminal: Terminal) -> None:
    terminal(*INCIDENT, "--pr", "7", "--fingerprint", "f")
    (match,) = terminal.json("memory", "query", "--limit", "2", *_flags_first(arguments))["matches"]
    assert match["record"]["title"] == "The cart is empty"


def _flags_first(arguments: list[str]) -> list[str]:
    """`--json` is appended by the terminal; after `--` it would be a path."""
    return arguments if "--" not in arguments else arguments[1:]


@pytest.mark.parametrize(
    "arguments", [[], ["--pr", "1", "--sha", "x"], ["--pr", "-1"], ["--paths", "a", "--limit", "21"]]
)
def test_a_query_that_is_invalid_is_a_usage_error(arguments: list[str], terminal: Terminal) -> None:
    assert terminal("memory", "query", *arguments) == 2
    assert terminal.out == ""


def test_a_commit_is_looked_up_with_the_paths_that_git_says_it_changed(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.commit("one", src__cart_py="1")
    monkeypatch.chdir(repository.folder)
    terminal(*INCIDENT)
    assert terminal.json("memory", "query", "--sha", "HEAD")["matches"][0]["why"][0]["value"] == "src/cart.py"
    assert terminal("memory", "query", "--sha", "nothing") == 3
    assert terminal.err == "perdure: There is no commit 'nothing' in this repository.\n"


@pytest.mark.parametrize("sha", ["--upload-pack=touch hacked", "-n", "", "a b"])
def test_a_hostile_commit_is_refused(sha: str, terminal: Terminal) -> None:
    assert terminal("memory", "query", f"--sha={sha}") == 2
    assert "is not a commit" in terminal.err
    assert list(Path.cwd().iterdir()) == []


def test_git_that_cannot_tell_is_a_clear_error(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal("memory", "query", "--sha", "HEAD") == 3
    assert "not a git repository" in terminal.err
    monkeypatch.setenv("PATH", "/nowhere")
    assert terminal("memory", "query", "--sha", "HEAD") == 8
    assert "Git cannot be run" in terminal.err


def test_related_history_is_a_section_of_markdown(terminal: Terminal, tmp_path: Path) -> None:
    terminal(*INCIDENT)
    assert terminal("memory", "related", "--path", "src/cart.py", "--markdown") == 0
    assert terminal.out.splitlines()[:2] == [BEGIN, "### Memory: related history"]
    section = terminal.out
    assert terminal.json("memory", "related", "src/cart.py", "--markdown")["markdown"] + "\n" == section
    body = tmp_path / "body.md"
    body.write_text("Fixes it.\n")
    body.chmod(0o640)
    for has_changed in (True, False):
        told = terminal.json("memory", "related", "--path", "src/cart.py", "--apply", str(body))
        assert told["changed"] is has_changed
        assert body.read_text() == f"Fixes it.\n\n{section}"
    assert body.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_what_is_found_says_how_many_more_match_and_how_to_see_them(terminal: Terminal) -> None:
    for number in range(7):
        assert terminal("memory", "add", "--type", "lesson", "--title", f"Lesson {number}", "--path", "src/a.py") == 0
    assert terminal("memory", "related", "--path", "src/a.py") == 0
    assert terminal.out.endswith("\n4 more records match: --limit 7 shows them.\n")
    assert terminal("memory", "query", "--paths", "src/a.py", "--limit", "6") == 0
    assert terminal.out.endswith("\n1 more record matches: --limit 7 shows it.\n")
    assert terminal("memory", "related", "--path", "src/a.py", "--markdown") == 0
    call = "`perdure memory related --limit 7` with the same arguments"
    assert terminal.out.splitlines()[-3:-1] == ["", f"4 more records match: {call} shows them."]
    assert terminal("memory", "related", "--path", "src/a.py", "--limit", "7", "--markdown") == 0
    assert "more" not in terminal.out
    found = terminal.json("memory", "related", "--path", "src/a.py")
    assert (len(found["matches"]), found["more"]) == (3, {"count": 4, "is_exact": True})


def test_a_section_goes_from_standard_input_to_standard_output(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(*INCIDENT)
    given(monkeypatch, "Fixes it.")
    assert terminal("memory", "related", "--text", "cart", "--apply", "-") == 0
    first = terminal.out
    assert first.startswith(f"Fixes it.\n\n{BEGIN}\n")
    given(monkeypatch, first)
    assert terminal("memory", "related", "--text", "cart", "--apply", "-") == 0
    assert terminal.out == first


def test_what_people_wrote_goes_through_byte_for_byte(tmp_path: Path) -> None:
    append_record(tmp_path / "state" / "memory.jsonl", {"id": "a", "type": "fact", "title": "x"})
    body = "Caf\u00e9 \u202ebidi\u202c\t\x07\r\nlast".encode()
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "memory", "related", "--text", "x", "--apply", "-", "--home", str(tmp_path)],
        input=body,
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(body + b"\r\n\r\n" + BEGIN.encode() + b"\r\n")


@pytest.mark.parametrize("text", [b"no.py\nsrc/cart.py\n", b"src/cart.py\0no.py\0", b"src/cart.py\r\n"])
def test_paths_may_come_as_git_lists_them(
    text: bytes, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal(*INCIDENT)
    given(monkeypatch, text)
    assert len(terminal.json("memory", "related", "--paths-from", "-")["matches"]) == 1
    (tmp_path / "paths").write_bytes(text)
    assert len(terminal.json("memory", "related", "--paths-from", str(tmp_path / "paths"))["matches"]) == 1


def test_a_list_of_no_path_is_refused_on_standard_input(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for empty in (b"", b"\n", b"\0"):
        given(monkeypatch, empty)
        assert terminal("memory", "related", "--paths-from", "-", "--markdown") == 2
        assert terminal.err == "perdure: Standard input is empty; nothing was changed.\n"
    Path("none.txt").write_text("")
    assert terminal("memory", "related", "--paths-from", "none.txt", "--markdown") == 0
    assert terminal.out == ""
    assert terminal("memory", "related", "--paths-from", "missing") == 3
    assert terminal("memory", "related", "--paths-from", "-", "--apply", "-") == 2


def test_a_file_that_is_not_text_is_unchanged(terminal: Terminal, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"\xff")
    assert terminal("memory", "related", "--text", "x", "--apply", str(body)) == 2
    assert body.read_bytes() == b"\xff"
    terminal("memory", "add", "--type", "fact", "--title", "x")
    assert terminal("memory", "related", "--text", "x", "--apply", str(tmp_path)) == 1
    assert terminal("memory", "related", "--text", "x", "--apply", str(tmp_path / "no" / "body")) == 1


def test_a_log_that_was_edited_is_reported_with_exit_7_and_repaired(terminal: Terminal, tmp_path: Path) -> None:
    terminal(*INCIDENT)
    terminal("memory", "add", "--type", "fact", "--title", "other")
    assert terminal("memory", "verify") == 0
    log = tmp_path / "home" / "state" / "memory.jsonl"
    log.write_bytes(log.read_bytes().replace(b"The cart", b"The tart"))
    assert terminal("memory", "verify") == 7
    assert "altered" in terminal.out
    assert terminal.json("memory", "verify")["bad"][0]["kind"] == "altered"
    assert terminal("memory", "repair") == 0
    assert terminal("memory", "verify") == 0
    assert terminal.json("memory", "status")["records"] == 1


def test_a_record_is_forgotten_only_on_purpose(terminal: Terminal) -> None:
    added = terminal.json(*INCIDENT)["id"]
    assert terminal("memory", "forget", added) == 4
    assert "--yes" in terminal.err
    assert terminal("memory", "forget", added, "--yes") == 0
    assert terminal("memory", "show", added) == 3
    assert terminal("memory", "forget", added, "--yes") == 3


def test_the_index_is_rebuilt_and_old_records_are_moved_away(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, '{"type": "fact", "title": "old", "timestamp": "2020-01-01"}')
    terminal("memory", "add", "-")
    terminal(*INCIDENT)
    assert terminal("memory", "rebuild") == 0
    assert terminal.json("memory", "compact", "--days", "30")["archived"] == 1
    assert terminal.json("memory", "status")["records"] == 1


def test_records_go_out_and_in_as_lines(terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(*INCIDENT)
    assert terminal("memory", "export") == 0
    assert json.loads(terminal.out)["title"] == "The cart is empty"
    out = tmp_path / "out.jsonl"
    assert terminal("memory", "export", "--output", str(out)) == 0
    assert terminal("memory", "export", "--output", str(out)) == 4
    assert terminal("memory", "export", "--output", str(out), "--force") == 0
    other = ("--home", str(tmp_path / "other"))
    assert terminal.json("memory", "import", str(out), *other)["added"] == 1
    assert terminal.json("memory", "import", str(out), *other)["skipped"] == 1
    given(monkeypatch, out.read_bytes() + b"nonsense\n")
    assert terminal("memory", "import", "-", *other) == 2
    assert "Line 2:" in terminal.out
    assert terminal("memory", "import", str(tmp_path / "missing")) == 3
    assert terminal("memory", "import", str(tmp_path)) == 2


def test_a_report_that_differs_from_the_stored_one_says_how_to_add_it(terminal: Terminal) -> None:
    report = ("memory", "add", "--type", "incident", "--fingerprint", "stale", "--path", "a.py", "--title")
    first = terminal.json(*report, "Prices are stale", "--severity", "error")["id"]
    assert terminal(*report, "Prices are old", "--severity", "low") == 0
    assert terminal.out == (
        f"Not added: {first} reports the same and was stored within a day; it differs in title, severity."
        f" `perdure memory update {first} …` changes it; `--again` adds the new record, too.\n"
    )
    assert terminal(*report, "Prices are stale", "--severity", "high") == 0
    assert f"the same record is stored already, as {first}." in terminal.out
    assert terminal(*report, "Prices are stale", "--severity", "high", "--path", "b.py") == 0
    assert "it differs in paths." in terminal.out


def test_lines_that_are_duplicates_are_named_with_what_differs(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"type": "incident", "fingerprint": "f", "title": f"t{number}"} for number in range(13)]
    given(monkeypatch, "\n".join(map(json.dumps, lines)))
    assert terminal("memory", "add", "-") == 0
    first, *others, last = terminal.out.splitlines()
    assert (first, last, len(others)) == ("Added 1.", "… and 2 more.", 10)
    assert all("it differs in title." in line for line in others)


def test_a_forgotten_version_names_the_others(terminal: Terminal) -> None:
    versions = [
        terminal.json("memory", "update", "days", "--type", "fact", "--title", day)["id"] for day in ("Mo", "Tu", "We")
    ]
    assert terminal("memory", "show", "days") == 0
    assert "We" in terminal.out
    assert terminal("memory", "forget", "days", "--yes") == 3
    assert f"Did you mean {versions[2]!r}?" in terminal.err
    assert terminal("memory", "forget", versions[1], "--yes") == 0
    assert terminal.out == (
        f"{versions[1]} is forgotten.\n"
        f"Other versions of the record remain: {versions[2]}, {versions[0]}. Forget them, too, if the text must go.\n"
    )
    assert terminal("memory", "forget", versions[2], "--yes") == 0
    assert f"Another version of the record remains: {versions[0]}. Forget it, too," in terminal.out
    assert terminal.json("memory", "forget", versions[0], "--yes") == {"forgotten": 1, "id": versions[0]}


def test_the_versions_of_a_record_that_was_updated_by_its_id_are_named(terminal: Terminal) -> None:
    first = terminal.json(*INCIDENT)["id"]
    second = terminal.json("memory", "update", first, "--title", "Two")["id"]
    third = terminal.json("memory", "update", second, "--title", "Three")["id"]
    assert terminal.json("memory", "forget", third, "--yes")["other_versions"] == [second, first]
    assert terminal.json("memory", "forget", first, "--yes")["other_versions"] == [second]


def test_an_update_by_a_prefix_names_the_whole_id(terminal: Terminal) -> None:
    record = terminal.json(*INCIDENT)["id"]
    assert terminal("memory", "update", record[:12], "--title", "Two") == 2
    assert f"Did you mean {record!r}?" in terminal.err


def test_the_output_for_a_folder_with_many_paths_is_short(terminal: Terminal) -> None:
    paths = [word for number in range(200) for word in ("--path", f"src/{number:03}.py")]
    assert terminal("memory", "add", "--type", "incident", "--title", "Many", *paths) == 0
    assert terminal("memory", "query", "--paths", "src") == 0
    assert "why: path src" in terminal.out
    assert terminal("memory", "related", *paths) == 0
    [why] = [line for line in terminal.out.splitlines() if line.startswith("  why: ")]
    assert why.endswith("path src/005.py and 194 more")
    assert len(terminal.out) < 1000


def test_equal_records_without_a_fingerprint_are_counted(terminal: Terminal) -> None:
    for number in (1, 2):
        assert (
            terminal("memory", "add", "--type", "lesson", "--title", "Same", "--path", "a.py", "--pr", str(number)) == 0
        )
    assert terminal("memory", "query", "--paths", "a.py") == 0
    assert "  2 records report the same; the newest is shown." in terminal.out


def test_the_status_and_the_check_of_a_new_memory_are_explained(terminal: Terminal) -> None:
    assert terminal(*INCIDENT) == 0
    assert terminal("memory", "status") == 0
    assert "not built yet: the next query builds it" in terminal.out
    assert terminal("memory", "verify") == 0
    for words in ("a flush has failed", "appends allowed again", "lines whose writer died"):
        assert words in terminal.out


def test_reverts_are_taken_in_once(terminal: Terminal, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repository")
    bad = repository.commit("Cache prices", src__cart_py="1")
    repository.git("revert", "--no-edit", bad)
    folder = str(repository.folder)
    assert terminal.json("memory", "ingest", "revert", folder)["added"] == 1
    assert terminal.json("memory", "ingest", "revert", folder) == {
        "added": 0,
        "duplicates": 1,
        "forgotten": 0,
        "skipped": 0,
        "errors": [],
    }
    assert terminal.json("memory", "query", "--paths", "src/cart.py")["matches"][0]["record"]["type"] == "revert"
    assert terminal("memory", "ingest", "revert", folder, "--since", "soon") == 2
    assert terminal.json("memory", "ingest", "revert", folder, "--since", "1d", "--limit", "1")["duplicates"] == 1


def test_an_ingest_into_a_log_that_cannot_be_written_fails_as_add_does(terminal: Terminal, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.git("revert", "--no-edit", repository.commit("Cache prices", src__cart_py="1"))
    assert terminal(*INCIDENT) == 0
    log = Path(terminal.json("memory", "status")["path"])
    log.with_suffix(".failed").touch()
    code = terminal("memory", "add", "--type", "fact", "--title", "other")
    problem = terminal.err
    assert code != 0
    assert (terminal("memory", "ingest", "revert", str(repository.folder)), terminal.err) == (code, problem)
    assert terminal.out == ""


def test_what_cannot_be_used_is_reported_and_raises_nothing_unless_asked(terminal: Terminal, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.xml", tmp_path / "bad.xml"
    good.write_text('<testsuite><testcase name="x" file="tests/test_x.py"><failure/></testcase></testsuite>')
    bad.write_text("<testsuite>")
    assert terminal("memory", "ingest", "junit", str(bad), str(good), str(tmp_path / "missing.xml")) == 0
    assert terminal.out.startswith("Added: 1. Not added: 0 duplicates, 2 skipped.\n")
    assert "bad.xml: not used" in terminal.out
    assert terminal("memory", "ingest", "junit", str(bad), "--strict") == 1
    assert terminal("memory", "ingest", "revert", str(tmp_path)) == 0
    assert "not a git repository" in terminal.out


def test_how_goals_ended_is_taken_in_once(perdure: Terminal) -> None:
    Path("notes.txt").write_text("")
    perdure("run", "--", "cat", "notes.txt")
    perdure("run", "--", "cat", "notes.txt", "missing.txt")
    perdure("run", "--plan", "missing.yaml")
    assert perdure.json("memory", "ingest", "goals", "--failed")["added"] == 1
    told = perdure.json("memory", "ingest", "goals")
    assert (told["added"], told["duplicates"], told["errors"]) == (1, 1, [])
    found = [match["record"] for match in perdure.json("memory", "query", "--paths", "notes.txt")["matches"]]
    assert [(record["severity"], record["metadata"]["reason"]) for record in found] == [
        ("high", "failed"),
        ("low", "done"),
    ]
    assert perdure.json("memory", "ingest", "goals", "nothing")["skipped"] == 1
    assert perdure.json("memory", "ingest", "goals", found[0]["metadata"]["goal_id"])["duplicates"] == 1


def test_a_switched_off_memory_does_nothing_and_raises_nothing(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMORY_ENABLED", "off")
    assert terminal(*INCIDENT) == 0
    assert terminal.out == "Not added: the memory is switched off (memory.enabled).\n"
    assert terminal("memory", "query", "--paths", "a.py") == 0
    assert "switched off" in terminal.out
    assert terminal("memory", "ingest", "revert") == 0
    assert not (tmp_path / "home" / "state").exists()


def test_settings_of_the_memory_that_are_invalid_break_its_commands_only(perdure: Terminal, tmp_path: Path) -> None:
    (tmp_path / "home" / "config.toml").write_text("[memory]\nretention_days = 1000\n")
    assert perdure("run", "--", "echo", "hello") == 0
    for arguments in (INCIDENT, ("memory", "status"), ("memory", "ingest", "goals")):
        assert perdure(*arguments) == 2
        assert "memory.retention_days is '1000' (user config.toml)" in perdure.err


def test_no_command_of_the_memory_loads_or_makes_a_database(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "perdure", *INCIDENT, "--json"],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert json.loads(told.stdout)["added"] is True
    assert imported & {"sqlalchemy", "alembic", "pydantic", "rich", "yaml", "perdure.app.goals.goals"} == set()
    assert not (tmp_path / "home" / "perdure.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("show", "abcdef\udcff"),
        ("forget", "--yes", "abcdef\udcff"),
        ("related", "--path", "\udcff"),
        ("related", "--fingerprint", "\udcff"),
        ("related", "--text", "cart", "--repo", "\udcff"),
        ("query", "--paths", "\udcff"),
        ("search", "\udcff"),
        ("add", "--type", "fact", "--title", "\udcff"),
        ("add", "--type", "fact", "--metadata", '{"a": "\udcff"}'),
    ],
    ids=lambda words: " ".join(words[:-1]),
)
def test_an_argument_that_is_no_text_is_refused_by_a_sentence(terminal: Terminal, words: tuple[str, ...]) -> None:
    terminal.json(*INCIDENT)
    problem = terminal.json("memory", *words)
    assert problem["code"] == "invalid"
    assert any(each in problem["detail"] for each in ("cannot be encoded as UTF-8", "a lone surrogate"))


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    "words",
    [
        ("add", "-"),
        ("import", "-"),
        ("related", "--paths-from", "-"),
        ("related", "--path", "a.py", "--apply", "-"),
    ],
    ids=" ".join,
)
def test_one_interrupt_is_enough_while_standard_input_is_read(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "perdure", "memory", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        assert reading.stdin is not None
        reading.stdin.write(b"\n" * (1 << 18))  # more than a pipe holds: when this returns, it is being read
        reading.stdin.flush()
        reading.send_signal(signal.SIGINT)
        assert reading.wait(10) == 130
        assert reading.communicate() == (b"", b"Interrupted.\n")
