"""The order in which the timers of a replayed flow are fired: guessed first, then searched for.

Timers are not recorded, so their order must be guessed. The history shows whether the guess was right: with a wrong
order, the flow requests other steps than the recorded ones. Then the flow is replayed again, with another choice at one
of the points where timers were fired. The search continues from the run that came furthest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

TimerOrder = Literal["passed", "restarted", "eager"]
"""The default order of timers.

`passed`: when the flow is stuck, in the order of their times in the first run. `restarted`: in the order of their
durations, because an earlier resume restarted all of them. `eager`: each before the first outcome after its time, even
if the flow is not stuck, because the step that followed may have no intent. With the last two, whether timers are fired
before an outcome is a choice too: an earlier resume may have moved them.
"""
ORDERS: tuple[TimerOrder, ...] = ("passed", "restarted", "eager")
_MOST_RUNS = 40
"""The number of replays after which the code of a flow counts as changed."""

Came = tuple[int, int]
"""How far a run came: the numbers of recorded steps not requested, and of outcomes not delivered."""


@dataclass
class TimerPlan:
    """The choices of one run: those of an order, with exceptions at some points."""

    order: TimerOrder = "passed"
    others: Mapping[int, int] = field(default_factory=dict)
    """The exceptions: the option for the number of a point."""
    options: list[int] = field(default_factory=list)
    """The number of options at each point of the run so far."""

    def choose(self, count: int) -> int:
        """Return the option at the next point; option 0 follows the order."""
        chosen = self.others.get(len(self.options), 0)
        self.options.append(count)
        return chosen if chosen < count else 0

    @property
    def key(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        return self.order, tuple(sorted(self.others.items()))

    def variants(self) -> Iterator["TimerPlan"]:
        """Yield the plans that differ from this one in one choice, the last choices of the run first."""
        for point in range(len(self.options) - 1, -1, -1):
            for option in range(self.options[point]):
                if option != self.others.get(point, 0):
                    kept = {each: chosen for each, chosen in self.others.items() if each < point}
                    yield TimerPlan(self.order, {**kept, point: option} if option else kept)


class TimerSearch:
    """The queue of plans to try."""

    def __init__(self) -> None:
        self._next = [TimerPlan(order) for order in ORDERS]
        self._known = {plan.key for plan in self._next}
        self._best: Came | None = None
        self._runs = 0

    def next_plan(self, *, is_late: bool) -> TimerPlan | None:
        """Return the plan of the next run; None to give up. If `is_late`, only plans without exceptions are tried."""
        most = len(ORDERS) if is_late else _MOST_RUNS
        self._runs += 1
        return self._next.pop(0) if self._next and self._runs <= most else None

    def note(self, plan: TimerPlan, came: Came) -> None:
        """Record how far the run of a plan came; queue variants of the best plans."""
        is_first = self._best is None
        is_best = self._best is None or came < self._best
        if not (is_best or (came == self._best and not plan.others)):
            return
        self._best = came
        new = [each for each in plan.variants() if each.key not in self._known]
        self._known.update(each.key for each in new)
        self._next = [*new, *self._next] if is_best and not is_first else [*self._next, *new]
