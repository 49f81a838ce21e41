"""Processes of this machine: who one is, who its parent is, and what it bears in its environment.

A pid alone does not identify a process, because it is reused; together with the start time and the boot it does. When
the system refuses to answer, for example without a free descriptor, functions raise instead of reporting no process.
"""

import functools
import os
import subprocess
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
HAS_PROC = (_PROC / "self" / "stat").exists()
_PF_EXITING = 0x4
"""A flag of Linux, in the seventh field after the name of the program in /proc/PID/stat."""
_BOOT_KEYS = ("bootsessionuuid", "boottime")
_GONE = (FileNotFoundError, ProcessLookupError, PermissionError)
"""What a look at a process raises that has ended, or that another user hides from us."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What tells a process from all others."""

    pid: int
    started: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """A process beside its relatives, and when it started in ticks since the boot."""

    state: str
    parent: int
    group: int
    started: str
    is_exiting: bool = False
    """Whether it has begun to exit: its environment may be gone, although it is not dead yet."""

    @property
    def is_living(self) -> bool:
        """Whether it runs; one that is dead but not buried does not."""
        return self.state not in "ZX"


@functools.cache
def boot_id() -> str:
    """Return the name of this run of the machine; an empty one when the system does not tell."""
    if HAS_PROC:
        with suppress(*_GONE):
            return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    # the time of the boot changes when the clock is set, so it is only the second choice
    return next(filter(None, (printed("/usr/sbin/sysctl", "-n", f"kern.{key}") for key in _BOOT_KEYS)), "")


@functools.cache
def most_pids() -> int:
    """Return the number after which pids are counted from the beginning again."""
    with suppress(OSError, ValueError):
        return int((_PROC / "sys/kernel/pid_max").read_text())
    return 1 << 22


def birth_of(pid: int) -> Birth | None:
    """Return the process that has this pid now, zombies included; None when the pid is free.

    Raises: OSError when the system does not let us look.
    """
    seen = look_at(pid)
    return Birth(pid, seen[1], boot_id()) if seen else None


def look_at(pid: int) -> tuple[str, str] | None:
    """Return the state of a process, one letter, and when it started.

    Raises: OSError when the system does not let us look.
    """
    if not HAS_PROC:
        return _look_with_ps(pid)
    fields = _stat(pid)
    return (fields[0].decode(), fields[19].decode()) if fields else None


def lineage_of(pid: int) -> Lineage | None:
    """Return a process beside its relatives; None when it is gone, or the system has no /proc.

    Raises: OSError when the system does not let us look.
    """
    fields = _stat(pid) if HAS_PROC else None
    if fields is None:
        return None
    is_exiting = bool(int(fields[6]) & _PF_EXITING)
    return Lineage(fields[0].decode(), int(fields[1]), int(fields[2]), fields[19].decode(), is_exiting)


def pids() -> list[int]:
    """Return the pids of all processes.

    Raises: OSError when the system does not let us look.
    """
    if HAS_PROC:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 (half the cost of iterdir)
    return _pids_with_ps()


def bears(pid: int, marks: Collection[str]) -> bool:
    """Return whether a process has all of some entries in its environment; without entries, False.

    Raises: OSError when the system does not let us look.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:  # noqa: PTH123 (half the cost of read_bytes)
            content = environ.read()
    except _GONE:
        return False
    entries = set(content.split(b"\0"))
    return bool(marks) and all(mark.encode(errors="surrogatepass") in entries for mark in marks)


def printed(*argv: str) -> str:
    """Return what a program of the system says; nothing when it is not there.

    Raises: OSError when the system starts no more programs.
    """
    plain = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    with suppress(*_GONE):
        return subprocess.run(argv, env=plain, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def _stat(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat after the name of the program."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # noqa: PTH123 (half the cost of Path.read_bytes)
            content = stat.read()
    except _GONE:
        return None
    return content.rpartition(b")")[2].split()  # a program may have spaces and brackets in its name


def _look_with_ps(pid: int) -> tuple[str, str] | None:
    state, _, started = printed("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    return (state[0], started.strip()) if state else None


def _pids_with_ps() -> list[int]:
    return [int(pid) for pid in printed("/bin/ps", "-axo", "pid=").split()]
