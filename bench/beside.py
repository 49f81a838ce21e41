"""Others who make steps durable, doing the same work in the same run: order rotated, repeated, one process each time.

What cannot be installed or does not run is a cell that says so; it ends nothing.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

from bench.compared import ALL, GOALS, Case, Comparison, Contender, Contest, Found
from bench.environments import NotInstalled, cache, installed, installed_for_node
from bench.measure import DISK, scratch
from bench.peers.program import BEGAN
from bench.peers.program import GOALS as HOW_MANY
from bench.traced import straced
from tests.postgres import PostgresServer, start_postgres

_ROOT = Path(__file__).parent.parent
_PATIENCE_S = 120
_SLOW_S = 8
_AT_LEAST = 2
"""Who takes longer than that for a run is measured so many times only."""
_FEWER = 5
"""What a step costs is what n steps cost more than an nth of that: opening and closing cost the same."""


class NotRun(Exception):
    """A work that was not done, and why."""


@dataclass(frozen=True)
class Spot:
    """A folder and, for PostgreSQL, a database of one run or of several."""

    folder: Path
    url: str | None = None

    def size(self) -> int:
        """Return the bytes of all that was kept, once the log is back in the file."""
        if self.url is not None:
            return _size_on_server(self.url)
        files = list(self.folder.glob("*.db"))
        for path in files:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()
        return sum(path.stat().st_size for path in files)


@dataclass
class Runs:
    """Starts the programs, and knows where they run."""

    server: PostgresServer | None
    pythons: dict[str, Path | str]
    versions: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def spot(self, case: Case) -> Iterator[Spot]:
        """Give a new place of the kind that a case needs."""
        with scratch(DISK if case.place == "disk" else None) as folder:
            if case.place != "PostgreSQL":
                yield Spot(folder)
                return
            if self.server is None:
                raise NotRun("no PostgreSQL here")
            name = f"bench_{next(self._numbers)}"
            url = self.server.new_database(name)
            try:
                yield Spot(folder, url)
            finally:
                with psycopg.connect(self.server.url(), autocommit=True) as connection:
                    connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def run(self, who: Contender, work: str, n: int, spot: Spot, trace: Path | None = None) -> float:
        """Do one work, and return what its program says; it is not a number where the work only prepares.

        Raises: NotRun
        """
        python = self.pythons[who.name]
        if isinstance(python, str):
            raise NotRun(python)
        command = [str(python), "-m", f"bench.peers.{who.module}", work, "--folder", str(spot.folder), "--n", str(n)]
        command += ["--url", spot.url] if spot.url else []
        command += ["--variant", who.variant] if who.variant else []
        if trace is not None:
            command = straced(trace, command)
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                cwd=spot.folder,
                env=_environment(),
                timeout=_PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise NotRun(f"over {_PATIENCE_S} s") from error
        for line in reversed(done.stdout.splitlines()):
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(line)
                self.versions[who.name] = said["version"]
                return float("nan") if said["value"] is None else float(said["value"])
        print(f"{who.name}, {work}: {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
        raise NotRun("did not run")


def measure(contest: Contest = GOALS) -> Comparison:
    """Install who is to be compared, and run all cases; every round begins with another."""
    start = time.monotonic()
    with ExitStack() as stack:
        needs_server = any(case.place == "PostgreSQL" for case in contest.cases)
        runs = Runs(_server(stack) if needs_server else None, {who.name: _python(who) for who in contest.all})
        if runs.server is not None:
            with psycopg.connect(runs.server.url()) as connection:
                version = connection.info.parameter_status("server_version") or ""
            runs.versions["PostgreSQL"] = version.split()[0]
        found = {}
        for case in contest.cases:
            begun = time.monotonic()
            found[case.name] = compare(runs, case, contest.all)
            print(f"{case.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return Comparison(found, runs.versions, time.monotonic() - start)


def _server(stack: ExitStack) -> PostgresServer | None:
    try:
        return stack.enter_context(start_postgres())
    except Exception as error:  # noqa: BLE001 (whatever keeps a server from starting, the rest can be measured)
        print(f"PostgreSQL did not start: {error}", file=sys.stderr)
        return None


def _python(who: Contender) -> Path | str:
    if not who.packages:
        return Path(sys.executable)
    try:
        if who.is_for_node:
            installed_for_node(who.module, who.packages)
            return Path(sys.executable)
        return installed(who.module, who.packages)
    except NotInstalled as error:
        return str(error)


def compare(runs: Runs, case: Case, everyone: Sequence[Contender] = ALL) -> dict[str, Found]:
    """Run one case for everyone, and say what was found or why nothing was."""
    found: dict[str, Found] = {}
    with ExitStack() as stack:
        ready: dict[str, Spot | None] = {}
        for who in everyone:
            try:
                ready[who.name] = _prepared(runs, case, who, stack)
            except NotRun as error:
                found[who.name] = Found(why_not=str(error))
        for turn in range(case.repeats):
            first = turn % len(everyone)
            for who in (*everyone[first:], *everyone[:first]):
                before = found.get(who.name, Found())
                if before.why_not or (before.is_slow and len(before.values) >= _AT_LEAST):
                    continue
                start = time.monotonic()
                try:
                    value = _one(runs, case, who, ready[who.name])
                except NotRun as error:
                    found[who.name] = Found(why_not=str(error))
                else:
                    is_slow = time.monotonic() - start > _SLOW_S
                    found[who.name] = Found((*before.values, value), is_slow=is_slow)
    return found


def _prepared(runs: Runs, case: Case, who: Contender, stack: ExitStack) -> Spot | None:
    """Do the work that comes before; without such, every run has a place of its own."""
    if case.work in who.leaves_out:
        raise NotRun(who.leaves_out[case.work])
    if case.prepared_by is None:
        return None
    spot = stack.enter_context(runs.spot(case))
    runs.run(who, *case.prepared_by, spot)
    if case.is_warmed:
        runs.run(who, case.work, case.n, spot)
    return spot


def _one(runs: Runs, case: Case, who: Contender, prepared: Spot | None) -> float:
    if prepared is not None:
        return runs.run(who, case.work, case.n, prepared)
    if case.way == "run":
        with runs.spot(case) as spot:
            return runs.run(who, case.work, case.n, spot)
    few = case.n // _FEWER
    costs = [_cost(runs, case, who, n) for n in (few, case.n)]
    goals = HOW_MANY if case.work == "many" else 1
    return (costs[1] - costs[0]) / ((case.n - few) * goals)


def _cost(runs: Runs, case: Case, who: Contender, n: int) -> float:
    with runs.spot(case) as spot:
        if case.way == "bytes":
            runs.run(who, case.work, n, spot)
            return spot.size()
        if shutil.which("strace") is None:
            raise NotRun("no strace here")
        trace = spot.folder / "trace"
        runs.run(who, case.work, n, spot, trace)
        return sum("sync(" in line for line in trace.read_text().splitlines())


def _size_on_server(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchone()
    return int(row[0]) if row and row[0] else 0


def _environment() -> dict[str, str]:
    """Let Python keep what it compiles, for everyone alike, and find these programs, which import little else."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": str(_ROOT),
        "PYTHONPYCACHEPREFIX": str(cache() / "compiled"),
        BEGAN: repr(time.monotonic()),
    }
