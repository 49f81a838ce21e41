"""The order in which the timers of a flow that is run again are fired: guessed first, then searched for.

Timers are not recorded, so their order has to be guessed. The history shows whether the guess was right: with another
order the flow asks for something else than what was recorded. Then it is run again, and at one of the points where
timers were fired another choice is made. Of all runs the one that came furthest is varied next.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

TimerOrder = Literal["passed", "restarted", "eager"]
"""How timers are fired where no other choice is made.

`passed`: when the flow is stuck, in the order of the moments that they had in the first run. `restarted`: in the order
of the time that each of them takes, because a resume between began all of them anew. `eager`: each before the first
outcome that is later than its moment, also when the flow is not stuck, because a step that it led to has no intent.
With the last two, whether timers are fired before an outcome is a choice, too: a resume between may have moved them.
"""
ORDERS: tuple[TimerOrder, ...] = ("passed", "restarted", "eager")
_MOST_RUNS = 40
"""How often a flow is run again before its code is taken for changed."""

Came = tuple[int, int]
"""How far a run came: the recorded steps that it did not ask for, and the outcomes that it did not get."""


@dataclass
class TimerPlan:
    """The choices of one run: by an order, and at some points another than that order makes."""

    order: TimerOrder = "passed"
    others: Mapping[int, int] = field(default_factory=dict)
    """What is chosen at a point, by its number."""
    options: list[int] = field(default_factory=list)
    """How many choices each point had, as the run has met them."""

    def choose(self, count: int) -> int:
        """Choose one of some possibilities at the next point; the first is what the order says."""
        chosen = self.others.get(len(self.options), 0)
        self.options.append(count)
        return chosen if chosen < count else 0

    @property
    def key(self) -> tuple[str, tuple[tuple[int, int], ...]]:
        return self.order, tuple(sorted(self.others.items()))

    def variants(self) -> Iterator["TimerPlan"]:
        """Return the plans that differ from this one in one choice; the last choices of the run are varied first."""
        for point in range(len(self.options) - 1, -1, -1):
            for option in range(self.options[point]):
                if option != self.others.get(point, 0):
                    kept = {each: chosen for each, chosen in self.others.items() if each < point}
                    yield TimerPlan(self.order, {**kept, point: option} if option else kept)


class TimerSearch:
    """Plans to try, one after the other."""

    def __init__(self) -> None:
        self._next = [TimerPlan(order) for order in ORDERS]
        self._known = {plan.key for plan in self._next}
        self._best: Came | None = None
        self._runs = 0

    def next_plan(self, *, is_late: bool) -> TimerPlan | None:
        """Return the plan of the next run; None when it is time to give up. When it is late, only orders are tried."""
        most = len(ORDERS) if is_late else _MOST_RUNS
        self._runs += 1
        return self._next.pop(0) if self._next and self._runs <= most else None

    def note(self, plan: TimerPlan, came: Came) -> None:
        """Note how far the run of a plan came; if no other came so far, vary it next, and an order that did, later."""
        is_first = self._best is None
        is_best = self._best is None or came < self._best
        if not (is_best or (came == self._best and not plan.others)):
            return
        self._best = came
        new = [each for each in plan.variants() if each.key not in self._known]
        self._known.update(each.key for each in new)
        self._next = [*new, *self._next] if is_best and not is_first else [*self._next, *new]
