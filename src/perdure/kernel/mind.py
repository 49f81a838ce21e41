"""The port of a mind, and the proposals that it returns."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Action, Body, Termination, ToolCall
from perdure.kernel.fold import GoalState


@dataclass(frozen=True, slots=True)
class Proposal:
    """The answer of a mind: calls to start, the end, or a moment to ask again. Empty: wait for running calls.

    A call in `unrecorded` is pure and has no intent: only its outcome is recorded, which names the step.
    """

    actions: Sequence[Action] = ()
    unrecorded: Sequence[ToolCall] = ()
    cancelled: Sequence[str] = ()
    """Calls that the mind no longer waits for: they are ended if they run, and recorded as cancelled."""
    end: Termination | None = None
    wake_us: int | None = None
    again_s: float | None = None
    """Seconds after which the mind is asked again, independent of the clock, because it does unrecorded work."""
    events: Sequence[Body] = ()
    """Events of the mind itself, recorded before everything else: a turn of a model, a version marker of a flow."""
    notes: Sequence[Body] = ()
    """Events that are recorded in front of whatever is recorded next, and not alone: fired timers of a flow.

    The mind proposes them until they are recorded. So a flow that polls does not cost a commit for each of its sleeps.
    """
    news: asyncio.Future[None] | None = None
    """Done when the mind has news by itself before it is asked again; None if that cannot be. See `Mind.has_news`."""
    in_order: bool = False
    """Whether each call starts only after the one before it is settled. The policy judges each such call of a model
    when it could start."""


class Mind(Protocol):
    """Decides the next actions of a goal. It is never asked again for a proposal that is in the history."""

    @property
    def is_slow(self) -> bool:
        """Whether a proposal may take long, like an answer of a model.

        The history is durable before a slow mind is asked. Meanwhile outcomes, posts and timers are recorded, so the
        mind must read the state before its first await. An obsolete proposal is cancelled; the mind may then return
        what it has decided so far.
        """
        ...

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:
        """Prepare to continue a history, before open calls are recovered; return the first events to record.

        A slow mind is prepared for a new goal too. The tools are open.

        Raises: Conflict when this mind cannot have written the history.
        """
        ...

    async def close(self) -> None:
        """Release all resources; the mind is not asked again."""
        ...

    async def decide(self, state: GoalState, now_us: int) -> Proposal:
        """Decide what comes next, given the state. Calls that are open in the state are running or waiting."""
        ...

    def has_news(self) -> bool:
        """Return whether the mind has decided something by itself since it was last asked.

        If so, it is asked again before an outcome is recorded, so that its proposal precedes the outcome.
        """
        ...

    def take_abandoned(self) -> Sequence[str]:
        """Return the calls without an intent that the mind no longer waits for, each of them once.

        They are ended and not recorded, even if they have an outcome by then.
        """
        ...

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:
        """Return the environment variables of a call, made of earlier outcomes."""
        ...
