"""New processes: how long until a command has answered, beside Python doing nothing."""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.histories import WAITS, long_goal, many_goals
from bench.measure import DISK, medians, perdure, process_s, scratch
from bench.table import Target, Timed

_FEW, _MANY = 1000, 10_000


def measure(repeats: int) -> list[Timed]:
    with scratch(DISK) as cache:
        return [*_cold(cache, repeats), _resume(cache, repeats)]


def _cold(cache: Path, repeats: int) -> list[Timed]:
    with scratch(DISK) as home:
        many_goals(home / "perdure.db", 100)
        commands = {
            "perdure --version": ([*perdure(), "--version"], 100),
            "perdure goal list --json": ([*perdure(), "goal", "list", "--json", "--home", str(home)], 350),
        }
        nothing = [sys.executable, "-c", "pass"]
        ways = [partial(process_s, command, cache) for command in (nothing, *(each for each, _ in commands.values()))]
        python, *found = _warm_medians(ways, repeats)
    return [
        Timed(f"cold start: {name}", python * 1e3, ours * 1e3, "ms", Target("value", "≤", limit))
        for (name, (_, limit)), ours in zip(commands.items(), found, strict=True)
    ]


def _resume(cache: Path, repeats: int) -> Timed:
    """Resume a long goal beside a short one, process start included."""
    with scratch(DISK) as home:
        commands = [_command(str(home), long_goal(home, events)) for events in (_FEW, _MANY)]
        ways = [partial(process_s, command, cache, exit_code=WAITS) for command in commands]
        few, many = _warm_medians(ways, repeats)
    what = f"`perdure run --resume` of {_MANY:,} events, beside one of {_FEW:,}"
    return Timed(what, few * 1e3, many * 1e3, "ms", Target("ratio", "≤", 2))


def _warm_medians(ways: Sequence[Callable[[], float]], repeats: int) -> list[float]:
    """Let Python compile what it needs first."""
    for way in ways:
        way()
    return medians(*ways, repeats=repeats)


def _command(home: str, goal_id: str) -> list[str]:
    return [*perdure(), "run", "--resume", goal_id, "--json", "--home", home]
