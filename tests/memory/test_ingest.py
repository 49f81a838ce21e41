"""What other tools have written becomes records: all that is usable, and nothing twice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import Unavailable
from perdure.memory.ingest.goals import GoalEnd, goal_outcome
from perdure.memory.ingest.junit import LARGEST_BYTES, junit
from perdure.memory.ingest.report import SourceRecords, store
from perdure.memory.ingest.revert import reverts
from perdure.memory.memory import Memory
from perdure.memory.normalise import normalised
from tests.memory.repositories import GitRepository, repository

__all__ = ["repository"]


class Shelf:
    """A memory that keeps everything, and fails when it is told to."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.is_broken = False
        self.capacity = 1000

    def add_many(self, records: Sequence[dict[str, Any]], *, skip_taken: bool) -> list[dict[str, Any]]:
        if self.is_broken or len(self.records) + len(records) > self.capacity:
            raise Unavailable("The disk is full.")
        assert skip_taken
        new_records = [normalised(record, 0) for record in records]
        answers = [{"added": record["id"] not in self.records, "id": record["id"]} for record in new_records]
        self.records |= {record["id"]: record for record in new_records}
        return answers


def found_reverts(repository: GitRepository, **options: Any) -> list[dict[str, Any]]:
    return reverts(repository.folder, **{"since_s": 0, "limit": 100, **options}).records


def test_a_revert_has_the_paths_of_what_it_reverted(repository: GitRepository) -> None:
    repository.commit("zero", a_py="0")
    bad = repository.commit("Cache prices", src__cart_py="1", src__tax_py="1")
    repository.git("revert", "--no-edit", bad)
    (record,) = found_reverts(repository, repo="acme/shop")
    assert record["title"] == 'Revert "Cache prices"'
    assert record["paths"] == ["src/cart.py", "src/tax.py"]
    assert record["metadata"]["reverted_sha"] == bad
    assert (record["type"], record["repo"], record["sha"]) == (
        "revert",
        "acme/shop",
        repository.git("rev-parse", "HEAD"),
    )
    assert normalised(record, 0)["severity"] == "medium"


def test_a_reverted_pull_request_is_known_by_its_number(repository: GitRepository) -> None:
    repository.commit('Revert "x" (#13)\n\nReverts acme/shop#12', a_py="1")
    repository.commit("Take it back\n\nReverts #7\nbecause", b_py="1")
    newest, oldest = found_reverts(repository)
    assert (oldest["pr_number"], oldest["repo"], oldest["paths"]) == (12, "acme/shop", ["a.py"])
    assert (newest["pr_number"], newest.get("repo")) == (7, None)


def test_a_reverted_commit_that_is_not_here_leaves_the_paths_of_the_revert(repository: GitRepository) -> None:
    repository.commit(f"Back\n\nThis reverts commit {'ab' * 20}.", a_py="1")
    (record,) = found_reverts(repository)
    assert record["paths"] == ["a.py"]


def test_words_about_a_revert_are_none(repository: GitRepository) -> None:
    repository.commit("Docs\n\nSay what `This reverts commit abcdef1` in a message means.", a_py="1")
    repository.commit("It says: this Reverts nothing#", b_py="1")
    assert found_reverts(repository) == []


def test_reverts_are_bounded_by_number_and_time(repository: GitRepository) -> None:
    for number in range(3):
        repository.commit(f"Back {number}\n\nThis reverts commit {'ab' * 20}.")
    assert len(found_reverts(repository, limit=2)) == 2
    assert found_reverts(repository, since_s=4_102_444_800) == []


def test_a_folder_without_a_repository_is_an_error_that_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for folder in (tmp_path, tmp_path / "missing"):
        found = reverts(folder, since_s=0, limit=1)
        assert (found.records, found.skipped, len(found.errors)) == ([], 1, 1)


def report(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "report.xml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


FAILED = """<?xml version="1.0"?>
<testsuites><testsuite name="unit" timestamp="2026-11-02T10:00:00">
<testcase classname="tests.test_cart" name="test_b" file="tests/test_cart.py"
><failure message="1 != 2">deep</failure></testcase>
<testcase classname="tests.test_tax" name="test_a" file="./tests/test_tax.py"><error>boom
more</error></testcase>
<testcase classname="tests.test_cart" name="test_fine"/>
<testcase classname="tests.test_cart" name="test_later"><skipped/></testcase>
</testsuite></testsuites>"""


def test_tests_that_failed_together_are_one_record(tmp_path: Path) -> None:
    (record,) = junit(report(tmp_path, FAILED), repo="acme/shop", pr=3).records
    assert record["title"] == "2 of 4 tests failed: tests.test_cart.test_b, tests.test_tax.test_a"
    assert record["paths"] == ["tests/test_cart.py", "tests/test_tax.py"]
    assert record["summary"] == "tests.test_cart.test_b: 1 != 2\ntests.test_tax.test_a: boom"
    assert normalised(record, 0)["timestamp"] == "2026-11-02T10:00:00.000Z"
    assert (record["type"], record["repo"], record["pr_number"]) == ("verifier_cluster", "acme/shop", 3)


def test_each_path_of_a_report_with_many_files_finds_its_failures(tmp_path: Path) -> None:
    cases = "".join(
        f'<testcase name="t{n}" file="tests/t{n % 500:03}.py"><failure message="no"/></testcase>' for n in range(3000)
    )
    path = report(tmp_path, f'<testsuite timestamp="2026-11-02T10:00:00">{cases}</testsuite>')
    (tmp_path / ".git").mkdir()
    collected = junit(path, root=tmp_path)
    assert [len(record["paths"]) for record in collected.records] == [200, 200, 100]
    assert [path for record in collected.records for path in record["paths"]] == [
        f"tests/t{n:03}.py" for n in range(500)
    ]
    assert [record["metadata"]["failed"] for record in collected.records] == [1200, 1200, 600]
    assert collected.records[2]["title"].startswith("600 of 3000 tests failed: ")
    memory = Memory(tmp_path / "state")
    assert store(collected, memory)["added"] == 3
    assert store(collected, memory)["duplicates"] == 3
    [match] = memory.related(paths=["tests/t499.py"], retention_days=36_500)["matches"]
    assert match["record"]["paths"] == [f"tests/t{n:03}.py" for n in range(400, 500)]
    memory.close()


def test_a_revert_of_many_files_says_how_many_paths_are_left_out(repository: GitRepository) -> None:
    repository.commit("Begin", a="1")
    for number in range(250):
        (repository.folder / f"f{number}").write_text("1")
    repository.git("add", "-A")
    repository.git("commit", "-qm", "Many")
    repository.git("revert", "--no-edit", "HEAD")
    collected = reverts(repository.folder, since_s=0, limit=10)
    assert len(collected.records[0]["paths"]) == 200
    assert [error.partition(": ")[2] for error in collected.errors] == [
        "50 of 250 paths left out; a record has at most 200."
    ]


def test_the_same_paths_have_the_same_fingerprint_in_any_order(tmp_path: Path) -> None:
    (first,) = junit(report(tmp_path, FAILED)).records
    lines = FAILED.split("\n")
    (second,) = junit(report(tmp_path, "\n".join([*lines[:2], *lines[4:6], *lines[2:4], *lines[6:]]))).records
    assert first["fingerprint"] == second["fingerprint"]
    (other,) = junit(report(tmp_path, FAILED.replace("test_tax.py", "test_vat.py"))).records
    assert other["fingerprint"] != first["fingerprint"]


@pytest.mark.parametrize(
    ("case", "paths"),
    [
        ('classname="tests.test_cart.TestCart" name="x"><failure/>', ["tests/test_cart.py"]),
        ('name="x"><failure>tests/test_cart.py:12: AssertionError</failure>', ["tests/test_cart.py"]),
        ('name="x"><failure>  File "src/a.py", line 3, in x</failure>', ["src/a.py"]),
        ('name="x" file="ROOT/src/a.py"><failure/>', ["src/a.py"]),
        (
            'name="x" file="tests/t.py"><failure message="assert 1 == 2">E  assert 1 == 2\n\nsrc/a.py:3: in f\n'
            "ROOT/src/b.py:4: AssertionError\nROOT/.venv/lib/python3/site-packages/x.py:1: in g\n/usr/lib/y.py:1: z"
            "</failure>",
            ["src/a.py", "src/b.py", "tests/t.py"],
        ),
        (
            f'name="x" file="tests/t.py"><failure>{"diff " * 5000}\n  File "ROOT/src/a.py", line 3, in f</failure>',
            ["src/a.py", "tests/t.py"],
        ),
        (
            'name="x" file="a.test.js"><failure>at Object.f (src/a.js:3:9)\n at src/b.js:1:2\n'
            "at x (node_modules/y.js:1:1)</failure>",
            ["a.test.js", "src/a.js", "src/b.js"],
        ),
        ('name="x" file="/elsewhere/a.py"><failure/>', []),
        ('name="x" file="../../etc/passwd"><failure/>', []),
        ("><failure/>", []),
    ],
)
def test_where_a_test_is_comes_from_what_the_report_says(case: str, paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_cart.py").write_text("")
    text = f"<testsuite><testcase {case.replace('ROOT', str(tmp_path))}</testcase></testsuite>"
    (record,) = junit(report(tmp_path, text), root=tmp_path).records
    assert record["paths"] == paths
    assert normalised(record, 0)["fingerprint"]


def test_paths_of_a_report_from_below_the_root_are_those_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "back").mkdir()
    text = '<testsuite><testcase name="x" file="tests/t.py"><failure>../lib/a.py:3: x</failure></testcase></testsuite>'
    (record,) = junit(report(tmp_path, text), root=tmp_path / "back").records
    assert record["paths"] == ["back/tests/t.py", "lib/a.py"]


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
OUTSIDE = (
    '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><testsuite><testcase name="x">&a;</testcase></testsuite>'
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "declares entities"),
        (OUTSIDE, "declares entities"),
        ('<!DOCTYPE x [<!ENTITY % p SYSTEM "http://e/"> %p;]><testsuite/>', "declares entities"),
        ("<a>" * 100, "nested more than 64 deep"),
        ("<testsuite><testcase><failure></testcase>", "mismatched tag"),
        ("<testsuite>", "no element found"),
        ("", "no element found"),
        (b"\x00\xff\xfe", "not used"),
        ('<?xml version="1.0" encoding="nonsense"?><testsuite/>', "unknown encoding"),
        ('<?xml version="1.0" encoding="utf-7"?><testsuite/>', "not used"),
        ("<html/>", "no test case"),
    ],
)
def test_a_report_that_cannot_be_trusted_or_read_gives_nothing(text: str | bytes, why: str, tmp_path: Path) -> None:
    found = junit(report(tmp_path, text))
    assert (found.records, found.skipped) == ([], 1)
    assert why in found.errors[0]


def test_a_report_of_any_other_kind_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.xml"
    with huge.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    assert "larger than 64 MiB" in junit(huge).errors[0]
    assert "it is not a file" in junit(tmp_path).errors[0]
    assert "cannot be read" in junit(tmp_path / "missing.xml").errors[0]


def test_a_report_without_a_failure_gives_nothing_and_is_not_an_error(tmp_path: Path) -> None:
    found = junit(report(tmp_path, "<testsuite><testcase name='x'/></testsuite>"))
    assert (found.records, found.skipped, found.errors) == ([], 0, [])


VITEST = """<testsuites><testsuite name="web/src/total.test.js"><testcase classname="{name}" name="adds">
<failure message="expected 3"> \u276f web/src/total.test.js:5:21
 \u276f add web/src/total.js:2:3</failure></testcase></testsuite></testsuites>"""


@pytest.mark.parametrize("root", [".", "web"])
def test_a_report_of_javascript_is_filed_under_the_files_that_it_names(
    tmp_path: Path, repository: GitRepository, root: str
) -> None:
    repository.commit("web", web__src__total_test_js="1", web__src__total_js="1")
    found = junit(report(tmp_path, VITEST.format(name="web/src/total.test.js")), root=repository.folder / root)
    assert (found.records[0]["paths"], found.errors) == (["web/src/total.js", "web/src/total.test.js"], [])
    named = '<testsuite name="{}"><testcase classname="{}" name="t"><failure/></testcase></testsuite>'
    for suite, name in (("Cart", "web/src/total.test.js"), ("web/src/total.test.js", "Cart adds")):
        found = junit(report(tmp_path, named.format(suite, name)), root=repository.folder / root)
        assert found.records[0]["paths"] == ["web/src/total.test.js"]
    found = junit(report(tmp_path, named.format("Cart", "gone/total.test.js")), root=repository.folder / root)
    assert found.records[0]["paths"] == []
    assert found.errors[0].endswith("it names no file of the repository, so that no path finds the record.")


def test_the_same_source_read_again_adds_nothing(tmp_path: Path, repository: GitRepository) -> None:
    repository.commit(f"Back\n\nThis reverts commit {'ab' * 20}.", a_py="1")
    shelf = Shelf()
    for expected in ({"added": 2, "duplicates": 0}, {"added": 0, "duplicates": 2}):
        found = junit(report(tmp_path, FAILED))
        found.extend(reverts(repository.folder, since_s=0, limit=5))
        assert store(found, shelf) == {**expected, "forgotten": 0, "skipped": 0, "errors": []}


def test_a_revert_that_was_stored_without_paths_gets_them_once(tmp_path: Path, repository: GitRepository) -> None:
    repository.commit("zero", a_py="0")
    bad = repository.commit("Cache prices", src__cart_py="1")
    repository.git("revert", "--no-edit", bad)
    memory, found = Memory(tmp_path / "memory"), reverts(repository.folder, since_s=0, limit=9, repo="acme/shop")
    (whole,) = found.records
    memory.add({key: value for key, value in whole.items() if key != "paths"})
    assert memory.related(paths=["src/cart.py"], retention_days=36500)["matches"] == []
    assert store(found, memory)["added"] == 1
    (match,) = memory.related(paths=["src/cart.py"], retention_days=36500)["matches"]
    assert (match["record"]["supersedes"], match["record"]["metadata"]) == ([whole["id"]], whole["metadata"])
    assert match["record"]["timestamp"] == normalised(whole, 0)["timestamp"]
    memory.compact(retention_days=36500)
    report = store(found, memory)
    assert (report["added"], report["duplicates"]) == (0, 1)
    memory.close()


def test_a_revert_that_was_updated_or_forgotten_is_not_completed(tmp_path: Path, repository: GitRepository) -> None:
    repository.commit("zero", a_py="0")
    for name in ("b", "c"):
        repository.git("revert", "--no-edit", repository.commit(f"Add {name}", **{f"{name}_py": "1"}))
    memory, found = Memory(tmp_path / "memory"), reverts(repository.folder, since_s=0, limit=9, repo="acme/shop")
    updated, forgotten = found.records
    memory.add_many([{**record, "paths": []} for record in found.records])
    memory.update(updated["id"], {"title": "Known"})
    memory.forget(forgotten["id"])
    report = store(found, memory)
    assert (report["added"], report["duplicates"], report["forgotten"]) == (0, 1, 1)
    assert [record["title"] for record in memory.list()["records"]] == ["Known"]
    memory.close()


def test_a_record_that_is_invalid_keeps_no_other_from_being_stored() -> None:
    good = [{"id": f"g{number}", "type": "fact", "title": "x"} for number in range(3)]
    shelf = Shelf()
    translate_os_errors = store(SourceRecords([good[0], {"id": "b", "type": "NO", "title": "bad"}, *good[1:]]), shelf)
    assert (translate_os_errors["added"], translate_os_errors["skipped"]) == (3, 1)
    assert translate_os_errors["errors"][0].startswith("bad: type is 'NO'")


def test_a_memory_that_fails_raises_its_error_with_the_number_of_stored_records() -> None:
    records = [{"id": str(number), "type": "fact", "title": "x"} for number in range(250)]
    shelf = Shelf()
    shelf.is_broken = True
    with pytest.raises(Unavailable, match=r"^The disk is full\.$"):
        store(SourceRecords(records), shelf)
    shelf = Shelf()
    shelf.capacity = 150
    with pytest.raises(Unavailable) as raised:
        store(SourceRecords(records), shelf)
    assert raised.value.detail == "The disk is full. 100 records were added before."


def test_the_end_of_a_goal_is_a_record() -> None:
    ending = GoalEnd(
        "g1", "ship", "failed", 1_793_536_800_000, "charge failed", [("charge", "exit 1")], ["a.py"], "a/b"
    )
    record = goal_outcome(ending)
    assert record["title"] == "failed in charge: ship"
    assert record["summary"] == "charge failed\ncharge: exit 1"
    assert (record["severity"], record["paths"], record["repo"]) == ("high", ["a.py"], "a/b")
    assert record["metadata"] == {"goal_id": "g1", "reason": "failed", "attempt": 1, "failed_steps": ["charge"]}


def test_each_attempt_of_a_goal_is_a_record_of_its_own_and_the_first_keeps_its_id() -> None:
    ids = [
        goal_outcome(GoalEnd("g1", "ship", "failed", 1_793_536_800_000, attempt=attempt))["id"] for attempt in (1, 2, 3)
    ]
    assert len(set(ids)) == 3
    assert ids[0] == goal_outcome(GoalEnd("g1", "ship", "failed", 1_793_536_800_000))["id"]


def test_the_same_end_of_the_same_wish_is_one_record_a_day() -> None:
    one, other = (goal_outcome(GoalEnd(name, "ship", "failed", 1_793_536_800_000)) for name in ("g1", "g2"))
    later = goal_outcome(GoalEnd("g3", "ship", "failed", 1_793_536_800_000 + 86_400_000))
    well = goal_outcome(GoalEnd("g4", "ship", "done", 1_793_536_800_000))
    assert one["id"] == other["id"]
    assert len({one["id"], later["id"], well["id"]}) == 3
