"""Runs one call with its tool, and returns the events to record.

A tool returns every outcome that it knows, including failures. An exception is an internal error or an error of the
machine, and the call may have had its effect. So an error before the tool is called is a failure, which may be retried.
After an error in the tool, the check of a `once` call decides; if it cannot, the outcome of the call is unknown.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from perdure import failpoints
from perdure.errors import InternalError, PerdureError
from perdure.kernel.deciding.admission import tool_for
from perdure.kernel.events import Body, Happened, OutcomeUnknown, ToolCall, ToolError, ToolOutput
from perdure.kernel.history.frozen import constructor
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Clock, LeaseLost
from perdure.kernel.recovery import EXHAUSTION, describe, settle_once, unknown_if_lost
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import CallContext, CallUsage, KnownOutput, Tool
from perdure.text.moments import moment_us

log = logging.getLogger(__name__)

Ended = tuple[ToolCall, Sequence[Body]]
"""A call that no longer runs, and the events to record."""


NOTHING_USED = CallUsage()


class ToolRuns:
    """Runs the calls of one goal, in any number at a time. Keeps no state of a call except its usage."""

    def __init__(
        self, journal: Journal, run_context: RunContext, clock: Clock, report: Callable[[str, Any], None]
    ) -> None:
        self._journal = journal
        self._run_context = run_context
        self._clock = clock
        self._report = report
        self._used: dict[str, CallUsage] = {}
        """The usage of calls that raised or were cancelled, by call id."""

    def used(self, call_id: str) -> CallUsage:
        """Return the usage of a call that raised or was cancelled."""
        return self._used.get(call_id, NOTHING_USED)

    async def run(self, call: ToolCall) -> Ended:
        """Run a call. An error before its tool is called is a failure; an error of the tool may hide an effect."""
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
            log.log(_level(), "%s of %s raised %s", call.call_id, self._journal.goal_id, describe(error), exc_info=True)
            failure = self.used(call.call_id).on(self.failure(call, error))
            return call, [failure] if begun is None else await self._settle_after_error(*begun, failure)
        return call, [unknown_if_lost(call, output)]

    async def _settle_after_error(self, tool: Tool, context: CallContext, failure: ToolOutput) -> Sequence[Body]:
        """Return the events of a call whose tool raised and may have started it; a `once` call never fails here.

        Its processes are ended first, so that neither its check nor a retry runs beside them.
        """
        call = context.call
        reason = failure.error.message if failure.error else ""
        why = f"An internal error occurred after this call may have begun ({reason})"
        try:
            await tool.reap(context.goal_id, call.call_id)
        except (PerdureError, *EXHAUSTION) as error:
            why = f"{why}, and its processes could not be ended ({describe(error)})"
            return [OutcomeUnknown(call.call_id, f"{why}.")] if call.effect == "once" else [failure]
        return await settle_once(tool, context, why, [failure]) if call.effect == "once" else [failure]

    async def check(self, call: ToolCall) -> tuple[Happened, Any]:
        """Ask the check of a cancelled `once` call; return its answer, and the output if that is known."""
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
        """Return the outcome of a failed call. Without an intent, the outcome also names the step."""
        reason = ToolError(InternalError.code, describe(error))
        if isinstance(error, PerdureError):
            reason = ToolError(error.code, error.detail)
        if call.call_id in self._journal.state.calls:
            return ToolOutput(call.call_id, ok=False, error=reason)
        digest = call.arguments.get("digest")
        return ToolOutput(call.call_id, ok=False, error=reason, step=call.step, digest=digest, effect=call.effect)

    def environment(self, call: ToolCall) -> Mapping[str, str]:
        """Return the environment variables of a call, made of earlier outcomes."""
        return self._run_context.mind.environment(self._journal.state, call)

    def require_ours(self) -> None:
        """Check that the lease is fresh.

        Raises: LeaseLost
        """
        if not self._run_context.may_start_calls():
            raise LeaseLost

    def _left_s(self, call: ToolCall) -> float | None:
        """Return the seconds until the recorded timeout of a call."""
        return None if call.until is None else (moment_us(call.until) - self._clock.now_us()) / 1e6


def _level() -> int:
    """Return the log level of an error of a tool: errors are expected while the call is being cancelled."""
    task = asyncio.current_task()
    return logging.INFO if task is not None and task.cancelling() else logging.WARNING


_call_context = constructor(CallContext)
