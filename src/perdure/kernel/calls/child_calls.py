"""The child calls of one run of a goal: creates their children, and keeps the goal running for them."""

from perdure import failpoints
from perdure.kernel.calls.children import open_children
from perdure.kernel.calls.running_calls import RunningCalls
from perdure.kernel.events import ToolCall
from perdure.kernel.journal import Journal
from perdure.kernel.run_context import RunContext


class ChildCalls:
    """Creates the children of open calls, once in each run. Existing children are resumed."""

    def __init__(self, journal: Journal, run_context: RunContext, running: RunningCalls) -> None:
        self._journal = journal
        self._run_context = run_context
        self._running = running
        self._begun: set[str] = set()
        """The open calls whose children were created or found in this run."""

    def new(self) -> list[ToolCall]:
        """Return the open child calls whose children this run has neither created nor found."""
        calls = [found.call for found in self._journal.state.open_calls.values() if found.is_child and found.may_begin]
        if not calls:
            return []
        known = self._begun | self._running.cancelling
        return [call for call in calls if isinstance(call, ToolCall) and call.call_id not in known]

    async def start_new(self) -> bool:
        """Create the children of new calls, whose intents are durable; return whether there were any."""
        calls = self.new()
        if not calls:
            return False
        failpoints.hit("kernel.children.before")
        self._running.tools.require_ours()
        known = await self._run_context.children.start(self._journal.state, calls, self._journal.queue)
        failpoints.hit("kernel.children.after")
        self._begun.update(call.call_id for call in calls)
        self._journal.record(*known)
        return True

    def cancel_all(self) -> bool:
        """Cancel the children of a goal before it ends; return whether there are any. The goal ends after them."""
        left = [call.call.call_id for call in open_children(self._journal.state).values()]
        self._running.cancel(left)
        return bool(left)

    async def are_active(self) -> bool:
        """Return whether a waiting goal must not be released because its children run."""
        state = self._journal.state
        children = open_children(state)
        if not children or state.reached_limit is not None:
            return False
        return await self._run_context.children.are_active(children)
