"""`make bench`: count and measure, and print tables; `--write` puts them into docs/benchmarks.md."""

import argparse
import sys
from pathlib import Path

from bench import appends, beside, counted, flow_counts, goals, listing, starts, store
from bench.page import page
from bench.table import Counted, Timed, counted_table, timed_table

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    options = _options()
    held = [*counted.measure(), *flow_counts.measure()]
    print(counted_table(held), flush=True)
    if options.check:
        sys.exit(_say_what_does_not_hold(held))
    timed = _timed(options.n, options.repeats)
    print(f"\n{timed_table(timed)}", flush=True)
    for row in timed:
        if not row.is_met:
            print(row.shortfall)
    peers = beside.measure(options.n, options.repeats) if options.peers else None
    if peers is not None:
        print(f"\n{beside.peer_table(peers)}")
    if options.write:
        PAGE.write_text(page(held, timed, peers, n=options.n, repeats=options.repeats), encoding="utf-8")
    sys.exit(_say_what_does_not_hold(held))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--n", type=int, default=1000, help="steps per measurement of one goal")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each kind; the median counts")
    parser.add_argument("--check", action="store_true", help="only count what must hold; exit 1 when it does not")
    parser.add_argument(
        "--peers", action="store_true", help="also install DBOS, LangGraph and eventsourcing, and measure"
    )
    parser.add_argument("--write", action="store_true", help=f"also write the tables into {PAGE.name}")
    return parser.parse_args()


def _timed(n: int, repeats: int) -> list[Timed]:
    return [
        *appends.measure(n, repeats),
        *goals.measure(repeats),
        *listing.measure(repeats),
        *starts.measure(repeats),
        *store.measure(max(n // 5, 1), repeats),
    ]


def _say_what_does_not_hold(rows: list[Counted]) -> int:
    """Name each counted line that is not as it must be, and return the exit code."""
    failing = [row for row in rows if not row.holds]
    for row in failing:
        print(
            f"does not hold: {row.what}: {row.shown}, must be {row.target.sign} {row.target.limit:g}", file=sys.stderr
        )
    return 1 if failing else 0


if __name__ == "__main__":
    main()
