"""Processes of this machine: their identity, their parent, and marks in their environment.

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
"""Errors of reading a process that has ended, or that belongs to another user."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identifies a process uniquely."""

    pid: int
    started: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """A process with its parent, group, and start time in ticks since the boot."""

    state: str
    parent: int
    group: int
    started: str
    is_exiting: bool = False
    """Whether it has begun to exit: its environment may be gone, although it is not dead yet."""

    @property
    def is_living(self) -> bool:
        """Whether it runs and is not a zombie."""
        return self.state not in "ZX"


@functools.cache
def boot_id() -> str:
    """Return the id of the current boot; empty if the system does not provide one."""
    if HAS_PROC:
        with suppress(*_GONE):
            return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    # the time of the boot changes when the clock is set, so it is only the second choice
    return next(filter(None, (printed("/usr/sbin/sysctl", "-n", f"kern.{key}") for key in _BOOT_KEYS)), "")


@functools.cache
def most_pids() -> int:
    """Return the number of pids, after which they wrap around."""
    with suppress(OSError, ValueError):
        return int((_PROC / "sys/kernel/pid_max").read_text())
    return 1 << 22


def identity_of(pid: int) -> ProcessIdentity | None:
    """Return the process that has this pid now, zombies included; None when the pid is free.

    Raises: OSError when the system refuses access.
    """
    seen = state_of(pid)
    return ProcessIdentity(pid, seen[1], boot_id()) if seen else None


def state_of(pid: int) -> tuple[str, str] | None:
    """Return the state of a process, one letter, and its start time.

    Raises: OSError when the system refuses access.
    """
    if not HAS_PROC:
        return _state_with_ps(pid)
    fields = _stat(pid)
    return (fields[0].decode(), fields[19].decode()) if fields else None


def lineage_of(pid: int) -> Lineage | None:
    """Return a process with its parent and group; None if it has ended, or the system has no /proc.

    Raises: OSError when the system refuses access.
    """
    fields = _stat(pid) if HAS_PROC else None
    if fields is None:
        return None
    is_exiting = bool(int(fields[6]) & _PF_EXITING)
    return Lineage(fields[0].decode(), int(fields[1]), int(fields[2]), fields[19].decode(), is_exiting)


def pids() -> list[int]:
    """Return the pids of all processes.

    Raises: OSError when the system refuses access.
    """
    if HAS_PROC:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 (half the cost of iterdir)
    return _pids_with_ps()


def has_marks(pid: int, marks: Collection[str]) -> bool:
    """Return whether a process has all of some entries in its environment; False without entries.

    Raises: OSError when the system refuses access.
    """
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as environ:  # noqa: PTH123 (half the cost of read_bytes)
            content = environ.read()
    except _GONE:
        return False
    entries = set(content.split(b"\0"))
    return bool(marks) and all(mark.encode(errors="surrogatepass") in entries for mark in marks)


def printed(*argv: str) -> str:
    """Return the output of a system program; empty if it does not exist.

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


def _state_with_ps(pid: int) -> tuple[str, str] | None:
    state, _, started = printed("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    return (state[0], started.strip()) if state else None


def _pids_with_ps() -> list[int]:
    return [int(pid) for pid in printed("/bin/ps", "-axo", "pid=").split()]
