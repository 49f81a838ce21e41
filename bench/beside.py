"""Others who make steps durable, on the same floor in the same run.

Each peer is one small program in `bench.peers`, started in a virtual environment of its own that is made for the run
and gone after it. It prints one line of JSON: its version and the microseconds that a step took.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from bench import appends, floor
from bench.measure import DISK, in_turn, scratch
from bench.table import markdown
from perdure import __version__

_ROOT = Path(__file__).parent.parent
_MISSING = "could not be installed here"


@dataclass(frozen=True)
class Program:
    """A peer: what to install, and the program that measures it."""

    name: str
    module: str
    packages: tuple[str, ...]
    share: float = 1.0
    """How many of the steps to do: slow ones show the same with fewer."""


@dataclass(frozen=True)
class Peer:
    """A line of the table: what one step took; None when the peer is missing."""

    name: str
    version: str
    step_us: float | None
    ratio: float | None

    def cells(self) -> list[str]:
        if self.step_us is None or self.ratio is None:
            return [self.name, "", _MISSING, ""]
        return [self.name, self.version, f"{self.step_us:,.0f} µs", f"{self.ratio:.1f}"]


PROGRAMS = (
    Program("eventsourcing", "eventsourcing", ("eventsourcing",)),
    Program("LangGraph", "langgraph", ("langgraph", "langgraph-checkpoint-sqlite"), 0.5),
    Program("DBOS", "dbos", ("dbos",), 0.2),
)


@dataclass(frozen=True)
class _Found:
    version: str
    step_us: float


Way = Callable[[], _Found]


def measure(n: int, repeats: int) -> list[Peer]:
    """Install the peers, and measure floor, ours and theirs in turn."""
    with scratch(DISK) as folder:
        pythons = {program: _installed(folder / program.module, program.packages) for program in PROGRAMS}
        ways: dict[str, Way] = {
            "floor: `sqlite3` alone": lambda: _Found("", floor.sqlite_alone(None, n).mean_us),
            "Perdure, append": lambda: _Found(__version__, appends.ours(None, n, appends.append).mean_us),
            "Perdure, kernel step": lambda: _Found(__version__, appends.ours(None, n, appends.run).mean_us),
        }
        for program, python in pythons.items():
            if python is not None:
                ways[program.name] = partial(_run, python, program, max(int(n * program.share), 10))
        found = dict(zip(ways, in_turn(*ways.values(), repeats=repeats), strict=True))
    raw = median(one.step_us for one in next(iter(found.values())))
    lines = [_line(name, each, raw) for name, each in found.items()]
    return lines + [Peer(program.name, "", None, None) for program, python in pythons.items() if python is None]


def _line(name: str, found: Sequence[_Found], raw: float) -> Peer:
    step_us = median(one.step_us for one in found)
    return Peer(name, found[0].version, step_us, step_us / raw)


def peer_table(rows: Sequence[Peer]) -> str:
    return markdown(["who", "version", "one step", "x floor"], [row.cells() for row in rows])


def _installed(folder: Path, packages: Sequence[str]) -> Path | None:
    """Make an environment with some packages and return its Python; None when that cannot be done here."""
    python = folder / "bin" / "python"
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
        command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *packages]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        print(f"{' '.join(packages)}: {_MISSING} ({type(error).__name__})", file=sys.stderr)
        return None
    return python


def _run(python: Path, program: Program, n: int) -> _Found:
    with scratch() as folder:
        command = [str(python), "-m", f"bench.peers.{program.module}", str(folder), str(n)]
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{program.name} ended with {done.returncode}: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return _Found(found["version"], found["step_us"])
