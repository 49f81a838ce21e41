"""Logs of the memory that are long enough to measure with."""

import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from perdure.memory.log.lines import line_of
from perdure.memory.normalise import moment
from perdure.memory.record import JsonObject

NOW_MS = 1_780_000_000_000
SPACING_MS = 7_000
_TEXT = """timeout retry socket parser null pointer import cycle flaky test cache eviction lock deadlock fsync rename
    schema migration index query token auth refresh login upload chunk stream buffer overflow unicode newline deploy
    rollback canary alert pager latency quota limit header proxy"""
_WORDS = _TEXT.split()
_FOLDERS = ("src/api", "src/db", "src/ui", "src/auth", "tests", "infra", "docs", "tools")


def write_log(path: Path, n: int, now_ms: int = NOW_MS) -> None:
    """Write a log of n records, the last of which arrived just now, and the others one every seven seconds."""
    with path.open("wb") as file:
        for number, record in enumerate(records(n)):
            file.write(line_of(record, now_ms - (n - number) * SPACING_MS))


def records(n: int, seed: int = 7) -> Iterator[JsonObject]:
    """Give n records: 24 of 43 common words in each, one word that only it has, 16,000 paths, 20 repositories."""
    chance = random.Random(seed)
    for number in range(n):
        words = chance.choices(_WORDS, k=24)
        rare = ["seldom"] if number % 100 == 0 else []
        path = f"{chance.choice(_FOLDERS)}/mod_{chance.randrange(2000)}.py"
        title = " ".join(words[:6])
        yield {
            "id": f"{number:012x}-{chance.getrandbits(64):016x}",
            "type": chance.choice(("incident", "decision", "revert", "lesson")),
            "timestamp": moment(NOW_MS - (n - number) * SPACING_MS),
            "repo": f"org/repo{chance.randrange(20)}",
            "sha": f"{chance.getrandbits(160):040x}",
            "pr_number": chance.randrange(5000),
            "source": chance.choice(("ci", "agent", "human")),
            "severity": chance.choice(("low", "medium", "high")),
            "fingerprint": sha256(f"{path}|{title}".encode()).hexdigest()[:32],
            "title": title,
            "summary": " ".join([*words[6:], *rare, f"case{number}"]),
            "paths": [path, f"{chance.choice(_FOLDERS)}/mod_{chance.randrange(2000)}.py"],
            "links": [{"url": f"https://example.invalid/{number}"}],
            "metadata": {"run": number, "ok": bool(number & 1)},
        }
