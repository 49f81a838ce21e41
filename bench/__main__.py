"""`make bench`: count and measure, and print tables; beside others, they are written into docs/benchmarks.md."""

import argparse
import pickle
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    appends,
    beside,
    counted,
    drafts,
    flow_counts,
    goals,
    listing,
    memory,
    models,
    resumes,
    server,
    starts,
    store,
)
from bench.compared import bytes_beside, comparison_table
from bench.environments import cache
from bench.page import Measured, page
from bench.plot import draw
from bench.table import Counted, Timed, counted_table, timed_table

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
PICTURE = PAGE.with_suffix(".svg")


def main() -> None:
    options = _options()
    if options.again:
        _write(pickle.loads(_kept().read_bytes()))
        return
    if options.only == "memory":
        sys.exit(_say_what_does_not_hold(_remember(options).held))
    if options.only == "server":
        sys.exit(_say_what_does_not_hold(_serve(options.repeats)[0]))
    held = [*counted.measure(), *flow_counts.measure(), *resumes.measure(), *models.measure()]
    if options.check:
        held += memory.count()
        print(counted_table(held))
        sys.exit(_say_what_does_not_hold(held))
    print(counted_table(held), flush=True)
    timed = _timed(options.n, options.repeats)
    print(f"\n{timed_table(timed)}", flush=True)
    of_server = _serve(options.repeats)
    held, timed = [*held, *of_server[0]], [*timed, *of_server[1]]
    for row in timed:
        if not row.is_met:
            print(row.shortfall)
    remembered = _remember(options)
    if options.peers:
        comparison = beside.measure()
        print(f"\n{comparison_table(comparison)}")
        held = [*held, bytes_beside(comparison)]
        measured = Measured(datetime.now(UTC), held, timed, comparison, remembered, options.n, options.repeats)
        _kept().write_bytes(pickle.dumps(measured))
        _write(measured)
    sys.exit(_say_what_does_not_hold([*held, *remembered.held]))


def _remember(options: argparse.Namespace) -> memory.Remembered:
    found = memory.measure(options.memory, with_peers=options.peers)
    print(memory.section(found), flush=True)
    return found


def _serve(repeats: int) -> tuple[list[Counted], list[Timed]]:
    held, timed = server.measure(repeats)
    print(f"\n{counted_table(held)}\n\n{timed_table(timed)}", flush=True)
    return held, timed


def _write(measured: Measured) -> None:
    PAGE.write_text(page(measured), encoding="utf-8")
    draw(measured.comparison, PICTURE)


def _kept() -> Path:
    """Where the last run is kept, so that its page can be written again."""
    return cache() / "last-run.pickle"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--n", type=int, default=1000, help="steps per measurement of one goal")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each kind; the median counts")
    parser.add_argument("--memory", type=int, default=memory.RECORDS, help="records in the log of the memory")
    parser.add_argument("--only", choices=["memory", "server"], help="measure one part alone; no page is written")
    parser.add_argument("--check", action="store_true", help="only count what must hold; exit 1 when it does not")
    parser.add_argument(
        "--peers",
        action="store_true",
        help=f"also install and measure others, for goals and for the memory, and write {PAGE.name}",
    )
    parser.add_argument("--again", action="store_true", help=f"write {PAGE.name} from what the last run has measured")
    return parser.parse_args()


def _timed(n: int, repeats: int) -> list[Timed]:
    return [
        *appends.measure(n, repeats),
        *goals.measure(repeats),
        *listing.measure(repeats),
        *drafts.measure(repeats),
        *starts.measure(repeats),
        *resumes.timed(repeats),
        *models.timed(repeats),
        *store.measure(max(n // 5, 1), repeats),
    ]


def _say_what_does_not_hold(rows: Sequence[Counted]) -> int:
    """Name each counted line that is not as it must be, and return the exit code."""
    failing = [row for row in rows if not row.holds]
    for row in failing:
        print(
            f"does not hold: {row.what}: {row.shown}, must be {row.target.sign} {row.target.limit:g}", file=sys.stderr
        )
    return 1 if failing else 0


if __name__ == "__main__":
    main()
