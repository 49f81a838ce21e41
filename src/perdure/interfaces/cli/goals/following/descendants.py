"""Shows the events of the children of a watched goal, recursively, in the order of time."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.subscription import Subscription
from perdure.app.goals.goals import Goals
from perdure.app.goals.values import Event, GoalState, ToolCall, ToolOutput, apply, child_of, decode, fold
from perdure.errors import Damaged, NotFound
from perdure.interfaces.cli.goals.run_ui.progress import View


@dataclass
class _Child:
    """A child with the part of its history that was shown."""

    goal_id: str
    name: str
    """The path of steps that started it, from the watched goal down."""
    state: GoalState | None = None
    read: deque[Event] = field(default_factory=deque)
    """Events that were read but not shown yet."""
    read_seq: int = 0
    is_open: bool = True
    """Whether its parent waits for it."""


class Descendants:
    """Reads the events of children while their parents wait for them, and shows them in the order of time."""

    def __init__(self, goals: Goals, view: View, changes: Subscription) -> None:
        self._goals = goals
        self._view = view
        self._changes = changes
        self._children: dict[str, _Child] = {}

    async def show_until(self, event: Event, state: GoalState | None, *, is_shown: bool) -> None:
        """Show events of children that precede an event of the watched goal; `state` is the state before that event."""
        await self._show(event.timestamp_us, is_shown=is_shown)
        await self._finish_child(event, state, is_shown=is_shown)

    async def follow_new(self, event: Event, state: GoalState) -> None:
        """Follow the child that an event of the watched goal started, if any."""
        await self._begin_child(event, state, "")

    async def show_new(self, changed: Collection[str] | None) -> None:
        """Show the new events of the changed children, or of all children for None."""
        for goal_id, child in tuple(self._children.items()):
            if child.is_open and (changed is None or goal_id in changed):
                await self._read(child)
        await self._show(None, is_shown=True)

    async def _begin_child(self, event: Event, state: GoalState, above: str) -> None:
        body = decode(event)
        call = state.calls[body.call_id] if isinstance(body, ToolCall) else None
        if call is None or not call.is_child:
            return
        name = f"{above} {call.call.step}".lstrip()
        child = self._children.setdefault(child_of(call), _Child(child_of(call), name))
        child.is_open, child.name = True, name  # a retry of the parent starts the same child again
        self._goals.feed.add(self._changes, child.goal_id)
        await self._read(child)

    async def _finish_child(self, event: Event, state: GoalState | None, *, is_shown: bool) -> None:
        """Show the remaining events of a child whose end the event records."""
        body = decode(event)
        call = state.calls.get(body.call_id) if state is not None and isinstance(body, ToolOutput) else None
        child = self._children.get(child_of(call)) if call is not None and call.is_child else None
        if child is None:
            return
        await self._read(child)
        while child.read:
            await self._show_next(child, is_shown=is_shown)
        child.is_open = False

    async def _read(self, child: _Child) -> None:
        try:
            while page := await self._goals.events(child.goal_id, after=child.read_seq, max_bytes=PAGE_BYTES):
                child.read.extend(page)
                child.read_seq = page[-1].seq
        except NotFound:  # it is not created yet, or was deleted
            pass
        except Damaged as error:
            self._leave(child, error)

    async def _show(self, until_us: int | None, *, is_shown: bool) -> None:
        """Show the read events of all children in the order of time, up to a moment."""
        while True:
            unshown = [child for child in self._children.values() if child.read]
            first = min(unshown, key=lambda child: child.read[0].timestamp_us, default=None)
            if first is None or (until_us is not None and first.read[0].timestamp_us > until_us):
                return
            await self._show_next(first, is_shown=is_shown)

    async def _show_next(self, child: _Child, *, is_shown: bool) -> None:
        event = child.read.popleft()
        try:
            await self._finish_child(event, child.state, is_shown=is_shown)
            child.state = _folded(child.state, event)
            if is_shown:
                self._view.show_child_event(child.name, event, child.state)
            await self._begin_child(event, child.state, child.name)
        except Damaged as error:
            self._leave(child, error)

    def _leave(self, child: _Child, error: Damaged) -> None:
        """Print the damage of a child, and stop following it; its parent is still followed."""
        if child.is_open:
            self._view.say(f"[{child.name}] {error.detail}")
        child.read.clear()
        child.is_open = False


def _folded(before: GoalState | None, event: Event) -> GoalState:
    if before is None:
        return fold([event])
    apply(before, event)
    return before
