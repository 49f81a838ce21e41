"""Runs one call with its tool, and says what to record of it.

Everything that a tool knows is in the outcome that it returns. What it raises instead is an error of ours or of the
machine, and may hide an effect. So an error before the tool is called is a failure, which may be retried. After that a
`once` call is asked for by its check, and becomes unknown when the check cannot tell.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from perdure import failpoints
from perdure.errors import PerdureError
from perdure.kernel.deciding.admission import tool_for
from perdure.kernel.events import Body, Happened, OutcomeUnknown, ToolCall, ToolError, ToolOutput
from perdure.kernel.history.frozen import constructor
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Clock, LeaseLost
from perdure.kernel.recovery import EXHAUSTION, settle_once, told, unknown_if_lost
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import CallContext, KnownOutput, Tool, Used
from perdure.moments import moment_us

log = logging.getLogger(__name__)

Ended = tuple[ToolCall, Sequence[Body]]
"""A call that no longer runs, and what is to be recorded of it."""


NOTHING_USED = Used()


class ToolRuns:
    """Runs the calls of one goal, one at a time or side by side; of their state it keeps only what was used."""

    def __init__(
        self, journal: Journal, run_context: RunContext, clock: Clock, report: Callable[[str, Any], None]
    ) -> None:
        self._journal = journal
        self._run_context = run_context
        self._clock = clock
        self._report = report
        self._used: dict[str, Used] = {}
        """What calls had used that raised or were cancelled, by their ids."""

    def used(self, call_id: str) -> Used:
        """Return what a call had used that raised or was cancelled."""
        return self._used.get(call_id, NOTHING_USED)

    async def run(self, call: ToolCall) -> Ended:
        """Run a call. An error before its tool is asked is a failure; one that the tool raises may hide an effect."""
        begun: tuple[Tool, CallContext] | None = None
        try:
            tool = tool_for(call, self._run_context.tools)
            environment = self.environment(call)
            context = _call_context(
                self._journal.goal_id,
                call,
                self._run_context.workdir,
                environment,
                partial(self._left_s, call),
                self.require_ours,
                partial(self._used.__setitem__, call.call_id),
                partial(self._report, call.call_id),
            )
            failpoints.hit("kernel.effect.before")
            self.require_ours()
            begun = tool, context
            output = await tool.run(context)
            failpoints.hit("kernel.effect.after")
        except Exception as error:
            log.log(_level(), "%s of %s raised %s", call.call_id, self._journal.goal_id, told(error), exc_info=True)
            failure = self.used(call.call_id).on(self.failure(call, error))
            return call, [failure] if begun is None else await self._broken_off(*begun, failure)
        return call, [unknown_if_lost(call, output)]

    async def _broken_off(self, tool: Tool, context: CallContext, failure: ToolOutput) -> Sequence[Body]:
        """Return what to record of a call that raised after it may have begun: of a `once` call, never a failure.

        What may still run of it is ended first, so that neither its check nor a retry meets it.
        """
        call = context.call
        reason = failure.error.message if failure.error else ""
        why = f"An error of ours came after this call may have begun ({reason})"
        try:
            await tool.reap(context.goal_id, call.call_id)
        except (PerdureError, *EXHAUSTION) as error:
            why = f"{why}, and what it left running could not be ended ({told(error)})"
            return [OutcomeUnknown(call.call_id, f"{why}.")] if call.effect == "once" else [failure]
        return await settle_once(tool, context, why, [failure]) if call.effect == "once" else [failure]

    async def check(self, call: ToolCall) -> tuple[Happened, Any]:
        """Ask the check of a `once` call that was cancelled; return its answer, and the output if that is known."""
        context = CallContext(self._journal.goal_id, call, self._run_context.workdir, self.environment(call))
        try:
            found = await tool_for(call, self._run_context.tools).check(context)
        except (PerdureError, *EXHAUSTION):
            return "unknown", None
        if isinstance(found, KnownOutput):
            return "yes", found.output
        answers: dict[str, Happened] = {"not_happened": "no", "unknown": "unknown"}
        return answers.get(found, "yes"), None

    def failure(self, call: ToolCall, error: Exception) -> ToolOutput:
        """Return the outcome of a call that failed; of one without an intent it says which step it was, too."""
        reason = ToolError("internal", told(error))
        if isinstance(error, PerdureError):
            reason = ToolError(error.code, error.detail)
        if call.call_id in self._journal.state.calls:
            return ToolOutput(call.call_id, ok=False, error=reason)
        digest = call.arguments.get("digest")
        return ToolOutput(call.call_id, ok=False, error=reason, step=call.step, digest=digest, effect=call.effect)

    def environment(self, call: ToolCall) -> Mapping[str, str]:
        """Return what a call gets to see of earlier outcomes."""
        return self._run_context.mind.environment(self._journal.state, call)

    def require_ours(self) -> None:
        """Check that the lease is fresh.

        Raises: LeaseLost
        """
        if not self._run_context.is_ours():
            raise LeaseLost

    def _left_s(self, call: ToolCall) -> float | None:
        """Return how long a call may still take, by its recorded timeout."""
        return None if call.until is None else (moment_us(call.until) - self._clock.now_us()) / 1e6


def _level() -> int:
    """Return how serious an error of a tool is: one that comes of ending the call on purpose is to be expected."""
    task = asyncio.current_task()
    return logging.INFO if task is not None and task.cancelling() else logging.WARNING


_call_context = constructor(CallContext)
