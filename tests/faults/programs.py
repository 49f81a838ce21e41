"""Random flows as values: what each part does when it is run by a flow, and what it must give by a model of its own.

A part is a frozen dataclass, so the `repr` of a failing program is Python that makes it again. The model knows nothing
of the engine: it is a few lines on lists, failures and parts that never end. Programs of `Race` parts have no model,
because what they give depends on which of two things comes first.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal, cast

import anyio

from perdure import Goal
from perdure.kernel.events import Effect
from tests.faults.outside import Outside

Line = tuple["Part", ...]
Deadline = Literal["asyncio", "wait_for", "anyio", "goal"]
LONG_S = 100_000.0
NEVER = "never"
MENDED = "mended"
"""The beginning of a question, and of the name of a signal, that are answered after some retries of the goal."""
_REAL_S = 1.0
"""The deadline of what fails until it is mended, where time is real: a busy machine has to answer in time then."""


class FailsError(Exception):
    """The model's word for a part that raises."""


class NeverEndsError(Exception):
    """The model's word for a part that waits until it is cancelled."""


class Part:
    """One part of a program."""

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        """Do what the part does in a flow; `place` is unique in the program."""
        raise NotImplementedError

    def expect(self, place: str) -> Any:
        """Return what the part gives. Raises: FailsError, NeverEndsError."""
        raise NotImplementedError


@dataclass(frozen=True)
class Step(Part):
    """A step that fails in its first attempts."""

    effect: Effect = "idempotent"
    is_sync: bool = False
    takes_s: float = 0.0
    fails: int = 0
    retry: int = 0
    has_id: bool = False
    check: bool | None = None
    timeout_s: float | None = None

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        options = goal.options(
            effect=self.effect,
            id=f"at {place}" if self.has_id else None,
            retry=self.retry + 1,
            timeout_s=_paced(self.timeout_s, outside),
            check=None if self.check is None else outside.has_happened,
        )
        try:
            if self.is_sync:
                await options.step(outside.act_on_thread, place, self.fails)
            else:
                await options.step(outside.act, place, self.fails, self.takes_s)
        except TimeoutError as error:
            raise RuntimeError(place) from error  # not to be taken for the deadline of a block around it
        return place

    def expect(self, place: str) -> Any:
        if self.fails > self.retry or (self.timeout_s is not None and self.takes_s > self.timeout_s):
            raise FailsError
        return place


@dataclass(frozen=True)
class Sleep(Part):
    seconds: float = 1.0
    is_recorded: bool = True

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        seconds = self.seconds * outside.pace
        await (goal.sleep(seconds) if self.is_recorded else asyncio.sleep(seconds))
        return None

    def expect(self, place: str) -> Any:  # noqa: ARG002 (as all parts)
        return None


@dataclass(frozen=True)
class Ask(Part):
    timeout_s: float | None = None

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        return await goal.ask(f"{place}?", timeout_s=_paced(self.timeout_s, outside))

    def expect(self, place: str) -> Any:  # noqa: ARG002 (as all parts)
        return "fine"


@dataclass(frozen=True)
class Signal(Part):
    timeout_s: float | None = None

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        return await goal.signal("go", timeout_s=_paced(self.timeout_s, outside))

    def expect(self, place: str) -> Any:  # noqa: ARG002 (as all parts)
        return "went"


@dataclass(frozen=True)
class Unanswered(Part):
    """A question or a signal that never comes, with a timeout."""

    kind: Literal["ask", "signal"] = "ask"
    timeout_s: float = 5.0

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:  # noqa: ARG002 (as all parts)
        try:
            timeout_s = self.timeout_s * outside.pace
            if self.kind == "ask":
                return await goal.ask(NEVER, timeout_s=timeout_s)
            return await goal.signal(NEVER, timeout_s=timeout_s)
        except TimeoutError:
            return "timeout"

    def expect(self, place: str) -> Any:  # noqa: ARG002 (as all parts)
        return "timeout"


@dataclass(frozen=True)
class Forever(Part):
    """Something that ends only when it is cancelled."""

    kind: Literal["pure", "idempotent", "once", "ask", "signal", "sleep", "event"] = "idempotent"

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        match self.kind:
            case "ask":
                await goal.ask(NEVER)
            case "signal":
                await goal.signal(NEVER)
            case "sleep":
                await goal.sleep(LONG_S)
            case "event":
                await asyncio.Event().wait()
            case effect:
                await goal.options(effect=effect).step(outside.act_forever, place)

    def expect(self, place: str) -> Any:  # noqa: ARG002 (as all parts)
        raise NeverEndsError


@dataclass(frozen=True)
class Mended(Part):
    """Something that fails, or takes too long, until the goal was retried some times: it is not caught."""

    kind: Literal["step", "timeout", "ask", "signal", "goal"] = "step"
    effect: Effect = "idempotent"
    retries: int = 1
    seconds: float = 5.0

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        try:
            await self._run(goal, place, outside)
        except TimeoutError as error:
            raise RuntimeError(place) from error  # not to be taken for the deadline of a block around it
        return place

    async def _run(self, goal: Goal, place: str, outside: Outside) -> None:
        seconds, name = self.seconds if outside.folder is None else _REAL_S, f"{MENDED} {self.retries}"
        options = goal.options(effect=self.effect, timeout_s=seconds if self.kind == "timeout" else None)
        match self.kind:
            case "step":
                await options.step(outside.act_if_mended, place, self.retries)
            case "timeout":
                await options.step(outside.act_when_mended, place, self.retries)
            case "ask":
                await goal.ask(name, timeout_s=seconds)
            case "signal":
                await goal.signal(name, timeout_s=seconds)
            case "goal":
                async with goal.timeout(seconds):
                    await options.step(outside.act_when_mended, place, self.retries)

    def expect(self, place: str) -> Any:
        return place


@dataclass(frozen=True)
class Gather(Part):
    """Lines side by side, by `goal.gather` or `asyncio.gather`."""

    lines: tuple[Line, ...]
    kind: Literal["goal", "asyncio", "exceptions"] = "goal"

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        lines = [in_order(line, goal, f"{place}.{i}", outside) for i, line in enumerate(self.lines)]
        match self.kind:
            case "goal":
                return await goal.gather(*lines)
            case "exceptions":
                found = await asyncio.gather(*lines, return_exceptions=True)
                return ["failed" if isinstance(each, Exception) else each for each in found]
            case _:
                return await _gather_or_cancel(lines)

    def expect(self, place: str) -> Any:
        ends = [_end_of(line, f"{place}.{i}") for i, line in enumerate(self.lines)]
        if self.kind == "exceptions":
            return _all_of([(lambda: "failed") if _fails(end) else end for end in ends])
        if self.kind == "asyncio" and any(_fails(end) for end in ends):
            raise FailsError
        return _all_of(ends)


@dataclass(frozen=True)
class Group(Part):
    """Lines in a task group; when one fails, the others are cancelled."""

    lines: tuple[Line, ...]
    kind: Literal["asyncio", "anyio"] = "asyncio"

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        results: dict[int, Any] = {}

        async def line(number: int) -> None:
            results[number] = await in_order(self.lines[number], goal, f"{place}.{number}", outside)

        if self.kind == "asyncio":
            async with asyncio.TaskGroup() as group:
                for number in range(len(self.lines)):
                    group.create_task(line(number))
        else:
            async with anyio.create_task_group() as scope:
                for number in range(len(self.lines)):
                    scope.start_soon(line, number)
        return [results[number] for number in range(len(self.lines))]

    def expect(self, place: str) -> Any:
        ends = [_end_of(line, f"{place}.{i}") for i, line in enumerate(self.lines)]
        if any(_fails(end) for end in ends):
            raise FailsError
        return _all_of(ends)


@dataclass(frozen=True)
class Cancel(Part):
    """A line that is cancelled when another has ended."""

    line: Line
    other: Line

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        task = asyncio.create_task(in_order(self.line, goal, f"{place}.c", outside))
        try:
            other = await in_order(self.other, goal, f"{place}.o", outside)
        finally:
            task.cancel()
            await _wait_until_done(task)
        if task.cancelled():
            return ["cancelled", other]
        return ["failed" if task.exception() else task.result(), other]

    def expect(self, place: str) -> Any:
        other = expected(self.other, f"{place}.o")
        return ["cancelled", other]


@dataclass(frozen=True)
class Timeout(Part):
    """A line with a deadline."""

    line: Line
    kind: Deadline = "asyncio"
    seconds: float = 5.0

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        inner, seconds = partial(in_order, self.line, goal, place, outside), self.seconds * outside.pace
        try:
            match self.kind:
                case "asyncio":
                    async with asyncio.timeout(seconds):
                        return await inner()
                case "goal":
                    async with goal.timeout(seconds):  # raises in a flow that is being unwound
                        return await inner()
                case "wait_for":
                    return await asyncio.wait_for(inner(), seconds)
                case "anyio":
                    with anyio.fail_after(seconds):
                        return await inner()
        except TimeoutError:
            return "timeout"

    def expect(self, place: str) -> Any:
        try:
            return expected(self.line, place)
        except NeverEndsError:
            return "timeout"


@dataclass(frozen=True)
class First(Part):
    """The first of several lines; only one of them ends by itself."""

    lines: tuple[Line, ...]

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        lines = [in_order(line, goal, f"{place}.{i}", outside) for i, line in enumerate(self.lines)]
        position, value = await goal.first(*lines)
        return [position, value]

    def expect(self, place: str) -> Any:
        for position, line in enumerate(self.lines):
            with suppress(NeverEndsError):
                return [position, expected(line, f"{place}.{position}")]
        raise NeverEndsError


@dataclass(frozen=True)
class Try(Part):
    """A line whose failure is caught, with steps in its `except` and `finally`."""

    line: Line
    handler: Line
    final: Line

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        try:
            value = await in_order(self.line, goal, f"{place}.t", outside)
        except Exception:  # noqa: BLE001 (whatever the parts raise)
            value = ["caught", await in_order(self.handler, goal, f"{place}.h", outside)]
        finally:
            await in_order(self.final, goal, f"{place}.f", outside)
        return value

    def expect(self, place: str) -> Any:
        try:
            value = expected(self.line, f"{place}.t")
        except FailsError:
            value = ["caught", expected(self.handler, f"{place}.h")]
        expected(self.final, f"{place}.f")
        return value


@dataclass(frozen=True)
class Handover(Part):
    """A line that hands what its steps gave to another line, over a queue."""

    count: int = 2
    effect: Effect = "idempotent"

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
        taken: list[str] = []

        async def give() -> None:
            for number in range(self.count):
                await queue.put(await Step(self.effect).run(goal, f"{place}.g{number}", outside))
            await queue.put(None)

        async def take() -> None:
            while (item := await queue.get()) is not None:
                taken.append(await Step(self.effect).run(goal, f"{item}.t", outside))

        async with asyncio.TaskGroup() as group:
            group.create_task(give())
            group.create_task(take())
        return taken

    def expect(self, place: str) -> Any:
        return [f"{place}.g{number}.t" for number in range(self.count)]


@dataclass(frozen=True)
class Race(Part):
    """Lines of which more than one may end: which is first depends on time."""

    lines: tuple[Line, ...]
    kind: Literal["first", "wait", "cancel"] = "first"

    async def run(self, goal: Goal, place: str, outside: Outside) -> Any:
        lines = [in_order(line, goal, f"{place}.{i}", outside) for i, line in enumerate(self.lines)]
        if self.kind == "first":
            position, value = await goal.first(*lines)
            return [position, value]
        tasks = [asyncio.create_task(line) for line in lines]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks if self.kind == "cancel" else tasks[1:]:
                task.cancel()
            await _wait_until_done(*tasks)
        return [_end_in_words(task) for task in tasks]


async def in_order(line: Line, goal: Goal, place: str, outside: Outside) -> list[Any]:
    """Run the parts of a line one after the other."""
    return [await part.run(goal, f"{place}.{number}", outside) for number, part in enumerate(line)]


def expected(line: Line, place: str = "") -> list[Any]:
    """Return what a line gives, by the model."""
    return [part.expect(f"{place}.{number}") for number, part in enumerate(line)]


def _paced(seconds: float | None, outside: Outside) -> float | None:
    return None if seconds is None else seconds * outside.pace


def parts_of(line: Line) -> Iterator[Part]:
    """Return every part of a line, those inside of others too."""
    for part in line:
        yield part
        for field in fields(cast("Any", part)):
            inner = getattr(part, field.name)
            if isinstance(inner, tuple):
                for each in inner if inner and isinstance(inner[0], tuple) else (inner,):
                    yield from parts_of(each)


async def _gather_or_cancel(lines: list[Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    """Gather, and when one has failed cancel the others, as careful code does."""
    tasks = [asyncio.create_task(line) for line in lines]
    try:
        results: list[Any] = await asyncio.gather(*tasks)
        return results
    finally:
        for task in tasks:
            task.cancel()
        await _wait_until_done(*tasks)


def _end_in_words(task: "asyncio.Task[Any]") -> Any:
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    return task.result() if error is None else type(error).__name__


async def _wait_until_done(*tasks: "asyncio.Task[Any]") -> None:
    """Wait until tasks have ended, also when this line is cancelled meanwhile: anyio does that again and again."""
    cancelled = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            for task in tasks:
                task.cancel()
    for task in tasks:
        _end_in_words(task)  # so that asyncio does not report an exception that nothing has taken
    if cancelled is not None:
        raise cancelled


_End = Callable[[], Any]


def _end_of(line: Line, place: str) -> _End:
    return lambda: expected(line, place)


def _fails(end: _End) -> bool:
    try:
        end()
    except FailsError:
        return True
    except NeverEndsError:
        return False
    return False


def _all_of(ends: list[_End]) -> list[Any]:
    """Return what lines give that all run to their end; one that never ends is worse than one that fails."""
    failed = False
    results = []
    for end in ends:
        try:
            results.append(end())
        except FailsError:
            failed = True
    if failed:
        raise FailsError
    return results
