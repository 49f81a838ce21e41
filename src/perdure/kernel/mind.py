"""The port of what decides: a mind, and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Action, Body, Termination, ToolCall
from perdure.kernel.fold import GoalState


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a mind wants: calls to begin, the end, or to be asked again at a moment. Nothing: wait for what runs.

    A call in `unrecorded` is pure and has no intent: only its outcome is recorded, and says which step it was.
    """

    actions: Sequence[Action] = ()
    unrecorded: Sequence[ToolCall] = ()
    cancelled: Sequence[str] = ()
    """Calls that the mind no longer waits for: what runs of them is ended, and they are recorded as cancelled."""
    end: Termination | None = None
    wake_us: int | None = None
    again_s: float | None = None
    """The mind has work of its own that is not recorded: it is asked again after this time, whatever the clock shows.
    """
    events: Sequence[Body] = ()
    """What the mind records of its own, before everything else: a turn of a model, a choice of a flow's code."""
    in_order: bool = False
    """Each call begins only when the one before it is settled. The calls that a model decided in this way are judged by
    the policy one by one, when their turn comes."""


class Mind(Protocol):
    """What decides. It is never asked again for a decision that is in the history."""

    @property
    def is_slow(self) -> bool:
        """Whether a decision may take long, as an answer of a model does.

        The history is durable before a slow mind is asked, and grows meanwhile: outcomes, posts and timers are
        recorded. So it reads the state before it first awaits anything. A decision that is no longer wanted is
        cancelled; the mind may answer with what it has by then.
        """
        ...

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:
        """Get ready to continue a history, before anything of it is recovered, and return what to record first.

        A slow mind is prepared for a new goal, too. The tools are open.

        Raises: Conflict when this mind cannot have written the history.
        """
        ...

    async def close(self) -> None:
        """Let go of everything; nothing is decided any more."""
        ...

    async def decide(self, state: GoalState, now_us: int) -> Proposal:
        """Look at the state and say what comes next. Calls that are open in the state are running or waiting."""
        ...

    def has_news(self) -> bool:
        """Tell whether the mind has decided something by itself since it was asked last.

        It is asked again then, before an outcome is recorded: what it decided without that outcome comes before it.
        """
        ...

    def take_abandoned(self) -> Sequence[str]:
        """Return the calls without an intent that the mind no longer waits for, each of them once.

        They are ended, and nothing of them is recorded, also when they have an outcome by then.
        """
        ...

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:
        """Return what a call gets to see of earlier outcomes."""
        ...
