"""`perdure memory` with a server: each command once, and the same object as with the home."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from tests.interfaces.cli.remote import Both

JUNIT = """<testsuite><testcase classname="tests.test_cart" name="test_total" file="tests/test_cart.py">
<failure message="assert 1 == 2">AssertionError</failure></testcase></testsuite>"""


def added(both: Both, *arguments: str) -> str:
    found = both.remote_json("memory", "add", "--type", "lesson", *arguments)
    assert found["added"]
    return str(found["id"])


def test_a_record_is_added_at_the_server_and_found_from_both_sides(both: Both) -> None:
    record = added(both, "--title", "The cart caches prices", "--path", "src/cart.py", "--severity", "high")
    assert both.same_json("memory", "show", record)["title"] == "The cart caches prices"
    assert both.same_json("memory", "show", record[:20])["id"] == record
    for ask in (
        ("related", "--path", "src/cart.py"),
        ("query", "--paths", "src/cart.py"),
        ("related", "--path", "src/cart.py", "--markdown"),
        ("search", "cart"),
    ):
        assert [each["record"]["id"] for each in both.same_json("memory", *ask)["matches"]] == [record]
    assert both.same_json("memory", "list")["records"][0]["id"] == record
    assert both.same_json("memory", "status")["records"] == 1
    assert not (both.home.parent / "elsewhere").exists()


def test_how_many_more_match_is_the_same(both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "fact", "title": f"Fact {number}", "paths": ["a.py"]}) for number in range(50)]
    with _stdin(tmp_path, "\n".join([*lines, json.dumps({"type": "fact", "paths": ["b.py"]})]), monkeypatch):
        assert both.remote_json("memory", "add", "-")["added"] == 51
    for limit in (1, 3, 20):
        found = both.same_json("memory", "related", "--path", "a.py", "--limit", str(limit))
        assert found["more"] == {"count": 40 - limit, "is_exact": False}
    assert "more" not in both.same_json("memory", "related", "--path", "b.py")


def test_what_is_printed_for_people_is_the_same(both: Both) -> None:
    record = added(both, "--title", "The cart caches prices")
    for command in (("show", record), ("search", "cart"), ("list",), ("status",)):
        assert both.remote("memory", *command) == 0
        printed = both.perdure.out
        assert both.local("memory", *command) == 0
        assert both.perdure.out == printed


def test_the_same_record_is_a_duplicate_unless_it_is_added_again(both: Both) -> None:
    record = added(both, "--title", "Once")
    twice = both.remote_json("memory", "add", "--type", "lesson", "--title", "Once")
    assert twice == {"added": False, "reason": "duplicate", "existing_id": record}
    assert both.remote_json("memory", "add", "--type", "lesson", "--title", "Once", "--again")["added"]


def test_several_records_are_stored_together_or_not_at_all(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = [json.dumps({"type": "fact", "title": f"Fact {number}"}) for number in range(3)]
    with _stdin(tmp_path, "\n".join(lines), monkeypatch):
        assert both.remote_json("memory", "add", "-")["added"] == 3
    with _stdin(tmp_path, "\n".join([json.dumps({"type": "fact", "title": "New"}), "{}"]), monkeypatch):
        assert both.remote("memory", "add", "-") == 2
    assert "Record 2" in both.perdure.err
    assert both.remote_json("memory", "status")["records"] == 3


def test_more_records_than_a_request_holds_are_sent_in_several(
    both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    many = [json.dumps({"type": "fact", "title": f"Fact {number}"}) for number in range(1001)]
    large = [json.dumps({"type": "fact", "title": f"Text {number}", "summary": "x" * 300_000}) for number in range(5)]
    with _stdin(tmp_path, "\n".join([*many, *large]), monkeypatch):
        found = both.remote_json("memory", "add", "-")
    assert (found["added"], len({each["id"] for each in found["records"]})) == (1006, 1006)
    with _stdin(
        tmp_path, "\n".join([*many[:1000], json.dumps({"type": "fact", "id": "a", "title": "new"}), "{}"]), monkeypatch
    ):
        assert both.remote("memory", "add", "-") == 2
    assert "Record 1002" in both.perdure.err
    assert both.remote_json("memory", "add", "--type", "fact", "--title", "taken")["added"]
    taken = both.remote_json("memory", "list", "--limit", "1")["records"][0]["id"]
    other = [json.dumps({"type": "fact", "title": f"Other {number}"}) for number in range(1000)]
    with _stdin(tmp_path, "\n".join([*other, json.dumps({"type": "fact", "id": taken, "title": "x"})]), monkeypatch):
        assert both.remote("memory", "add", "-") == 4
    assert "The first 1,000 of 1,001 records were sent before and are stored." in both.perdure.err
    assert both.remote_json("memory", "status")["records"] == 2007


def test_a_list_reads_as_many_pages_as_it_needs(both: Both, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "fact", "title": f"Fact {number}"}) for number in range(600)]
    with _stdin(tmp_path, "\n".join(lines), monkeypatch):
        assert both.remote_json("memory", "add", "-")["added"] == 600
    for limit in ("10", "599", "600", "1000"):
        assert both.same_json("memory", "list", "--limit", limit)["records"]


def test_a_record_is_updated_and_forgotten(both: Both) -> None:
    record = added(both, "--title", "Old")
    changed = both.remote_json("memory", "update", record, "--summary", "Since November.")
    assert changed["superseded"] == [record]
    assert both.remote("memory", "forget", changed["id"], "--json") == 4
    assert both.remote_json("memory", "forget", changed["id"], "--yes") == {
        "forgotten": 1,
        "id": changed["id"],
        "other_versions": [record],
    }
    assert both.remote("memory", "show", changed["id"]) == 3
    assert both.remote("memory", "forget", changed["id"], "--yes") == 3


def test_a_report_of_tests_is_read_here_and_taken_in_there_once(both: Both) -> None:
    Path("report.xml").write_text(JUNIT)
    assert both.remote_json("memory", "ingest", "junit", "report.xml", "--sha", "abcd")["added"] == 1
    again = both.same_json("memory", "ingest", "junit", "report.xml", "--sha", "abcd")
    assert (again["added"], again["duplicates"]) == (0, 1)
    [failure] = both.same_json("memory", "list")["records"]
    assert both.remote("memory", "forget", failure["id"], "--yes") == 0
    assert both.same_json("memory", "ingest", "junit", "report.xml", "--sha", "abcd")["forgotten"] == 1


def test_related_history_is_put_into_a_file_here(both: Both) -> None:
    added(both, "--title", "The cart caches prices", "--path", "src/cart.py")
    body = Path("body.md")
    body.write_text("My change.\n")
    assert both.remote("memory", "related", "--path", "src/cart.py", "--apply", "body.md") == 0
    assert "The cart caches prices" in body.read_text()


@pytest.mark.parametrize("command", ["verify", "repair", "rebuild", "compact", "export", "import x", "ingest goals"])
def test_commands_that_need_the_files_say_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", *command.split(), "--url", "http://127.0.0.1:1"]) == 2
    assert "Omit --url" in capsys.readouterr().err


@contextmanager
def _stdin(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (folder / "input").write_text(text)
    with (folder / "input").open() as file, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", file)
        yield


def test_pins_are_listed_and_removed_on_both_sides(both: Both) -> None:
    assert both.same_json("memory", "pins", "ada") == {"pins": [], "bytes": 0, "max_bytes": 4096}
    pinned = ("--source", "bot:ada", "--fingerprint", "pin:ada", "--metadata", '{"bot": "ada"}', "--pinned")
    first, second = (added(both, "--title", f"Lesson {number}", *pinned) for number in (1, 2))
    added(both, "--title", "Not pinned", "--source", "bot:ada")
    added(both, "--title", "Of another", "--source", "bot:eve", "--fingerprint", "pin:eve", "--pinned")
    found = both.same_json("memory", "pins", "ada")
    assert [pin["id"] for pin in found["pins"]] == [first, second]
    assert 0 < found["bytes"] < found["max_bytes"]
    assert both.remote_json("memory", "pins", "ada", "--remove", first)["removed"] == first
    assert [pin["id"] for pin in both.same_json("memory", "pins", "ada")["pins"]] == [second]
    assert both.local_json("memory", "pins", "ada", "--remove", second)["removed"] == second
    assert both.same_json("memory", "pins", "ada")["pins"] == []
    titles = {record["title"] for record in both.same_json("memory", "list")["records"]}
    assert titles == {"Lesson 1", "Lesson 2", "Not pinned", "Of another"}
    assert both.remote("memory", "pins", "ada", "--remove", first) == 3
    assert f"ada has not pinned '{first}'" in both.perdure.err
