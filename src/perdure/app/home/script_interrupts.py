"""Ctrl-C in a script prints commands that resume its goals, instead of a traceback. See ADR 0022."""

import asyncio
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from perdure.kernel.events import GoalBegun, ToolCall
from perdure.kernel.fold import GoalState

_MOST_SHOWN = 5


@dataclass(frozen=True)
class Interrupted:
    """A goal whose run was cancelled before its end."""

    goal_id: str
    begun: GoalBegun
    resumes_by_call: bool
    """Whether repeating the call resumes this goal: it has a key, or the call named its id."""
    interrupted_steps: tuple[str, ...] = ()
    """The steps whose `once` calls were running: their outcomes are unknown."""


def steps_cut_off(state: GoalState) -> tuple[str, ...]:
    """Return the steps whose `once` calls have no outcome, of a goal that no longer runs here."""
    running = [each.call for each in state.open_calls.values() if each.runs]
    return tuple(call.step for call in running if isinstance(call, ToolCall) and call.effect == "once")


def resume_lines(goals: Sequence[Interrupted], home: Path | None = None) -> Sequence[str]:
    """Return the lines that say how to resume goals, with the home if it is not the default one."""
    home_option = [] if home is None else ["--home", str(home)]
    commands = list(dict.fromkeys(_command(goal, home_option) for goal in goals))
    if not commands:
        return []
    left = len(commands) - _MOST_SHOWN
    more = [f"  and {left} more: {shlex.join(['perdure', 'goal', 'list', *home_option])}"] if left > 0 else []
    return [_summary_line(goals), *(f"  {command}" for command in commands[:_MOST_SHOWN]), *more]


def _summary_line(goals: Sequence[Interrupted]) -> str:
    interrupted_steps = [step for goal in goals for step in goal.interrupted_steps]
    if not interrupted_steps:
        return "Interrupted. Recorded steps are kept. To resume:"
    left = len(interrupted_steps) - _MOST_SHOWN
    steps = ", ".join(interrupted_steps[:_MOST_SHOWN]) + (f" and {left} more" if left > 0 else "")
    unknown = "was running: its outcome is" if len(interrupted_steps) == 1 else "were running: their outcomes are"
    return f"Interrupted. {steps} {unknown} unknown. On resume the check of the step decides, or you do. To resume:"


def _command(goal: Interrupted, home_option: Sequence[str]) -> str:
    from perdure.minds.flow.scripts import command_here, is_of_script

    if not is_of_script(goal.begun.mind):
        return shlex.join(["perdure", "goal", "resume", goal.goal_id, *home_option])
    if goal.resumes_by_call:
        return command_here(goal.begun)
    return (
        f"await p.goals.resume({goal.goal_id!r})  # in the script: without a key, running it again starts another goal"
    )


@contextmanager
def report_interrupt(lines: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Print `lines` instead of the traceback if Ctrl-C ends the block and then, uncaught, the process.

    The exception is not changed: code that catches KeyboardInterrupt, and the exit status, are not affected.
    """
    main_task = _main_task()
    try:
        yield
    except (asyncio.CancelledError, KeyboardInterrupt) as error:
        is_main_cancelled = main_task is not None and main_task.cancelling() > 0
        if isinstance(error, KeyboardInterrupt) or is_main_cancelled:
            _print_instead(error, main_task, lines)
        raise


def _main_task() -> "asyncio.Task[Any] | None":
    """Return the task that `asyncio.run` cancels at Ctrl-C; None if the signal has another handler."""
    handler = signal.getsignal(signal.SIGINT)
    is_of_runner = isinstance(getattr(getattr(handler, "func", None), "__self__", None), asyncio.Runner)
    is_here = threading.current_thread() is threading.main_thread()
    main_task: asyncio.Task[Any] | None = getattr(handler, "keywords", {}).get("main_task")
    return main_task if is_of_runner and is_here else None


def _print_instead(
    interrupt: BaseException, main_task: "asyncio.Task[Any] | None", lines: Callable[[], Sequence[str]]
) -> None:
    """Install an exception hook that prints the lines if this interrupt ends the process.

    At the first Ctrl-C, `asyncio.run` raises KeyboardInterrupt while it handles the CancelledError that left the block.
    At the second it raises KeyboardInterrupt at once, and ends the tasks while it handles that.
    """
    before, seen = sys.excepthook, [interrupt]

    def note_cause(_task: object) -> None:
        if (cause := sys.exception()) is not None:
            seen.append(cause)

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        is_same = error in seen or any(each in _chain(error) for each in seen)
        printed = lines() if isinstance(error, KeyboardInterrupt) and is_same else []
        if printed:
            first = "\n" if sys.stderr.isatty() else ""  # the terminal has shown ^C
            sys.stderr.write(first + "".join(f"{line}\n" for line in printed))
        else:
            before(kind, error, trace)

    if main_task is not None:
        main_task.add_done_callback(note_cause)
    sys.excepthook = hook


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an exception with its chain of causes and contexts."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
