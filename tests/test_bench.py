"""What the benchmarks say holds, holds; nothing is timed here."""

import sqlite3
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.beside import Runs, Spot, compare
from bench.compared import ALL, CASES, FLOOR, FLOW, PEERS, Case, Comparison, Found, comparison_table, who_is_ahead
from bench.memory import Remembered
from bench.page import CHANGES, Measured, page
from bench.table import Counted, Target, Timed
from bench.traced import commit_flushes, commits_in, flushed_files


def test_what_could_not_be_counted_does_not_hold() -> None:
    assert not Counted("flushes", None, Target("value", "≤", 1)).holds


@pytest.mark.parametrize(("found", "holds"), [(50, False), (51, True), (52, False)])
def test_an_exact_count_holds_only_when_it_is_that(found: int, holds: bool) -> None:
    assert Counted("flushes", found, Target("value", "=", 51)).holds is holds


def test_a_target_is_of_the_ratio_or_of_our_own_value() -> None:
    assert Timed("append", 10, 40, "µs", Target("ratio", "≤", 5)).is_met
    assert not Timed("append", 10, 40, "µs", Target("value", "≤", 5)).is_met
    assert "4.00x, wanted ≥ 5x" in Timed("append", 10, 40, "µs", Target("ratio", "≥", 5)).shortfall


@pytest.mark.parametrize(("ours", "is_met"), [(12, True), (12.1, False), (9, True)])
def test_a_target_can_be_of_the_difference(ours: float, is_met: bool) -> None:
    row = Timed("turn", 10, ours, "ms", Target("difference", "≤", 2))
    assert (row.is_met, row.wanted) == (is_met, "≤ 2 ms more")
    assert f"{ours - 10:.2f} ms more, wanted" in row.shortfall


def test_commits_are_counted_in_the_log(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    for number in range(7):
        connection.execute(f"CREATE TABLE t{number} (x)")
    assert commits_in(tmp_path / "x.db-wal") == 7
    connection.execute("PRAGMA wal_checkpoint(RESTART)")
    connection.execute("CREATE TABLE more (x)")
    assert commits_in(tmp_path / "x.db-wal") == 1
    connection.close()


def test_the_flushes_of_a_checkpoint_are_counted_apart(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    names = ["perdure.db-wal", "perdure.db-wal", "perdure.db-wal", "perdure.db"]
    lines = [f"7 fdatasync(3</some/where/{name}>) = 0" for name in names]
    trace.write_text("\n".join([*lines, "7 +++ exited with 0 +++"]))
    found = flushed_files(trace)
    assert found == names
    assert commit_flushes(Counter(found)) == 2


def comparison(case: Case, **found: Found) -> Comparison:
    return Comparison({case.name: {who.name: found[who.module] for who in ALL if who.module in found}}, {}, 60)


STEPS, MANY = CASES[0], next(case for case in CASES if case.more_is_better)


def test_a_peer_that_is_ahead_of_our_flows_is_named_with_the_figures() -> None:
    found = comparison(STEPS, flow=Found((9, 10, 11)), dbos=Found((1, 2, 3)), eventsourcing=Found((20, 30, 40)))
    ((case, (ahead,)),) = who_is_ahead(found)
    assert case == STEPS
    assert ahead.sentence == "**DBOS** 2.00 µs (1.00 to 3.00) beside our 10.0 µs (9.00 to 11.0)"


def test_more_is_better_where_steps_are_counted_by_the_second() -> None:
    assert not list(who_is_ahead(comparison(MANY, flow=Found((9,)), dbos=Found((8,)))))
    assert list(who_is_ahead(comparison(MANY, flow=Found((9,)), dbos=Found((10,)))))


def test_spreads_that_overlap_are_said_to() -> None:
    found = comparison(STEPS, flow=Found((9, 10, 11)), dbos=Found((1, 2, 9)))
    assert next(who_is_ahead(found))[1][0].sentence.endswith("spreads overlap")


def test_who_was_not_measured_is_not_ahead() -> None:
    assert not list(who_is_ahead(comparison(STEPS, flow=Found((9,)), dbos=Found(why_not="did not run"))))


def test_every_case_says_what_would_change_it() -> None:
    assert list(CHANGES) == [case.name for case in CASES]


def test_the_page_names_who_is_ahead_and_who_could_not_be_measured(tmp_path: Path) -> None:
    from bench.plot import draw  # slow to import, and no other test needs it

    found = comparison(STEPS, flow=Found((10,)), dbos=Found((2,)), langgraph=Found(why_not="could not be installed"))
    text = page(Measured(datetime(2026, 1, 2, tzinfo=UTC), [], [], found, Remembered(1000, [], []), 10, 5))
    assert "Measured on 2026-01-02 by `make bench PEERS=1`" in text
    assert f"- {STEPS.name}: **DBOS** 2.00 µs beside our 10.0 µs. {CHANGES[STEPS.name]}" in text
    assert "could not be installed" in comparison_table(found)
    draw(found, tmp_path / "picture.svg")
    assert "DBOS" in (tmp_path / "picture.svg").read_text()


def test_who_cannot_be_installed_or_has_no_server_ends_nothing() -> None:
    runs = Runs(None, {who.name: "not here" for who in ALL})
    assert {each.why_not for each in compare(runs, STEPS).values()} == {"not here"}
    far = next(case for case in CASES if case.place == "PostgreSQL")
    assert {each.why_not for each in compare(runs, far).values()} == {"no PostgreSQL here"}


def test_a_program_that_fails_is_a_cell_that_says_so(tmp_path: Path) -> None:
    runs = Runs(None, {who.name: Path(sys.executable) for who in ALL})
    assert PEERS[0].packages
    found = compare(runs, Case("steps", "steps", "tmpfs", 2, "µs", 1))
    assert found[FLOOR.name].values
    assert found[FLOW.name].values
    assert {found[peer.name].why_not for peer in PEERS} == {"did not run"}
    assert runs.run(FLOOR, "steps", 2, Spot(tmp_path)) > 0


def test_a_flow_that_was_killed_is_resumed_again_and_again(tmp_path: Path) -> None:
    runs, spot = Runs(None, {FLOW.name: Path(sys.executable)}), Spot(tmp_path)
    runs.run(FLOW, "prepare", 3, spot)
    assert runs.run(FLOW, "resume", 1, spot) > 0
    assert runs.run(FLOW, "resume", 1, spot) > 0
