"""Looking up: what is related and why, what a text finds, and in which order."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Conflict, Invalid, NotFound, append_record
from perdure.memory.index.words import words_in
from perdure.memory.log.lines import line_of
from perdure.memory.memory import Memory
from perdure.memory.normalise import moment
from perdure.memory.record import JsonObject

NOW = 1_780_000_000_000
DAY = 86_400_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path / "state")
    memory.files.log.parent.mkdir()
    yield memory
    memory.close()


def put(memory: Memory, *records: JsonObject) -> None:
    """Write records as somebody might have, without a flush for each."""
    with memory.files.log.open("ab") as file:
        file.writelines(line_of(record, NOW) for record in records)


def ids(answer: JsonObject) -> list[Any]:
    return [match["record"].get("id") for match in answer["matches"]]


def ask(memory: Memory, **asked: Any) -> JsonObject:
    return memory.related(**{"now_ms": NOW, "limit": 10, "budget_ms": 60_000, **asked})


def find(memory: Memory, text: str, **asked: Any) -> JsonObject:
    return memory.search(text, **{"budget_ms": 60_000, **asked})


def test_a_memory_without_a_log_finds_nothing_and_makes_nothing(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "none")
    assert memory.related(paths=["a"]) == memory.search("a") == {"matches": [], "truncated": False}
    assert memory.index_state()["state"] == "missing"
    with pytest.raises(NotFound):
        memory.get("whatever")
    with pytest.raises(NotFound):
        memory.rebuild()
    assert not (tmp_path / "none" / "memory.jsonl").exists()


def test_every_reason_is_reported(memory: Memory) -> None:
    record = {"id": "a", "fingerprint": "f", "paths": ["src/a.py", "b"], "sha": "s", "pr_number": 7, "title": "Lock up"}
    put(memory, record, {"id": "other", "fingerprint": "x", "paths": ["c"], "title": "lock"})
    [match] = ask(memory, fingerprint="f", paths=["src"], sha="s", pr_number=7, text="LOCK")["matches"]
    assert match["record"] == {**record, "v": 1}
    assert match["why"] == [
        {"kind": "fingerprint", "value": "f"},
        {"kind": "path", "value": "src/a.py"},
        {"kind": "sha", "value": "s"},
        {"kind": "pr", "value": "7"},
        {"kind": "text", "value": "lock"},
    ]


COMMIT = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"


@pytest.mark.parametrize(
    ("stored", "asked", "is_found"),
    [
        (COMMIT, COMMIT, True),
        (COMMIT, COMMIT[:7], True),
        (COMMIT, COMMIT[:12].upper(), True),
        (COMMIT[:9], COMMIT, True),
        (COMMIT, COMMIT[:7] + "0", False),
        (COMMIT, COMMIT[:6], False),
        ("r1234", "r1234", True),
        ("r12345678", "r1234567", False),
    ],
)
def test_seven_characters_of_a_commit_find_its_records(memory: Memory, stored: str, asked: str, is_found: bool) -> None:
    put(memory, {"id": "a", "sha": stored, "title": "one"}, {"id": "b", "sha": "f" * 40, "title": "another"})
    found = [(match["record"]["id"], match["why"]) for match in ask(memory, sha=asked)["matches"]]
    assert found == ([("a", [{"kind": "sha", "value": stored}])] if is_found else [])


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("src/foo", ["exact", "inside"]),
        ("src/foo/x.py", ["inside", "exact"]),
        ("src/foo/x.py/deeper", ["exact", "inside"]),
        ("src", ["beside", "exact", "inside"]),
        ("src/foob", []),
        ("rc/foo", []),
        ("./src//foo/", ["exact", "inside"]),
        ("", []),
    ],
)
def test_paths_overlap_at_their_slashes(memory: Memory, asked: str, found: list[str]) -> None:
    moment = {"timestamp": "2026-05-01T00:00:00.000Z"}
    put(memory, {"id": "inside", "paths": ["src/foo/x.py"], **moment}, {"id": "exact", "paths": ["src/foo"], **moment})
    put(memory, {"id": "beside", "paths": ["src/foobar"], **moment})
    assert ids(ask(memory, paths=[asked])) == found


def failed_test(day: int, sha: str, **more: object) -> JsonObject:
    about = {"type": "verifier_cluster", "severity": "high", "fingerprint": "junit-1", "sha": sha, "paths": ["t.py"]}
    return {"id": f"run-{day}", **about, "title": "1 of 9 tests failed", "timestamp": moment(NOW - day * DAY), **more}


def test_one_cause_takes_one_place_with_the_newest_and_a_count(memory: Memory) -> None:
    put(memory, *(failed_test(day, f"{day}", title=f"{day} of 9 tests failed") for day in (4, 1, 2, 3)))
    about = {"paths": ["t.py"], "timestamp": moment(NOW - DAY)}
    put(memory, {"id": "incident", "type": "incident", "severity": "medium", "title": "down", **about})
    put(memory, {"id": "lesson", "type": "lesson", "fingerprint": "junit-1", "title": "wait for the port", **about})
    put(memory, {"id": "same", "type": "lesson", "title": "wait for the port", **about})
    found = ask(memory, paths=["t.py"], limit=3)["matches"]
    assert [(each["record"]["id"], each["count"]) for each in found] == [("run-1", 4), ("incident", 1), ("lesson", 2)]
    assert ids(ask(memory, fingerprint="junit-1")) == ["run-1", "run-2", "run-3", "run-4", "lesson"], "asked for all"
    assert [each["count"] for each in ask(memory, paths=["t.py"], limit=1)["matches"]] == [4]


def test_matches_beyond_the_limit_are_counted_and_those_that_say_the_same_once(memory: Memory) -> None:
    put(memory, *(failed_test(day, f"{day}") for day in (1, 2, 3)))
    put(memory, *({"type": "fact", "title": f"fact {number // 2}", "paths": ["t.py"]} for number in range(8)))
    assert "more" not in ask(memory, paths=["t.py"], limit=5)
    for limit in (1, 2, 3, 4):
        assert ask(memory, paths=["t.py"], limit=limit)["more"] == {"count": 5 - limit, "is_exact": True}
    assert ask(memory, text="fact", limit=3)["more"] == {"count": 1, "is_exact": True}
    assert "more" not in ask(memory, paths=["elsewhere.py"])


def test_matches_beyond_the_limit_are_counted_among_a_few_records(memory: Memory) -> None:
    put(memory, *({"type": "fact", "title": f"fact {number}", "paths": ["t.py"]} for number in range(50)))
    assert ask(memory, paths=["t.py"], limit=3)["more"] == {"count": 37, "is_exact": False}
    put(memory, *({"type": "incident", "severity": "high", "title": "down", "paths": ["u.py"]} for _ in range(60)))
    assert ask(memory, paths=["u.py"], limit=3)["matches"][0]["count"] == 60
    assert "more" not in ask(memory, paths=["u.py"], limit=3), "all were read, and all say the same"
    assert ask(memory, paths=["u.py"], limit=1)["more"] == {"count": 0, "is_exact": False}


def test_what_others_say_and_other_repositories_keep_their_places(memory: Memory) -> None:
    put(memory, *(failed_test(day, "s", id=name, repo=name) for day, name in ((1, "a"), (2, "b"))))
    put(memory, {"id": "c", "type": "incident", "severity": "high", "title": "1 of 9 tests failed", "paths": ["t.py"]})
    put(memory, *({"id": name, "type": "fact", "paths": ["t.py"]} for name in ("d", "e")))
    assert sorted(ids(ask(memory, paths=["t.py"]))) == ["a", "b", "c", "d", "e"]


def test_a_path_out_of_the_repository_is_refused(memory: Memory) -> None:
    with pytest.raises(Invalid, match="leads out"):
        memory.related(paths=["../x"])


def test_the_worst_come_first_then_the_newest_then_the_nearest_then_by_id(memory: Memory) -> None:
    def record(name: str, severity: str, day: int, path: str = "a") -> JsonObject:
        return {"id": name, "severity": severity, "timestamp": moment(NOW - day * DAY), "paths": [path]}

    put(memory, record("6", "unknown", 0), record("5", "high", 2), record("4", "high", 1), record("3", "high", 1))
    put(
        memory,
        record("2", "critical", 9),
        record("1", "high", 1, "a/b"),
        record("7", "odd", 0),
        {"id": "8", "paths": ["a"]},
    )
    assert ids(ask(memory, paths=["a"])) == ["2", "3", "4", "1", "5", "6", "7", "8"]
    assert ids(ask(memory, paths=["a"], limit=2)) == ["2", "3"]


def test_the_boundary_of_retention_is_included(memory: Memory) -> None:
    for name, age in (("in", 90 * DAY), ("out", 90 * DAY + 1), ("future", -DAY)):
        put(memory, {"id": name, "fingerprint": "f", "timestamp": moment(NOW - age)})
    assert ids(ask(memory, fingerprint="f")) == ["future", "in"]
    assert ids(ask(memory, fingerprint="f", retention_days=365)) == ["future", "in", "out"]


def test_what_has_no_date_counts_by_its_arrival_and_without_one_is_never_too_old(memory: Memory) -> None:
    put(memory, {"id": "arrived", "fingerprint": "f", "timestamp": "soon"})
    with memory.files.log.open("ab") as file:
        file.write(b'{"id":"by hand","fingerprint":"f"}\n')
    assert ids(ask(memory, fingerprint="f")) == ["arrived", "by hand"]
    assert ids(ask(memory, fingerprint="f", now_ms=NOW + 91 * DAY)) == ["by hand"]


def test_other_repositories_are_left_out_and_those_without_one_stay(memory: Memory) -> None:
    put(memory, *({"id": f"{repo}", "fingerprint": "f", "repo": repo, "title": "x"} for repo in ("r", "other", 5, "")))
    assert set(ids(ask(memory, fingerprint="f", repo="r"))) == {"r", "5", ""}
    assert set(ids(find(memory, "x", repo="r"))) == {"r", "5", ""}
    assert len(ids(ask(memory, fingerprint="f"))) == 4


def test_a_tombstone_hides_its_target_wherever_it_is_looked_for(memory: Memory) -> None:
    put(
        memory, {"id": "gone-away", "fingerprint": "f", "title": "x"}, {"id": "stays", "fingerprint": "f", "title": "x"}
    )
    assert memory.get("gone-a")["id"] == "gone-away"
    append_record(memory.files.log, {"type": "_tombstone", "target": "gone-away"})
    assert ids(ask(memory, fingerprint="f")) == ids(find(memory, "x")) == ids(ask(memory, text="x")) == ["stays"]
    for name in ("gone-away", "gone-a"):
        with pytest.raises(NotFound):
            memory.get(name)


def test_what_is_ours_is_never_found(memory: Memory) -> None:
    put(memory, {"id": "ours-own", "type": "_something", "fingerprint": "f", "title": "x", "paths": ["a"]})
    assert not ids(ask(memory, fingerprint="f", paths=["a"])) + ids(find(memory, "x"))
    with pytest.raises(NotFound):
        memory.get("ours-own")


def test_a_text_narrows_down_what_the_other_reasons_find(memory: Memory) -> None:
    put(
        memory,
        {"id": "a", "fingerprint": "f", "title": "login deadlock"},
        {"id": "b", "fingerprint": "f", "title": "login"},
    )
    put(memory, {"id": "c", "fingerprint": "g", "title": "deadlock in login"})
    assert ids(ask(memory, fingerprint="f", text="deadlock login")) == ["a"]
    assert ids(ask(memory, text="deadlock login")) == ["a", "c"]
    assert ids(ask(memory, text="deadlock nowhere")) == []
    assert ids(ask(memory)) == ids(ask(memory, repo="r")) == []


def test_a_fingerprint_may_be_a_list(memory: Memory) -> None:
    put(memory, {"id": "raw", "fingerprint": ["a", "b"]}, {"id": "one", "fingerprint": '["a","b"]'})
    assert ids(ask(memory, fingerprint=["a", "b"])) == ["one", "raw"]


def test_the_first_of_very_many_with_one_fingerprint_are_exact(memory: Memory) -> None:
    count = 30_000
    with memory.files.log.open("wb") as file:
        for number in range(count):
            record = {
                "id": f"{number * 7919 % count:06}",
                "fingerprint": "f",
                "timestamp": moment(NOW - number % 50 * 1000),
            }
            file.write(line_of({**record, "severity": "critical" if number % 1000 == 0 else "low"}, NOW))
    wanted = sorted((n % 50, f"{n * 7919 % count:06}") for n in range(0, count, 1000))[:3]
    assert ids(ask(memory, fingerprint="f", limit=3)) == [name for _age, name in wanted]
    low = sorted(f"{n * 7919 % count:06}" for n in range(0, count, 50) if n % 1000)[:5]
    assert ids(ask(memory, fingerprint="f", limit=35))[30:] == low


def test_search_prefers_rare_words_more_of_them_and_short_records(memory: Memory) -> None:
    put(memory, *({"id": f"c{n}", "title": "common words here"} for n in range(5)))
    put(memory, *({"title": "something else altogether"} for _ in range(30)))
    put(
        memory,
        {"id": "long", "title": "rare", "summary": "with a lot of other text "},
        {"id": "short", "title": "rare"},
    )
    put(memory, {"id": "both", "title": "rare common"}, {"id": "twice", "title": "rare rare"})
    found = find(memory, "rare common", limit=50)
    assert [name for name in ids(found) if name[0] != "c"] == ["both", "twice", "short", "long"]
    assert [name for name in ids(found) if name[0] == "c"] == [f"c{n}" for n in range(4, -1, -1)]
    scores = [match["score"] for match in found["matches"]]
    assert scores == sorted(scores, reverse=True)


def test_search_is_for_words_without_case_and_accents(memory: Memory) -> None:
    put(
        memory,
        {"id": "a", "title": "Überlauf im lock_timeout", "type": "lesson"},
        {"id": "b", "title": 42, "type": "fact"},
    )
    assert ids(find(memory, "UBERLAUF")) == ids(find(memory, "timeout")) == ["a"]
    assert ids(find(memory, "42")) == ["b"]
    assert ids(find(memory, "42 timeout", type="fact")) == ["b"]


def test_common_words_are_dropped_in_a_long_log_unless_there_are_no_others(memory: Memory) -> None:
    put(memory, *({"id": f"{n}", "title": "common often" if n % 2 else "common"} for n in range(1001)))
    put(memory, {"id": "rare", "title": "seldom common"})
    assert ids(find(memory, "common seldom")) == ["rare"]
    assert ids(ask(memory, text="often seldom")) == ["rare"]
    assert len(ids(find(memory, "common often", limit=2000))) == 1002
    assert ids(ask(memory, text="common often", limit=1)) == ["1"]


def test_an_answer_that_takes_too_long_says_so(memory: Memory) -> None:
    put(memory, *({"id": f"{n:05}", "title": "common", "fingerprint": "f"} for n in range(3000)))
    memory.rebuild()
    assert find(memory, "common", budget_ms=0)["truncated"]
    assert ask(memory, text="common", budget_ms=0)["truncated"]
    assert ask(memory, fingerprint="f", budget_ms=0)["truncated"]
    assert not find(memory, "common")["truncated"]
    assert not ask(memory, text="common")["truncated"]


HOSTILE = [
    '"', '""', "'", "*", "a*", "^a", "-", "-a", "a -b", "a OR b", "a AND", "NOT", "NEAR(", "NEAR(a b, 2)", "(", ")",
    "words : a", "words:a", "title: a", "texts", "rank", "a + b", "\0", "a\0b", "\u2028", "🦀", "🦀🦀 a", "a" * 100_000,
    "a b " * 25_000, '" OR 1=1 --', "; DROP TABLE records", "%", "_", "a^2", "\\", "`", "é", "ǅ", "ﬁ", "İ", "ß", "",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_a_text_is_never_read_as_a_query(memory: Memory, text: str) -> None:
    put(memory, {"id": "a", "title": f"see {text[:1000]}", "fingerprint": text, "sha": text, "repo": text})
    for asked in ({"text": text}, {"fingerprint": text}, {"sha": text}, {"text": text, "repo": text}):
        assert ids(ask(memory, **asked)) in ([], ["a"])
    assert ids(find(memory, text, repo=text, type="fact")) == []
    assert ids(find(memory, f"see {text[:1000]}")) == ["a"]
    with pytest.raises(NotFound):
        memory.get(text + "x")


ODD = [
    {}, {"id": 5}, {"id": None}, {"id": ["x"]}, {"id": "x" * 100_000}, {"id": "\0"}, {"timestamp": 1e300},
    {"timestamp": {}}, {"timestamp": True}, {"timestamp": -(2**63)}, {"timestamp": "9999-12-31T23:59:59-23:59"},
    {"paths": "p"}, {"paths": 5}, {"paths": [None, 5, ["x"], "../x", "", "\0", "p/\u2028"]},
    {"paths": ["a/" * 5000 + "b"]}, {"paths": {"p": 1}},
    {"fingerprint": [1, 2]}, {"fingerprint": [None]}, {"fingerprint": {}}, {"fingerprint": 5}, {"sha": 5}, {"repo": []},
    {"pr_number": "7"}, {"pr_number": 2**64 - 1}, {"pr_number": 1.5}, {"severity": ["high"]}, {"severity": 3},
    {"title": 5}, {"title": {"a": "b"}}, {"title": "\0\u2028"}, {"title": "y" * 1_000_000}, {"summary": [1]},
    {"type": 5}, {"type": None}, {"type": "_tombstone"}, {"type": "_tombstone", "target": 5}, {"metadata": "x"},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:40])
def test_odd_records_stop_no_query(memory: Memory, odd: JsonObject) -> None:
    put(memory, {"title": "findme", "fingerprint": "f", "paths": ["p/q"], **odd}, {"id": "good", "fingerprint": "f"})
    put(memory, {"title": "findme", "paths": ["p/q"], **odd})
    found = ids(ask(memory, fingerprint="f"))
    assert "good" in found
    if not {"type", "fingerprint", "timestamp"} & set(odd):
        assert len(found) == 2
    for asked in ({"paths": ["p"]}, {"paths": ["p/q/r"]}, {"text": "findme"}, {"pr_number": 7}, {"sha": "5"}):
        ask(memory, **asked)
    assert find(memory, "findme y 5")["truncated"] is False
    assert memory.add({"type": "lesson", "title": "findme"})["added"]


def test_a_record_is_found_by_its_id_or_by_the_beginning_that_only_it_has(memory: Memory) -> None:
    put(
        memory,
        {"id": "abcdef-1", "title": "old"},
        {"id": "abcdef-2"},
        {"id": "abcdef-1", "title": "new"},
        {"id": "abc"},
    )
    assert memory.get("abcdef-1")["title"] == "new"
    assert memory.get("abc")["id"] == "abc"
    for name in ("abcde", "", "zzzzzz", "abcdef-1x"):
        with pytest.raises(NotFound):
            memory.get(name)
    with pytest.raises(Conflict, match="Several"):
        memory.get("abcdef")
    append_record(memory.files.log, {"type": "_tombstone", "target": "abcdef-2"})
    assert memory.get("abcdef")["title"] == "new"


@given(st.text(st.sampled_from("aZ09_-^ .\t\n\x1c\x7f"), max_size=300) | st.text(st.characters(max_codepoint=127)))
def test_words_are_runs_of_letters_and_digits_in_pieces_of_64(text: str) -> None:
    assert words_in(text) == re.findall(r"[a-z0-9]{1,64}", text.lower())
