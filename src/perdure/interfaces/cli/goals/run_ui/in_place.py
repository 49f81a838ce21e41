"""Asks the questions of a goal in place, and continues the goal in the same command."""

import asyncio
import logging
import time
from dataclasses import replace

from uuid_utils import uuid7

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.errors import Owned
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.decisions import missed_deadlines, timed_out
from perdure.app.goals.values import GoalState, RunResult
from perdure.app.home.system import SystemClock
from perdure.app.wire.shown import shown_sha256
from perdure.errors import Conflict, Invalid, Unavailable
from perdure.interfaces.cli.goals.display.timeline import describe_state
from perdure.interfaces.cli.goals.run_ui.asker import ask, print_accepted
from perdure.interfaces.cli.goals.run_ui.flows import resume_run
from perdure.interfaces.cli.goals.run_ui.offers import Offer, Option, offer_of
from perdure.interfaces.cli.goals.run_ui.run_ui import RunUi
from perdure.tasks import end_tasks

_POLL_S = 0.5
_DEADLINE_S = 0.5
"""The interval of checks, without a query, whether the deadline of a question has passed."""
_SETTLE_S = 2.0
"""The time for which a process may own the goal to record a decision; a longer owner is assumed to run it."""
_PAUSE_S = 0.05

log = logging.getLogger(__name__)


class InPlace:
    """The questions of one goal at one terminal."""

    def __init__(self, ui: RunUi, goals: Goals, run_options: RunOptions) -> None:
        self._ui = ui
        self._goals = goals
        self._run_options = run_options
        self._undecided: set[str] = set()
        """The calls that the person left undecided."""

    async def run(self, result: RunResult) -> RunResult:
        """Ask until the goal has ended, waits for something else, or the person leaves its questions open.

        Questions that are open together are asked in the order in which the goal asked them, then the goal continues.

        Raises: what Goals.resume_run raises; CancelledError after Ctrl-C.
        """
        while self._ui.may_ask(result):
            offers = self._offers(result.state)
            if not any([await self._is_settled(result.state, offer) for offer in offers]):
                return result
            result = await self._continue(result.state.goal_id)
        return result

    def _offers(self, state: GoalState) -> list[Offer]:
        calls = sorted(state.open_calls.values(), key=lambda call: call.seq)
        offers = [offer_of(call) for call in calls if call.call.call_id not in self._undecided]
        return [self._without_repetition(offer) for offer in offers if offer is not None]

    def _without_repetition(self, offer: Offer) -> Offer:
        """Return the offer without the reason of an unknown outcome if the reason was already printed."""
        return replace(offer, why="") if self._ui.has_printed_reason(offer.call_id) else offer

    async def _is_settled(self, state: GoalState, offer: Offer) -> bool:
        """Ask one question and record the answer; return whether the call is settled now, here or elsewhere."""
        key = f"terminal-{uuid7()}"
        while True:
            chosen = await self._ask(state, offer)
            if chosen is None:
                return True
            if chosen.kind is None:
                self._undecided.add(offer.call_id)
                return False
            try:
                shown = shown_sha256(state, offer.call_id)
                given = {"call_id": offer.call_id, "value": chosen.value, "shown_sha256": shown}
                await self._goals.decide(state.goal_id, chosen.kind, **given, key=key)
            except Invalid as error:
                self._ui.say(error.detail)
            except Conflict as error:  # another decision was recorded first
                self._ui.say(error.detail)
                return True
            else:
                print_accepted(offer, chosen)
                return True

    async def _ask(self, state: GoalState, offer: Offer) -> Option | None:
        """Ask until there is an answer; return None if the call was settled elsewhere or timed out.

        Raises: CancelledError after Ctrl-C.
        """
        async with self._ui.asking():
            asking = asyncio.create_task(_ask(offer))
            settled = asyncio.create_task(self._settled_elsewhere(state, offer.call_id))
            try:
                await asyncio.wait({asking, settled}, return_when=asyncio.FIRST_COMPLETED)
                is_answered = asking.done()
                description = "" if is_answered else settled.result()
            finally:  # the question is erased before anything else is shown
                await end_tasks({asking, settled})
            if not is_answered:
                self._ui.say(description)
                return None
            chosen = asking.result()
            if chosen is None:
                await self._ui.interrupts.interrupt()
            return chosen

    async def _settled_elsewhere(self, state: GoalState, call_id: str) -> str:
        """Wait until a call is closed or its deadline has passed, and return a description of the event."""
        clock = SystemClock()
        async with self._goals.feed.subscribe(state.goal_id) as changes:
            may_have_changed = True
            while True:
                if (late := missed_deadlines(state, clock.now_us()).get(call_id)) is not None:
                    return f"{timed_out(late)}."
                try:
                    state = await self._goals.state(state.goal_id) if may_have_changed else state
                except Unavailable as error:
                    log.warning("reading %s failed: %s", state.goal_id, error.detail)
                if call_id not in state.open_calls or state.termination is not None:
                    return _describe_settlement(state, call_id)
                may_have_changed = bool(await changes.wait(_DEADLINE_S)) or changes.has_missed

    async def _continue(self, goal_id: str) -> RunResult:
        """Continue the goal; while another worker runs it, wait for that worker."""
        started_s, has_reported = time.monotonic(), False
        while True:
            try:
                return await resume_run(self._ui.options, self._goals, goal_id, self._run_options)
            except Owned:
                if not has_reported and time.monotonic() - started_s > _SETTLE_S:
                    self._ui.say("Another worker runs the goal now; waiting for it. Ctrl-C leaves it running.")
                    has_reported = True
            await asyncio.sleep(_POLL_S if has_reported else _PAUSE_S)


async def _ask(offer: Offer) -> Option | None:
    """Ask; return None at Ctrl-C, because a KeyboardInterrupt that leaves a task would end the event loop."""
    try:
        return await ask(offer)
    except KeyboardInterrupt:
        return None


def _describe_settlement(state: GoalState, call_id: str) -> str:
    """Describe how a call was settled elsewhere."""
    if state.termination is not None:
        return f"The goal was ended elsewhere: {state.termination.reason}."
    call = state.calls[call_id]
    if call.decision is None:
        return f"{call_id} was settled elsewhere: {describe_state(state, call)}."
    if call.decision.decision == "elapsed":
        return f"{timed_out(call)}."
    by = "a person" if call.decision.by == "person" else call.decision.by
    value = "" if call.decision.value is None else f" {call.decision.value!r}"
    return f"{call_id} was decided elsewhere by {by}: {call.decision.decision}{value}."
