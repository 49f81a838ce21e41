"""The processes of one call: who belongs to it, and how they are ended.

Most are in the session that its program was started in; a pid is not given away while a session is called by it, so
they are known even after the leader has gone. One that made a session of its own is known by its descent from a member,
or by the marks that all processes of a call have in their environment. A process that has lost its parent and its
environment, and was never seen before, cannot be told from a stranger: it is left alone.
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
    Birth,
    Lineage,
    bears,
    birth_of,
    boot_id,
    lineage_of,
    look_at,
    most_pids,
)
from perdure.tools.exec.processes import pids as all_pids

KILL_AFTER_S = 3.0
"""How long processes have to tidy up after TERM. With the patience before it, all are gone within 5 s."""
_UNKILLABLE_AFTER_S = 30.0
_BLIND_S = 0.5
"""How long a look that the system refuses is tried again before we admit that we do not know who is there."""
_LOOKS = 12
"""Maximum number of looks in a row: on a busy machine, some process always exits during a look."""
_STRIKES = 20
"""Maximum number of looks in a row that send SIGKILL, before other tasks may run."""
_QUICK_S = 0.25
_QUICK_PIDS = 1 << 16
_QUICK_SHARE = 16
"""Fewer processes than this, or than that share of all pids, start within the time above: pids show which are new."""


@dataclass(frozen=True, slots=True)
class Sight:
    """Who was seen of a call: the living, the dead but unburied, and whom to signal to reach them all."""

    living: tuple[int, ...] = ()
    dead: tuple[int, ...] = ()
    groups: frozenset[int] = frozenset()
    """Process groups that belong to the call completely: one signal reaches all, so that no fork escapes."""
    strays: frozenset[int] = frozenset()
    """Processes of the call in a group whose leader is not known to be of it."""
    has_group: bool = False
    """Whether the leader's own group has members, dead or alive, as the system reports it."""
    refusal: str = ""
    """Why the system did not let us look; the rest is what is known without a look."""
    is_moving: bool = False
    """Whether processes have left the session, and one exited during the last look: its child may have been missed."""

    def is_empty(self, before: "Sight | None") -> bool:
        """Return whether no process is left; zombies that stay have a parent that does not wait for them."""
        if self.living or self.refusal or self.is_moving:
            return False
        return not (self.dead or self.has_group) or (bool(self.dead) and self == before)


class CallTree:
    """The processes of a call, found again at each look."""

    def __init__(self, leader: Birth, marks: Collection[str], *, is_child: bool) -> None:
        """Know the processes of a call by its first one, and by the entries that they have in their environment.

        One that is our own child is there; one that was noted by an earlier process has to be proven to be the same.
        """
        self.leader = leader
        self._marks = marks
        self._is_child = is_child
        self._began_s = time.monotonic()
        self._left: dict[int, str] = {}
        """Who was seen to have left the session, with its start: known also when its environment is another by now."""
        self._strangers: set[int] = set()
        """Pids that the last full look found not to be of the call; a quick look skips them."""
        self._zombies: dict[int, str] = {}
        """Dead processes outside of the session that were seen before, with their start: they have no new children."""

    def look(self) -> Sight:
        """Look who is there; look again when a process exited during the look, because its child may have been missed.

        /proc lists pids in ascending order, and a process exits after the fork of its child. So one generation of a
        tree that keeps forking is always listed: it is either found, or it has exited when it is read. The looks that
        follow the first read only new pids, which is fast enough to find such a tree.

        Where the boot is unknown, or the call ran in an earlier boot, none is left.

        Raises: OSError when the system does not let us look.
        """
        if not self._is_child and self.leader.boot_id != (boot_id() or None):
            return Sight()
        self._strangers.clear()
        for _ in range(_LOOKS):
            seen, has_moved = self._glance()
            if seen.living or not has_moved:
                return seen
        return replace(seen, is_moving=bool(self._left))

    async def end(self, *, patience_s: float = 0.0, kill_after_s: float = KILL_AFTER_S) -> None:
        """End all processes: a while of patience, TERM, then KILL; return when they are gone.

        A cancellation on the way makes short work of it: KILL at once.

        Raises: Unavailable when the system does not let them end, or does not let us see whether they have.
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
        """Kill all processes, and wait for nothing."""
        _signal(self._seen(), signal.SIGKILL)

    async def _is_gone(self, kind: signal.Signals | None, wait_s: float) -> bool:
        loop = asyncio.get_running_loop()
        begun_s, pause_s, before = loop.time(), 0.002, None
        until_s = begun_s + wait_s
        while not (seen := self._seen()).is_empty(before):
            if kind is not None:
                _signal(seen, kind)
            if kind is signal.SIGKILL:
                self._strike()
            if kind is signal.SIGTERM:
                kind = None  # once: the second TERM means something else to many programs
            if seen.refusal and not seen.has_group and loop.time() >= begun_s + _BLIND_S:
                raise Unavailable(f"Whether all processes of the call have ended cannot be seen: {seen.refusal}.")
            if loop.time() >= until_s and not (seen.refusal and not seen.has_group):
                return False
            before = seen
            await asyncio.sleep(min(pause_s, max(0.002, until_s - loop.time())))
            pause_s = min(pause_s * 2, 0.05)
        return True

    def _strike(self) -> None:
        """Kill what is found, look by look without a pause: a process that forks all the time is overtaken."""
        with suppress(OSError):  # the next look says why
            for _ in range(_STRIKES):
                seen, has_moved = self._glance()
                if not seen.living and not has_moved:
                    return
                _signal(seen, signal.SIGKILL)

    def _seen(self) -> Sight:
        """Look who is there. Where the system refuses, the group of our own child is known without a look."""
        try:
            return self.look()
        except OSError as error:
            if not self._is_child:
                raise Unavailable(f"The processes of the call cannot be looked for: {error}.") from error
            group = self.leader.pid
            return Sight(groups=frozenset({group}), has_group=_is_group(group), refusal=str(error))

    def _glance(self) -> tuple[Sight, bool]:
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
            state = look_at(pid)
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
        return Sight(
            (*living, *left), tuple(dead), frozenset(groups | led), strays, has_group
        ), has_moved or has_left_moved

    def _session(self) -> int | None:
        """Return the session of the call; None when its number is another's by now, or its members are not proven."""
        holder = birth_of(self.leader.pid)
        if holder is not None:
            return self.leader.pid if holder == self.leader else None
        if self._is_child or any(_is_in(pid, self.leader.pid) and bears(pid, self._marks) for pid in all_pids()):
            return self.leader.pid
        return None

    def _find_left(self, others: Collection[int], members: set[int]) -> tuple[Mapping[int, Lineage], bool]:
        """Return who has left the session: by its descent from a member, by its marks, or because it was seen before.

        Also return whether a process that may be of the call exited meanwhile. Only processes that are not older than
        the call come into question, so that most are not even read.
        """
        if not HAS_PROC or not self.leader.started.isdecimal():
            return {}, False
        young, has_moved = self._young(others)
        found = _descendants(young, members)
        marked = {
            pid: each
            for pid, each in young.items()
            if pid not in found and (self._left.get(pid) == each.started or bears(pid, self._marks))
        }
        found |= marked
        found |= _descendants(young, {*members, *found})
        self._left |= {pid: each.started for pid, each in found.items()}
        unmarked = [pid for pid in young if pid not in found]
        self._strangers |= {pid for pid in others if pid not in found}
        return found, any([has_moved, *(self._has_exited(pid) for pid in unmarked)])

    def _young(self, others: Collection[int]) -> tuple[dict[int, Lineage], bool]:
        """Return the living that are not older than the call's first process, and whether one has exited meanwhile.

        For a short call, pids alone say of nearly all that they are older: they are given out in a circle.
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
        """Tell whether a process exited while its environment was read: its marks may have been gone by then."""
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
    """Return those that descend from members, through any number of generations."""
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


def _signal(seen: Sight, kind: signal.Signals) -> None:
    for group in seen.groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, kind)
    for pid in seen.strays:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, kind)


def _is_group(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):  # macOS does not permit it when only the dead are left
        return False
    return True
