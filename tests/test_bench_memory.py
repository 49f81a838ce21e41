"""What the benchmarks of the memory say holds, holds at a small size; nothing is timed here."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from bench import memory_append, memory_lookup
from bench.beside import Runs, Spot, compare
from bench.compared import Case, Comparison, Found
from bench.environments import NotInstalled, installed_for_node
from bench.memory import CHANGES, REASONS, Remembered, section
from bench.memory_beside import CASES, FLOOR, MEMORY, OURS, PEERS
from bench.peers.program import Asked
from bench.peers.remembering import lost, record, refused
from bench.table import Counted, Target, Timed

Appends = list[Timed]
LookUps = tuple[list[Timed], list[Counted]]


@pytest.fixture(scope="module")
def appends() -> Appends:
    """The lines of the appends, measured once."""
    return memory_append.measure(300, adds=3, repeats=1, seconds=0.1)


@pytest.fixture(scope="module")
def look_ups() -> LookUps:
    """The lines of the look-ups, measured once."""
    return memory_lookup.measure(1100, repeats=1)


@pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace here")
def test_an_append_is_one_write_and_one_flush_and_reading_needs_little_memory() -> None:
    rows = memory_append.count(200, seconds=0.1)
    assert [row.what for row in rows if not row.holds] == []
    assert len(rows) == 5


def test_every_line_of_the_appends_is_measured(appends: Appends) -> None:
    assert all(row.floor > 0 and row.ours > 0 for row in appends)
    assert [row.wanted for row in appends] == ["≤ 1.3x", "≥ 3x", "≥ 3x", "≥ 30x", "≤ 1.2x", "≤ 1.2x"]


def test_every_line_of_the_look_ups_is_measured_and_the_index_is_whole(look_ups: LookUps) -> None:
    timed, counted = look_ups
    assert all(row.floor > 0 and row.ours > 0 for row in timed)
    assert all(row.holds for row in counted)


def test_every_case_and_every_reason_can_be_reported(appends: Appends, look_ups: LookUps) -> None:
    assert list(CHANGES) == [case.name for case in CASES]
    lines = [row.what for row in (*appends, *look_ups[0])]
    assert [reason for reason in REASONS if not any(line.startswith(reason) for line in lines)] == []


def test_the_section_says_what_was_missed_and_who_is_ahead() -> None:
    adds = CASES[0]
    found = {adds.name: {OURS.name: Found((5,)), PEERS[0].name: Found((9,)), PEERS[1].name: Found(why_not="not here")}}
    missed = Timed("make the index of 7, beside a scan", 9, 3, "/s", Target("value", "≥", 15))
    text = section(Remembered(7, [], [missed], Comparison(found, {}, 60)))
    assert f"not met: make the index of 7, beside a scan: 3.00 /s, wanted ≥ 15 /s. {REASONS['make the index']}" in text
    assert f"- {adds.name}: **{PEERS[0].name}** 9 /s beside our 5 /s. {CHANGES[adds.name]}" in text
    assert "not here" in text
    assert "Beside others" not in section(Remembered(7, [], []))


def test_ours_loses_nothing_and_finds_what_it_was_given() -> None:
    runs = Runs(None, {who.name: Path(sys.executable) for who in (FLOOR, OURS)})
    small = {
        "adds": Case("adds", "adds", "tmpfs", 3, "/s", 1, more_is_better=True),
        "lost": Case("lost", "lost", "tmpfs", 5, "", 1),
        "refused": Case("refused", "refused", "tmpfs", 5, "", 1),
        "find": Case("find", "find", "tmpfs", 2, "ms", 1, prepared_by=("fill", 1000), is_warmed=False),
    }
    found = {name: compare(runs, case, (FLOOR, OURS)) for name, case in small.items()}
    assert found["lost"][OURS.name].values == found["refused"][OURS.name].values == (0,)
    assert found["adds"][OURS.name].values[0] > 0 < found["find"][OURS.name].values[0]
    assert found["adds"][FLOOR.name].values
    assert found["find"][FLOOR.name].why_not == "none"


def test_what_is_not_there_was_lost_and_what_was_not_acknowledged_was_refused(tmp_path: Path) -> None:
    assert lost({"a", "b"}, {"b", "c"}) == 1
    assert refused(Asked(str(tmp_path), None, 100, ""), {"a", "b"}) == 398
    assert 400 < len(json.dumps(record("one", 7))) < 600


def test_a_peer_that_cannot_be_installed_is_a_cell_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_BENCH_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="could not be installed here"):
        installed_for_node("memory_mcp", ["no-such-package"])
    runs = Runs(None, {who.name: "could not be installed here" for who in MEMORY.all})
    found = compare(runs, CASES[0], MEMORY.all)
    assert {each.why_not for each in found.values()} == {"could not be installed here"}


def test_a_peer_that_is_not_there_did_not_run(tmp_path: Path) -> None:
    runs = Runs(None, {who.name: Path(sys.executable) for who in MEMORY.all})
    found = compare(runs, Case("adds", "adds", "tmpfs", 2, "/s", 1), PEERS[1:])
    assert {each.why_not for each in found.values()} == {"did not run"}
    assert runs.run(OURS, "adds", 2, Spot(tmp_path)) > 0
