"""Looking up in a long memory, beside reading all of it; and making its index."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import orjson

from bench.measure import DISK, peak_mb, scratch
from bench.memory_log import NOW_MS, records, write_log
from bench.table import Counted, Target, Timed
from perdure.memory.log.log import now_ms
from perdure.memory.memory import Memory
from perdure.memory.paths import LOG_FILE
from perdure.memory.record import JsonObject

_MILLION = 1_000_000
"""In a shorter log a scan is not so slow."""
_TIMES = 200
_APPENDED = 100
_RATE = Target("value", "≥", 15_000)
_CPU_US = Target("value", "≤", 55)


def measure(n: int = 100_000, repeats: int = 3) -> tuple[list[Timed], list[Counted]]:
    """Return what look-ups take in a log of n records, beside a full scan; and what must hold for the index."""
    with scratch(DISK) as folder:
        write_log(folder / LOG_FILE, n, now_ms())
        built = _rebuilt(folder)
        memory = Memory(folder)
        scan_ms = median(_scan_ms(memory.files.log) for _ in range(repeats))
        timed = [*_lookups(memory, n, scan_ms, repeats), *_texts(memory, scan_ms), _catch_up(memory, n, scan_ms)]
        memory.close()
        scan_cpu_us = median(_cpu_us(partial(_scan_ms, memory.files.log)) for _ in range(repeats)) / n
    timed += [
        Timed(f"make the index of {n:,}, beside a scan", n / scan_ms * 1e3, n / built["seconds"], "/s", _RATE),
        Timed("the same, processor time per record", scan_cpu_us, built["cpu_s"] / n * 1e6, "µs", _CPU_US),
    ]
    return timed, _counted(n, built)


def _lookups(memory: Memory, n: int, scan_ms: float, repeats: int) -> list[Timed]:
    known = list(records(min(n, _TIMES)))
    asks: dict[str, Callable[[JsonObject], JsonObject]] = {
        "fingerprint": lambda record: {"fingerprint": record["fingerprint"]},
        "path": lambda record: {"paths": record["paths"][:1]},
        "directory": lambda record: {"paths": [record["paths"][0].rpartition("/")[0]]},
    }
    rows = []
    for name, ask in asks.items():
        each = [_ms(partial(_related, memory, ask(record))) for _ in range(repeats) for record in known]
        p99 = sorted(each)[int(len(each) * 0.99)]
        wanted = Target("ratio", "≥", 1000) if n >= _MILLION else None
        rows.append(Timed(f"look up by {name} in {n:,}, beside scans", 1e3 / scan_ms, 1e3 / median(each), "/s", wanted))
        rows.append(Timed(f"look up by {name} in {n:,}, p99", scan_ms, p99, "ms", Target("value", "≤", 5)))
    return rows


def _related(memory: Memory, asked: JsonObject) -> None:
    if not memory.related(**asked, now_ms=NOW_MS, retention_days=365)["matches"]:
        raise RuntimeError(f"nothing was found by {asked}")


def _texts(memory: Memory, scan_ms: float) -> list[Timed]:
    asked = {"a word of 1 %": "seldom", "six common words": "deadlock unicode canary quota proxy fsync"}
    each = {name: [_ms(partial(memory.search, text)) for _ in range(20)] for name, text in asked.items()}
    wanted = Target("value", "≤", 50)
    return [Timed(f"search for {name}, slowest", scan_ms, max(found), "ms", wanted) for name, found in each.items()]


def _catch_up(memory: Memory, n: int, scan_ms: float) -> Timed:
    memory.add_many(list(records(_APPENDED, seed=n)), dedupe=False)
    ms = _ms(lambda: memory.search("seldom", limit=1))
    return Timed(f"first look after {_APPENDED} more records", scan_ms, ms, "ms")


def _rebuilt(folder: Path) -> JsonObject:
    """Make the index in a process of its own, and say how large that became."""
    command = [sys.executable, "-m", "bench.memory_lookup", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True)
    found: JsonObject = orjson.loads(done.stdout)
    return found


def _counted(n: int, built: JsonObject) -> list[Counted]:
    return [
        Counted("records in the index", built["records"], Target("value", "=", n)),
        Counted("megabytes of memory while it is made", built["rss_mb"], Target("value", "≤", 300)),
        Counted("bytes of index per record", built["bytes"] / n, Target("value", "≤", 1000)),
    ]


def _scan_ms(log: Path) -> float:
    def scan() -> int:
        with log.open("rb") as file:
            return sum(orjson.loads(line)["fingerprint"] == "none" for line in file)

    return _ms(scan)


def _cpu_us(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e6


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def rebuild(folder: Path) -> JsonObject:
    """Make the index of a memory; return what that took."""
    memory = Memory(folder)
    start = time.process_time()
    done = memory.rebuild()
    memory.close()
    return {**done, "cpu_s": time.process_time() - start, "rss_mb": peak_mb()}


if __name__ == "__main__":
    print(orjson.dumps(rebuild(Path(sys.argv[1]))).decode())
