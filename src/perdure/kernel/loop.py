"""The loop: decide, record the intents, run them, record the outcomes, until the goal ends or waits for somebody.

N steps cost N + 1 commits: each outcome and the intents that follow from it are one append.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from perdure import failpoints
from perdure.errors import PerdureError
from perdure.kernel import limits
from perdure.kernel.events import Body, Decision, LimitRaised, Termination, ToolCall, ToolError, ToolOutput, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Appended, CallContext, Clock, InboxRow, Mind, StateStore, Tool
from perdure.kernel.recovery import recover, tool_for

POLL_S = 0.5
"""How often a goal that only waits for its tools looks into its inbox."""

Outcome = Literal["ended", "waiting", "limit", "interrupted"]


@dataclass(frozen=True)
class Ran:
    """How a run of the loop ended."""

    outcome: Outcome
    state: GoalState


class Loop:
    """One run of one goal, by its owner."""

    def __init__(
        self, journal: Journal, store: StateStore, mind: Mind, tools: Mapping[str, Tool], clock: Clock, workdir: str
    ) -> None:
        self._journal = journal
        self._store = store
        self._mind = mind
        self._tools = tools
        self._clock = clock
        self._workdir = workdir
        self._running: dict[str, asyncio.Task[ToolOutput]] = {}
        self._stop = asyncio.Event()
        self._inbox_waiting = False
        self._is_released = False

    @property
    def state(self) -> GoalState:
        return self._journal.state

    def stop(self) -> None:
        """Begin nothing new, let what runs finish, then give the goal back."""
        self._stop.set()

    async def run(self, *, is_resumed: bool) -> Ran:
        """Run until the goal has ended, waits for somebody, or was stopped.

        Raises: Conflict when the goal is no longer ours; what runs is ended then.
        """
        try:
            again = await recover(self._journal, self._tools, self._workdir) if is_resumed else []
            if is_resumed:
                await self._take_inbox()
            return await self._turn(again)
        finally:
            await self._end_all()

    async def _turn(self, again: list[ToolCall]) -> Ran:
        while True:
            begun, wake_us = await self._decide()
            outcome = self._outcome(wake_us)
            appended = await self._commit(outcome)
            if outcome is not None:
                return Ran(outcome, self.state)
            self._inbox_waiting = self._inbox_waiting or appended.inbox_waiting
            for call in (*again, *begun):
                self._start(call)
            again = []
            if self._inbox_waiting:
                await self._take_inbox()
            else:
                await self._wait(wake_us)
            self._collect()

    async def _commit(self, outcome: Outcome | None) -> Appended:
        if self._is_released:
            return Appended(self.state.tip.seq, inbox_waiting=False)
        self._is_released = outcome is not None
        waiting_for: Literal["limit"] | None = "limit" if outcome == "limit" else None
        return await self._journal.commit(release=self._is_released, waiting_for=waiting_for)

    async def _decide(self) -> tuple[list[ToolCall], int | None]:
        """Ask the mind, and record what it wants; return the calls to begin and when to ask again."""
        if self.state.termination is not None or self._stop.is_set() or limits.reached(self.state):
            return [], None
        decided = await self._mind.decide(self.state, self._clock.now_us())
        bodies: list[Body] = [*decided.actions, *([decided.end] if decided.end else [])]
        if bodies:
            self._journal.record(*bodies, is_decision=True)
        return [body for body in bodies if isinstance(body, ToolCall)], decided.wake_us

    def _outcome(self, wake_us: int | None) -> Outcome | None:
        """Say whether this run is over: nothing runs, and nothing will by itself."""
        if self.state.termination is not None:
            return "ended"
        if self.state.is_busy:
            return None
        if self._stop.is_set():
            return "interrupted"
        if limits.reached(self.state):
            return "limit"
        return None if wake_us is not None or self._timers() else "waiting"

    def _start(self, call: ToolCall) -> None:
        self._running[call.call_id] = asyncio.create_task(self._run_tool(call))

    async def _run_tool(self, call: ToolCall) -> ToolOutput:
        try:
            tool = tool_for(call, self._tools)
            environment = self._mind.environment(self.state, call)
            failpoints.hit("kernel.effect.before")
            output = await tool.run(CallContext(self._journal.goal_id, call, self._workdir, environment))
            failpoints.hit("kernel.effect.after")
        except PerdureError as error:
            return ToolOutput(call.call_id, ok=False, error=ToolError(error.code, error.detail))
        except Exception as error:  # noqa: BLE001 (the worker's edge: a broken tool is an outcome)
            return ToolOutput(call.call_id, ok=False, error=ToolError("internal", f"{type(error).__name__}: {error}"))
        return output

    def _collect(self) -> None:
        """Record the outcomes that are there, and the timers that have run out."""
        for call_id, task in list(self._running.items()):
            if task.done():
                del self._running[call_id]
                self._journal.record(task.result())
        now_us = self._clock.now_us()
        for call_id, due_us in self._timers().items():
            if due_us <= now_us:
                self._journal.record(Decision(call_id, "elapsed", by="timer"))

    def _timers(self) -> dict[str, int]:
        return {
            call_id: moment_us(call.call.until)
            for call_id, call in self.state.open_calls.items()
            if isinstance(call.call, Wait) and call.call.until
        }

    async def _wait(self, wake_us: int | None) -> None:
        """Wait for an outcome, a moment, a stop, or the next look into the inbox."""
        now_us = self._clock.now_us()
        moments = [*self._timers().values(), *([wake_us] if wake_us is not None else [])]
        pause_s = min([POLL_S, *(max(moment - now_us, 0) / 1e6 for moment in moments)])
        running: set[asyncio.Future[Any]] = set(self._running.values())
        others: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._clock.sleep(pause_s))}
        if not self._stop.is_set():
            others.add(asyncio.ensure_future(self._stop.wait()))
        done, _ = await asyncio.wait(running | others, return_when=asyncio.FIRST_COMPLETED)
        for future in others:
            future.cancel()
        self._inbox_waiting = not done & running

    async def _take_inbox(self) -> None:
        """Turn what was posted into events, in order of arrival, each in an append of its own."""
        self._inbox_waiting = False
        for row in await self._store.inbox(self._journal.goal_id):
            body = self._body_of(row)
            if isinstance(body, Termination):
                await self._end_all()
                for call in list(self.state.open_calls.values()):
                    if isinstance(call.call, ToolCall) and call.unknown is None:
                        error = ToolError("cancelled", "The goal was cancelled while this ran.")
                        self._journal.record(ToolOutput(call.call.call_id, ok=False, error=error))
            if body is not None:
                self._journal.record(body)
            self._is_released = self.state.termination is not None
            await self._journal.commit(key=row.key, taken=[row.id], release=self._is_released)
            if self._is_released:
                return

    def _body_of(self, row: InboxRow) -> Body | None:
        """Return the event that a row becomes; None when it no longer fits anything."""
        match row.kind:
            case "decision":
                decision = Decision(**row.payload)
                return decision if decision.call_id in self.state.open_calls else None
            case "limit":
                return LimitRaised(**row.payload)
            case "cancel":
                return Termination("cancelled", detail=row.payload.get("why"))
            case _:
                return None

    async def _end_all(self) -> None:
        """End what still runs; each tool sees to its own processes."""
        tasks = list(self._running.values())
        self._running.clear()
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


def moment_us(text: str) -> int:
    """Read an ISO-8601 moment as microseconds since 1970."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond
