"""Programs that are looked at from outside: what SQLite is asked, and what the disk is made to flush.

`python -m bench.traced WHAT …` is the program itself; `flushes` and `statements` start it and count.
"""

import asyncio
import json
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.floor import GOALS
from bench.flows import searching, steady, together
from bench.measure import mark
from bench.ours import run_goal, run_together, written_together
from perdure import DatabaseClient

_BEGIN, _END = "bench-begins", "bench-ends"
_WAL_HEADER, _FRAME_HEADER = struct.Struct(">8I"), struct.Struct(">6I")
_DATABASE = "perdure.db"


def flushes(folder: Path, what: str, n: int) -> Counter[str]:
    """Run n steps in a new database, and count by file the flushes between their begin and end; also the commits."""
    trace = folder / "trace"
    command = [sys.executable, "-m", "bench.traced", what, str(folder), str(n)]
    done = subprocess.run(straced(trace, command), check=True, capture_output=True, text=True)
    found = flushed_files(trace)
    inside = found[found.index(_BEGIN) + 1 : found.index(_END)]
    return Counter(inside) + Counter({"commits": int(done.stdout)})


def straced(trace: Path, command: list[str]) -> list[str]:
    """Return the command that runs another one and notes its flushes."""
    calls = "trace=fsync,fdatasync"
    return ["strace", "-f", "-y", "--seccomp-bpf", "-qq", "-e", calls, "-e", "signal=none", "-o", str(trace), *command]


def flushed_files(trace: Path) -> list[str]:
    """Return the names of the files that were flushed, in order."""
    lines = [line for line in trace.read_text().splitlines() if "sync(" in line]
    return [Path(line.split("<", 1)[1].split(">", 1)[0]).name for line in lines]


def commit_flushes(found: Counter[str]) -> int:
    """Return the flushes of the log that were not those of a checkpoint, which flushes log and file once each."""
    return found[f"{_DATABASE}-wal"] - found[_DATABASE]


def statements(home: Path, *arguments: str, exit_code: int = 0) -> list[str]:
    """Run `perdure` with arguments, and return all that SQLite was asked, values written into it."""
    log = home / "statements.json"
    command = [sys.executable, "-m", "bench.traced", "statements", str(log), *arguments, "--home", str(home)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != exit_code:
        raise RuntimeError(f"perdure {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    found: list[str] = json.loads(log.read_text())
    return found


def commits_in(wal: Path) -> int:
    """Count the commits that stand in a write-ahead log since it was last written from its beginning."""
    content = wal.read_bytes()
    _, _, page_size, _, *salts, _, _ = _WAL_HEADER.unpack_from(content)
    count = 0
    for start in range(_WAL_HEADER.size, len(content), _FRAME_HEADER.size + page_size):
        _, size_after_commit, *frame_salts, _, _ = _FRAME_HEADER.unpack_from(content, start)
        if frame_salts != salts:
            break
        count += size_after_commit > 0
    return count


async def _work(what: str, folder: Path, n: int) -> int:
    """Do what is to be counted between two marks, and return how many commits it took."""
    async with await DatabaseClient.create(folder / _DATABASE) as db, steady(db, folder) as flows:
        store = db.state_store()
        await run_goal(store, "warm", 2)
        wal = folder / f"{_DATABASE}-wal"
        before = commits_in(wal)
        mark(folder / _BEGIN)
        match what:
            case "goal":
                await run_goal(store, "counted", n)
            case "goals":
                await run_together(store)
            case "appends":
                await written_together(store)
            case "flow":
                await flows.run(searching, n)
            case "flows":
                await together(partial(flows.run, searching, n), GOALS)
        mark(folder / _END)
        return commits_in(wal) - before


def _run_perdure(log: Path, arguments: list[str]) -> None:
    asked: list[str] = []
    plain: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connect(*places: Any, **options: Any) -> sqlite3.Connection:
        connection = plain(*places, **options)
        connection.set_trace_callback(asked.append)
        return connection

    setattr(sqlite3, "connect", connect)  # noqa: B010 (the program that is looked at finds it there)
    from perdure.interfaces.cli import main

    sys.argv = ["perdure", *arguments]
    try:
        main()
    finally:
        log.write_text(json.dumps(asked))


if __name__ == "__main__":
    what, place, *rest = sys.argv[1:]
    if what == "statements":
        _run_perdure(Path(place), rest)
    else:
        print(asyncio.run(_work(what, Path(place), int(rest[0]))))
