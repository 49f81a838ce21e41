"""Processes of this machine: who one is, which belong to a session, and how a session is ended.

A pid alone names nobody, because it is used again; with its start time and the boot it does. A pid is not given away
while a session is called by it, so the processes of a session are known even after its leader has gone.
"""

import asyncio
import functools
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perdure.errors import Unavailable

KILL_AFTER_S = 5.0
_UNKILLABLE_AFTER_S = 30.0
_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()
_BOOT_KEYS = ("bootsessionuuid", "boottime")
_LOOKS = 3
"""How often we look again: on a busy machine somebody always goes."""


@dataclass(frozen=True, slots=True)
class Birth:
    """What tells a process from all others."""

    pid: int
    started: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class Sight:
    """Who was seen of a session: its living and its dead but unburied, and all groups that they are or were in."""

    living: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    groups: frozenset[int] = frozenset()
    has_group: bool = False
    """Whether the leader's own group has anybody in it, dead or alive: the system tells, and nobody is overlooked."""

    def is_empty(self, before: "Sight | None") -> bool:
        """Say whether nobody lives; dead ones who stay are such that nobody buries, not the wake of one who forks."""
        return not self.living and (not (self.dead or self.has_group) or (bool(self.dead) and self == before))


@functools.cache
def boot_id() -> str:
    """Return the name of this run of the machine; an empty one when the system does not tell."""
    if _HAS_PROC:
        with suppress(OSError):
            return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    # the time of the boot changes when the clock is set, so it is only the second choice
    return next(filter(None, (_printed("/usr/sbin/sysctl", "-n", f"kern.{key}") for key in _BOOT_KEYS)), "")


def birth_of(pid: int) -> Birth | None:
    """Return who has this pid now, dead but not buried included; None when nobody has."""
    seen = _look(pid)
    return Birth(pid, seen[1], boot_id()) if seen else None


def session_of(leader: Birth) -> list[int]:
    """Return the living processes of a session that was ours; none when its pid is somebody else's by now."""
    return [*_sight(leader).living]


def is_ours(leader: Birth, mark: str) -> bool:
    """Tell whether a session is provably the one that an earlier process of ours began and noted.

    Without its leader it is ours only if a process in it bears our mark, an entry of its environment. Where the system
    does not tell which boot this is, or does not show an environment, nothing is proven.
    """
    if not leader.boot_id or leader.boot_id != boot_id():
        return False
    holder = birth_of(leader.pid)
    if holder is not None:
        return holder == leader
    return any(_bears(pid, mark) for pid in session_of(leader))


async def end_session(leader: Birth, *, patience_s: float = 0.0, kill_after_s: float = KILL_AFTER_S) -> None:
    """End all processes of a session: a while of patience, TERM, then KILL; return when they are gone.

    A cancellation on the way makes short work of it: KILL at once.

    Raises: Unavailable when the system does not let them end.
    """
    try:
        for kind, wait_s in ((None, patience_s), (signal.SIGTERM, kill_after_s)):
            if await _is_gone(leader, kind, wait_s):
                return
        if not await _is_gone(leader, signal.SIGKILL, _UNKILLABLE_AFTER_S):
            raise Unavailable(f"Processes {session_of(leader)} do not end, not even by SIGKILL. End them by hand.")
    except asyncio.CancelledError:
        kill_session(leader)
        raise


def kill_session(leader: Birth) -> None:
    """Kill all processes of a session, and wait for nothing."""
    _signal(_sight(leader), signal.SIGKILL)


async def _is_gone(leader: Birth, kind: signal.Signals | None, wait_s: float) -> bool:
    loop = asyncio.get_running_loop()
    until, pause_s, before = loop.time() + wait_s, 0.002, None
    while not (seen := _sight(leader)).is_empty(before):
        if kind is not None:
            _signal(seen, kind)
        if kind is signal.SIGTERM:
            kind = None  # once: the second TERM means something else to many programs
        if loop.time() >= until:
            return False
        before = seen
        await asyncio.sleep(min(pause_s, max(0.0, until - loop.time())))
        pause_s = min(pause_s * 2, 0.05)
    return True


def _signal(seen: Sight, kind: signal.Signals) -> None:
    """Signal every group of a session: a group at once, so that nobody slips away by a fork."""
    for group in seen.groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, kind)


def _sight(leader: Birth) -> Sight:
    """Look who is there; look again when somebody went while we looked: a child may have taken the place."""
    holder = birth_of(leader.pid)
    if holder is not None and holder != leader:
        return Sight()
    for _ in range(_LOOKS):
        seen, has_moved = _glance(leader.pid)
        if seen.living or not has_moved:
            break
    return seen


def _glance(session: int) -> tuple[Sight, bool]:
    living: list[int] = []
    dead: list[int] = []
    groups, has_moved = {session}, False
    for pid in _pids():
        try:
            if os.getsid(pid) != session:
                continue
            groups.add(os.getpgid(pid))
        except PermissionError:
            continue
        except ProcessLookupError:
            has_moved = True
            continue
        state = _look(pid)
        if state is None:
            has_moved = True
        else:
            (dead if state[0] in "ZX" else living).append(pid)
    return Sight(tuple(living), tuple(dead), frozenset(groups), _is_group(session)), has_moved


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS does not permit it when only the dead are left
        return False
    return True


def _look(pid: int) -> tuple[str, str] | None:
    """Return the state of a process, one letter, and when it started."""
    return _look_into_proc(pid) if _HAS_PROC else _look_with_ps(pid)


def _look_into_proc(pid: int) -> tuple[str, str] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stat:  # noqa: PTH123 (half the cost of Path.read_bytes)
            content = stat.read()
    except OSError:
        return None
    fields = content.rpartition(b")")[2].split()  # a program may have spaces and brackets in its name
    return fields[0].decode(), fields[19].decode()


def _look_with_ps(pid: int) -> tuple[str, str] | None:
    state, _, started = _printed("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    return (state[0], started.strip()) if state else None


def _pids() -> list[int]:
    if _HAS_PROC:
        return [int(name) for name in os.listdir(_PROC) if name.isdecimal()]  # noqa: PTH208 (half the cost of iterdir)
    return _pids_with_ps()


def _pids_with_ps() -> list[int]:
    return [int(pid) for pid in _printed("/bin/ps", "-axo", "pid=").split()]


def _bears(pid: int, mark: str) -> bool:
    try:
        return mark.encode(errors="surrogatepass") in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _printed(*argv: str) -> str:
    """Return what a program of the system says; nothing when it is not there."""
    plain = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    with suppress(OSError):
        return subprocess.run(argv, env=plain, capture_output=True, text=True, check=False).stdout.strip()
    return ""
