"""Finds the process that holds a lock, and whether it is stopped, by /proc of Linux."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holder:
    """A process that holds a lock."""

    pid: int
    name: str
    is_stopped: bool

    def stopped_sentence(self, path: Path) -> str:
        """Return a sentence that the process is stopped, and how to resume it."""
        return (
            f"Process {self.pid} holds {path} and is stopped."
            f" Resume it with `kill -CONT {self.pid}` (or `fg` in its terminal)."
        )


def holder_of(path: Path) -> Holder | None:
    """Return the process that holds the lock on a file; None if there is none, or it cannot be found."""
    try:
        status = os.stat(path)
        file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        rows = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except OSError:
        return None
    pids = [int(row[4]) for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5] == file]
    return _process(pids[0]) if pids and pids[0] > 0 else None


def _process(pid: int) -> Holder:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Holder(pid, "", is_stopped=False)
    before, _, after = stat.rpartition(")")
    return Holder(pid, before.partition("(")[2], is_stopped=after.split()[0] in ("T", "t"))
