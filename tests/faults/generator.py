"""Makes random programs: a seed always makes the same one."""

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from perdure.kernel.events import Effect
from tests.faults.families import Child
from tests.faults.programs import (
    LONG_S,
    Ask,
    Cancel,
    First,
    Forever,
    Gather,
    Group,
    Handover,
    Line,
    Mended,
    Part,
    Race,
    Signal,
    Sleep,
    Step,
    Timeout,
    Try,
    Unanswered,
    parts_of,
)

_GROUPS = ("asyncio", "anyio")
_DEADLINES = ("asyncio", "wait_for", "anyio", "goal")
_FOREVER = ("pure", "idempotent", "once", "ask", "signal", "sleep", "event")
_MOST_PARTS = 24


class Generator:
    """Makes one program. One with races has results that depend on time; a third of them fails until it is retried.

    What makes a goal fail is not a deadline of asyncio or anyio: only a recorded deadline begins again in a retry.
    Three things are left out, because they do not work without a flow either:
    `asyncio.gather(return_exceptions=True)` in a scope of anyio raises a cancel that the scope does not know, if its
    last member had ended before. A failed `asyncio.TaskGroup` of Python 3.11 leaves its task marked as cancelled, so
    that a deadline around it that passes later lets CancelledError escape. `asyncio.wait_for` of
    Python 3.11, when it is cancelled from outside, swallows the cancel in the turn in which its awaitable ends, and
    leaves its awaitable running when it is cancelled a second time. Where Python does neither, it is not left out.
    """

    def __init__(self, seed: int, *, has_races: bool) -> None:
        self._chance = random.Random(seed)
        self._has_races = has_races
        self._left = _MOST_PARTS
        self._is_mended = seed // 2 % 3 == 1

    def program(self) -> Line:
        """Return a program that ends by itself, and never raises."""
        line = self._line(3, can_fail=True)
        made = (Try(line, self._line(0), ()),) if self._chance.random() < 0.8 else self._line(3)
        if self._is_mended:
            made = (*made, self._mended(2), *self._line(0))
        made = made if sys.version_info >= (3, 13) else _without_caught_groups_in_deadlines(made)
        made = _without_gathers_in_scopes(made)
        return made if sys.version_info >= (3, 12) else _without_cancelled_wait_for(made)

    def _line(self, depth: int, *, can_fail: bool = False, least: int = 0) -> Line:
        count = self._chance.randint(least, 3)
        return tuple(self._part(depth, can_fail=can_fail) for _ in range(count))

    def _part(self, depth: int, *, can_fail: bool) -> Part:
        self._left -= 1
        nested = [self._gather, self._group, self._cancel, self._timeout, self._first, self._try, self._child]
        if self._has_races:
            nested += [self._race, self._race, self._tight]
        if depth <= 0 or self._left <= 0 or self._chance.random() < 0.45:
            return self._leaf(can_fail=can_fail)
        make: Callable[..., Part] = self._chance.choice(nested)
        return make(depth - 1, can_fail=can_fail)

    def _leaf(self, *, can_fail: bool) -> Part:  # noqa: PLR0911 (one for each kind)
        pick: Any = self._chance.choice
        match pick(["step"] * 6 + ["sleep", "pause", "ask", "signal", "unanswered", "handover"]):
            case "step":
                return self._step(can_fail=can_fail)
            case "sleep":
                return Sleep(pick([0, 0.557, 3.041, 90.013]))
            case "pause":
                return Sleep(pick([0, 0.217, 2.113]), is_recorded=False)
            case "ask":
                return Ask(pick([None, LONG_S]))
            case "signal":
                return Signal(pick([None, LONG_S]))
            case "unanswered":
                return Unanswered(pick(["ask", "signal"]), pick([0.543, 5.017, 100.019]))
            case _:
                return Handover(pick([1, 2, 3]), pick(["pure", "idempotent", "once"]))

    def _step(self, *, can_fail: bool) -> Step:
        pick: Any = self._chance.choice
        effect: Effect = pick(["pure", "idempotent", "idempotent", "once"])
        is_sync = self._chance.random() < 0.15
        takes_s = 0.0 if is_sync else pick([0.0, 0.0, 0.1, 0.5, 2.0])
        has_id = self._chance.random() < 0.2
        if effect == "once":
            return Step(effect, is_sync, takes_s, has_id=has_id, check=pick([None, None, True]))
        fails = pick([0, 0, 0, 1, 2])
        retry = pick([fails, fails + 1, 0 if can_fail else fails])
        if can_fail and not is_sync and self._chance.random() < 0.1:
            return Step(effect, takes_s=30.0, retry=pick([0, 1]), timeout_s=1.0)
        return Step(effect, is_sync, takes_s, fails, retry, has_id)

    def _blocked(self, depth: int) -> Line:
        """Make a line that never ends."""
        kind: Any = self._chance.choice(_FOREVER)
        end: Part = Forever(kind)
        if depth > 0 and self._chance.random() < 0.4:
            inner = tuple(self._blocked(0) for _ in range(self._chance.randint(1, 2)))
            group: Any = self._chance.choice(["asyncio", "anyio"])
            end = self._chance.choice([Group((*inner, self._line(0)), group), Gather((*inner, self._line(0)))])
        if self._chance.random() < 0.3:
            end = Try((end,), (), self._line(0, least=1))
        if self._chance.random() < 0.2:
            end = self._child_of((*self._line(0), end))
        return (*self._line(min(depth, 1)), end)

    def _lines(self, depth: int, *, can_fail: bool) -> tuple[Line, ...]:
        return tuple(self._line(depth, can_fail=can_fail, least=1) for _ in range(self._chance.randint(1, 3)))

    def _child(self, depth: int, *, can_fail: bool) -> Part:
        is_failing = can_fail and self._chance.random() < 0.2
        failing = (Step("idempotent", fails=9, retry=self._chance.choice([0, 1])),) if is_failing else ()
        return self._child_of((*self._line(depth, can_fail=can_fail), *failing))

    def _child_of(self, line: Line) -> Child:
        return Child(line, has_cleanup=self._chance.random() < 0.3, has_id=self._chance.random() < 0.2)

    def _gather(self, depth: int, *, can_fail: bool) -> Part:
        kind: Any = self._chance.choice(["goal", "asyncio", "exceptions"])
        return Gather(self._lines(depth, can_fail=can_fail or kind == "exceptions"), kind)

    def _group(self, depth: int, *, can_fail: bool) -> Part:
        kind: Any = self._chance.choice(["asyncio", "anyio"])
        lines = self._lines(depth, can_fail=can_fail)
        if can_fail and self._chance.random() < 0.5:
            failing = (*self._line(0), Step("idempotent", takes_s=self._chance.choice([0.0, 1.0]), fails=9))
            lines = (*lines, self._blocked(depth), failing)
        return Group(lines, kind)

    def _cancel(self, depth: int, *, can_fail: bool) -> Part:
        return Cancel(self._blocked(depth), self._line(depth, can_fail=can_fail, least=self._chance.choice([0, 1])))

    def _timeout(self, depth: int, *, can_fail: bool) -> Part:
        kind: Any = self._chance.choice(_DEADLINES)
        if self._chance.random() < 0.4:
            return Timeout(self._line(depth, can_fail=can_fail), kind, LONG_S)
        return Timeout(self._blocked(depth), kind, self._chance.choice([0.331, 2.073, 7.031]))

    def _first(self, depth: int, *, can_fail: bool) -> Part:
        lines = [self._blocked(depth) for _ in range(self._chance.randint(0, 2))]
        lines.insert(self._chance.randint(0, len(lines)), self._line(depth, can_fail=can_fail))
        return First(tuple(lines))

    def _try(self, depth: int, *, can_fail: bool) -> Part:  # noqa: ARG002 (it catches)
        return Try(self._line(depth, can_fail=True, least=1), self._line(0), self._line(0))

    def _mended(self, depth: int, *, is_beside: bool = False) -> Part:  # noqa: PLR0911 (one for each kind)
        """Make a part that fails until the goal is retried; with `is_beside` other lines of its branch run meanwhile.

        Nothing is begun because of the failure, so the retry is not refused: what is cancelled by it has no `finally`.
        And where other lines run in the same branch, the failure cancels them at once, before they begin more: it does
        not wait for something else to end.
        """
        pick: Any = self._chance.choice
        kinds = (
            ["timeout", "child"] if is_beside else ["group", "gather", "goal", "first", "cancel", "timeout", "child"]
        )
        kind = pick(kinds) if depth > 0 and self._chance.random() < 0.7 else "leaf"
        is_beside = (is_beside or kind in ("group", "gather", "cancel")) and kind != "child"
        if kind == "leaf":
            mended: Any = pick(["step", "timeout", "ask", "signal", *([] if is_beside else ["goal"])])
            return Mended(mended, pick(["pure", "idempotent", "once"]), pick([1, 1, 2]), pick([2.039, 5.023]))
        inner = (*self._line(depth - 1), self._mended(depth - 1, is_beside=is_beside), *self._line(0))
        match kind:
            case "goal":
                return Gather(self._beside(inner, [self._line(depth), (self._mended(depth - 1),)]))
            case "gather":
                return Gather(self._beside(inner, [self._calm(depth)]), "asyncio")
            case "group":
                return Group(self._beside(inner, [self._calm(depth), self._calm(depth)]), pick(_GROUPS))
            case "first":
                return First(self._beside(inner, [self._calm_blocked(depth)]))
            case "cancel":
                return Cancel(self._calm_blocked(depth), inner)
            case "timeout":
                return Timeout(inner, pick(_DEADLINES), LONG_S)
            case _:
                return self._child_of(inner)

    def _beside(self, line: Line, others: list[Line]) -> tuple[Line, ...]:
        """Return a line and some of the others, in any order."""
        lines = [line, *self._chance.sample(others, self._chance.randint(0, len(others)))]
        self._chance.shuffle(lines)
        return tuple(lines)

    def _calm(self, depth: int) -> Line:
        return _changed(self._line(depth), _without_cleanup)

    def _calm_blocked(self, depth: int) -> Line:
        return _changed(self._blocked(depth), _without_cleanup)

    def _race(self, depth: int, *, can_fail: bool) -> Part:
        kind: Any = self._chance.choice(["first", "wait", "cancel"])
        lines = self._lines(depth, can_fail=can_fail)
        if self._chance.random() < 0.5:
            lines = (*lines, self._blocked(depth))
        return Race(lines if kind != "wait" else (*lines[:1], *lines), kind)

    def _tight(self, depth: int, *, can_fail: bool) -> Part:
        """Make a deadline that may pass or not."""
        kind: Any = self._chance.choice(_DEADLINES)
        return Timeout(self._line(depth, can_fail=can_fail), kind, self._chance.choice([0.137, 0.571, 1.039]))


def _without_cleanup(part: Part) -> Part:
    """Leave out what a part begins when it is cancelled, and what looks as if it were begun then.

    A pure step has no intent. When it was begun is only known to a millisecond.
    """
    match part:
        case Try():
            return replace(part, final=())
        case Child():
            return replace(part, has_cleanup=False)
        case Race(kind="wait"):
            return replace(part, kind="cancel")  # the first line would run to its end
        case Cancel(other=other):
            return Try(other, (), ())  # its line would run until the other has ended
        case Step(effect="pure") | Handover(effect="pure"):
            return replace(part, effect="idempotent")
        case _:
            return part


def _without_gathers_in_scopes(line: Line) -> Line:
    """Replace the scopes of anyio around `asyncio.gather(return_exceptions=True)` by blocks of asyncio."""

    def change(part: Part) -> Part:
        has_gather = any(isinstance(each, Gather) and each.kind == "exceptions" for each in parts_of((part,)))
        return _of_asyncio(part) if has_gather and getattr(part, "kind", None) == "anyio" else part

    return _changed(line, change)


def _without_caught_groups_in_deadlines(line: Line) -> Line:
    """Replace each group of asyncio whose failure is caught inside of a deadline by one of anyio."""

    def of_anyio(part: Part) -> Part:
        return replace(part, kind="anyio") if isinstance(part, Group) else part

    def in_try(part: Part) -> Part:
        return _with_inner(part, lambda inner: _changed(inner, of_anyio)) if isinstance(part, Try) else part

    def change(part: Part) -> Part:
        return _with_inner(part, lambda inner: _changed(inner, in_try)) if isinstance(part, Timeout) else part

    return _changed(line, change)


def _without_cancelled_wait_for(line: Line) -> Line:
    """Replace each `asyncio.wait_for` in something that may cancel it by `asyncio.timeout`."""

    def replaced(part: Part) -> Part:
        return _of_asyncio(part) if getattr(part, "kind", None) == "wait_for" else part

    def change(part: Part) -> Part:
        is_harmless = isinstance(part, Try) or (isinstance(part, Gather) and part.kind != "asyncio")
        return part if is_harmless else _with_inner(part, lambda inner: _changed(inner, replaced))

    return _changed(line, change)


def _of_asyncio(part: Any) -> Part:
    changed: Part = replace(part, kind="asyncio")
    return changed


def _changed(line: Line, change: Callable[[Part], Part]) -> Line:
    """Change every part of a line, those inside of others first."""
    return tuple(change(_with_inner(part, lambda inner: _changed(inner, change))) for part in line)


def _with_inner(part: Any, change: Callable[[Line], Line]) -> Part:
    """Change the lines of a part."""
    inner = {}
    for name, value in vars(part).items():
        if isinstance(value, tuple):
            has_lines = bool(value) and isinstance(value[0], tuple)
            inner[name] = tuple(change(line) for line in value) if has_lines else change(value)
    changed: Part = replace(part, **inner)
    return changed


def program_of(seed: int) -> tuple[Line, bool]:
    """Return the program of a seed, and whether it has a model: those of odd seeds have races."""
    has_races = seed % 2 == 1
    return Generator(seed, has_races=has_races).program(), not has_races
