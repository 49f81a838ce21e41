"""Finds and ends the processes of one call.

Most are in the session of the program. A pid is not reused while a session has it as its id, so they are found even
after the leader has ended. A process that created its own session is found by its descent from a member, or by the
marks in its environment. A process that has lost its parent and its environment, and was never seen before, cannot be
distinguished from others, and is not ended.
"""

import asyncio
import os
import signal
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from perdure.errors import Unavailable
from perdure.tools.exec.processes import (
    HAS_PROC,
    Lineage,
    ProcessIdentity,
    boot_id,
    has_marks,
    identity_of,
    lineage_of,
    most_pids,
    state_of,
)
from perdure.tools.exec.processes import pids as all_pids

KILL_AFTER_S = 3.0
"""How long processes may clean up after SIGTERM. With the wait before it, all are ended within 5 s."""
_UNKILLABLE_AFTER_S = 30.0
_SCAN_RETRY_S = 0.5
"""The time for which a scan that the system refuses is retried before it counts as failed."""
_SCANS = 12
"""Maximum number of scans in a row: on a busy machine, some process exits during every scan."""
_KILL_SCANS = 20
"""Maximum number of scans in a row that send SIGKILL, before other tasks may run."""
_QUICK_S = 0.25
_QUICK_PIDS = 1 << 16
_QUICK_SHARE = 16
"""At most this number of processes, and this share of all pids, start within the time above."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of a scan: living processes, zombies, and the groups and processes to signal."""

    living: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    groups: frozenset[int] = frozenset()
    """Process groups that belong completely to the call: one signal reaches all members, so that no fork escapes."""
    strays: frozenset[int] = frozenset()
    """Processes of the call in a group whose leader may not belong to it."""
    has_group: bool = False
    """Whether the leader's own group has members, dead or alive, as the system reports it."""
    refusal: str = ""
    """The error if the system refused the scan; the other fields are then known without one."""
    is_moving: bool = False
    """Whether processes have left the session, and one exited during the scan: its child may be missing."""

    def is_empty(self, before: "Scan | None") -> bool:
        """Return whether no process is left; persistent zombies have a parent that does not reap them."""
        if self.living or self.refusal or self.is_moving:
            return False
        return not (self.dead or self.has_group) or (bool(self.dead) and self == before)


class CallTree:
    """The processes of a call, found by scans."""

    def __init__(self, leader: ProcessIdentity, marks: Collection[str], *, is_child: bool) -> None:
        """Identify the processes of a call by the first one, and by marks in their environment.

        A child of this process certainly belongs to the call; the process of a note must be proven to be the same.
        """
        self.leader = leader
        self._marks = marks
        self._is_child = is_child
        self._began_s = time.monotonic()
        self._left: dict[int, str] = {}
        """Processes that left the session, with their start times, in case their environment changes."""
        self._strangers: set[int] = set()
        """Pids that do not belong to the call, according to the last full scan; quick scans skip them."""
        self._zombies: dict[int, str] = {}
        """Dead processes outside of the session that were seen before, with their start: they have no new children."""

    def scan(self) -> Scan:
        """Find the processes; repeat if a process exited during the scan, because its child may have been missed.

        /proc lists pids in ascending order, and a process exits after the fork of its child. So one generation of a
        tree that keeps forking is always listed: it is either found, or it has exited when it is read. Later scans
        read only new pids, which is fast enough to find such a tree.

        If the boot is unknown, or the call ran in an earlier boot, no process is left.

        Raises: OSError when the system refuses the scan.
        """
        if not self._is_child and self.leader.boot_id != (boot_id() or None):
            return Scan()
        self._strangers.clear()
        for _ in range(_SCANS):
            seen, has_moved = self._scan_once()
            if seen.living or not has_moved:
                return seen
        return replace(seen, is_moving=bool(self._left))

    async def end(self, *, patience_s: float = 0.0, kill_after_s: float = KILL_AFTER_S) -> None:
        """End all processes: after a wait by SIGTERM, then by SIGKILL; return when they have ended.

        A cancellation sends SIGKILL at once.

        Raises: Unavailable when they do not end, or it cannot be verified.
        """
        try:
            for kind, wait_s in ((None, patience_s), (signal.SIGTERM, kill_after_s)):
                if await self._is_gone(kind, wait_s):
                    return
            if not await self._is_gone(signal.SIGKILL, _UNKILLABLE_AFTER_S):
                left = [*self._seen().living]
                if not left:
                    raise Unavailable("Processes of the call keep forking faster than they can be killed.")
                raise Unavailable(f"Processes {left} do not end, not even by SIGKILL. End them by hand.")
        except asyncio.CancelledError:
            self.kill()
            raise

    def kill(self) -> None:
        """Kill all processes without waiting for their end."""
        _signal(self._seen(), signal.SIGKILL)

    async def _is_gone(self, kind: signal.Signals | None, wait_s: float) -> bool:
        loop = asyncio.get_running_loop()
        started_s, pause_s, before = loop.time(), 0.002, None
        until_s = started_s + wait_s
        while not (seen := self._seen()).is_empty(before):
            if kind is not None:
                _signal(seen, kind)
            if kind is signal.SIGKILL:
                self._kill_repeatedly()
            if kind is signal.SIGTERM:
                kind = None  # once: many programs react differently to a second SIGTERM
            if seen.refusal and not seen.has_group and loop.time() >= started_s + _SCAN_RETRY_S:
                raise Unavailable(f"Whether all processes of the call have ended cannot be seen: {seen.refusal}.")
            if loop.time() >= until_s and not (seen.refusal and not seen.has_group):
                return False
            before = seen
            await asyncio.sleep(min(pause_s, max(0.002, until_s - loop.time())))
            pause_s = min(pause_s * 2, 0.05)
        return True

    def _kill_repeatedly(self) -> None:
        """Scan and kill repeatedly without a pause, to be faster than a process that keeps forking."""
        with suppress(OSError):  # the next scan raises it
            for _ in range(_KILL_SCANS):
                seen, has_moved = self._scan_once()
                if not seen.living and not has_moved:
                    return
                _signal(seen, signal.SIGKILL)

    def _seen(self) -> Scan:
        """Return a scan; if the system refuses it, the group of an own child, which is known without one."""
        try:
            return self.scan()
        except OSError as error:
            if not self._is_child:
                raise Unavailable(f"The processes of the call cannot be searched: {error}.") from error
            group = self.leader.pid
            return Scan(groups=frozenset({group}), has_group=_is_group(group), refusal=str(error))

    def _scan_once(self) -> tuple[Scan, bool]:
        session = self._session()
        living: list[int] = []
        dead: list[int] = []
        others: list[int] = []
        groups: set[int] = set() if session is None else {session}
        has_moved = False
        for pid in all_pids():
            if pid in self._strangers:
                continue
            try:
                if session is None or os.getsid(pid) != session:
                    others.append(pid)
                    continue
                groups.add(os.getpgid(pid))
            except PermissionError:
                continue
            except ProcessLookupError:
                has_moved = True
                continue
            state = state_of(pid)
            if state is None:
                has_moved = True
            else:
                (dead if state[0] in "ZX" else living).append(pid)
        left, has_left_moved = self._find_left(
            others, {self.leader.pid, *living, *dead} if session is not None else set()
        )
        led = {each.group for each in left.values() if each.group in left}
        strays = frozenset(pid for pid, each in left.items() if each.group not in led)
        has_group = session is not None and _is_group(session)
        return Scan(
            (*living, *left), tuple(dead), frozenset(groups | led), strays, has_group
        ), has_moved or has_left_moved

    def _session(self) -> int | None:
        """Return the session of the call; None if its id was reused, or its members are not proven."""
        holder = identity_of(self.leader.pid)
        if holder is not None:
            return self.leader.pid if holder == self.leader else None
        if self._is_child or any(_is_in(pid, self.leader.pid) and has_marks(pid, self._marks) for pid in all_pids()):
            return self.leader.pid
        return None

    def _find_left(self, others: Collection[int], members: set[int]) -> tuple[Mapping[int, Lineage], bool]:
        """Return processes that have left the session: descendants of members, those with marks, and those seen before.

        Also return whether a process that may belong to the call exited meanwhile. Only processes that are not older
        than the call are read.
        """
        if not HAS_PROC or not self.leader.started.isdecimal():
            return {}, False
        young, has_moved = self._young(others)
        found = _descendants(young, members)
        marked = {
            pid: each
            for pid, each in young.items()
            if pid not in found and (self._left.get(pid) == each.started or has_marks(pid, self._marks))
        }
        found |= marked
        found |= _descendants(young, {*members, *found})
        self._left |= {pid: each.started for pid, each in found.items()}
        unmarked = [pid for pid in young if pid not in found]
        self._strangers |= {pid for pid in others if pid not in found}
        return found, any([has_moved, *(self._has_exited(pid) for pid in unmarked)])

    def _young(self, others: Collection[int]) -> tuple[dict[int, Lineage], bool]:
        """Return living processes that are not older than the call, and whether one exited meanwhile.

        For a short call, most older processes are recognized by their pids, which are assigned in a cycle.
        """
        first, circle = self.leader.pid, most_pids()
        if self._is_child and time.monotonic() - self._began_s < _QUICK_S:
            reach = min(_QUICK_PIDS, circle // _QUICK_SHARE)
            others = [pid for pid in others if (pid - first) % circle < reach or pid in self._left]
        own, began = os.getpid(), int(self.leader.started)
        young: dict[int, Lineage] = {}
        has_moved = False
        for pid in others:
            each = lineage_of(pid)
            if each is None:
                has_moved |= _has_gone(pid)
            elif pid == own or int(each.started) < began:
                continue
            elif each.is_living:
                young[pid] = each
            else:
                has_moved |= self._is_new_zombie(pid, each)
        return young, has_moved

    def _has_exited(self, pid: int) -> bool:
        """Return whether a process exited while its environment was read, so that its marks may have been missing."""
        each = lineage_of(pid)
        if each is None:
            return _has_gone(pid)
        return (each.is_exiting or not each.is_living) and self._is_new_zombie(pid, each)

    def _is_new_zombie(self, pid: int, each: Lineage) -> bool:
        is_new = self._zombies.get(pid) != each.started
        self._zombies[pid] = each.started
        return is_new


def _has_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _descendants(young: Mapping[int, Lineage], members: Collection[int]) -> dict[int, Lineage]:
    """Return the descendants of members, in any generation."""
    found: dict[int, Lineage] = {}
    is_new = True
    while is_new:
        new = {
            pid: each
            for pid, each in young.items()
            if pid not in found and pid not in members and (each.parent in members or each.parent in found)
        }
        found |= new
        is_new = bool(new)
    return found


def _is_in(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except (ProcessLookupError, PermissionError):
        return False


def _signal(seen: Scan, kind: signal.Signals) -> None:
    for group in seen.groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, kind)
    for pid in seen.strays:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, kind)


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS denies it if only zombies are left
        return False
    return True
