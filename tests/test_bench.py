"""What the benchmarks say holds, holds; nothing is timed here."""

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

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
