"""A goal's history in memory: what the loop does to a mind, without a store and without tools."""

from perdure.kernel.events import (
    Body,
    Decision,
    DecisionKind,
    Event,
    GoalBegun,
    Head,
    MindSpec,
    OutcomeUnknown,
    ToolError,
    ToolOutput,
    seal,
)
from perdure.kernel.fold import apply, fold
from perdure.kernel.mind import Mind, Proposal
from perdure.kernel.ports import GoalState

SECOND_US = 1_000_000
START_US = 1_800_000_000 * SECOND_US


class History:
    """Events of one goal, and a clock that moves only when told to."""

    def __init__(self, mind: Mind) -> None:
        self.mind = mind
        self.now_us = START_US
        self.events = [self._sealed(GoalBegun("g", MindSpec("plan")), Head("g"))]
        self.state = self.folded()
        """Lives as long as the history, as it does in the loop."""

    def folded(self) -> GoalState:
        """The state as a resume would find it."""
        return fold(self.events)

    def add(self, *bodies: Body) -> None:
        for body in bodies:
            self.events.append(self._sealed(body, self.state.head))
            apply(self.state, self.events[-1])

    def _sealed(self, body: Body, head: Head) -> Event:
        return seal(body, head, event_id="e", iteration=0, timestamp_us=self.now_us)

    async def step(self) -> Proposal:
        """Ask the mind once and record what it wants."""
        decided = await self.mind.decide(self.state, self.now_us)
        self.add(*decided.actions)
        if decided.end is not None:
            self.add(decided.end)
        return decided

    async def begun(self) -> list[str]:
        """Ask the mind once and name the calls that it began."""
        known = set(self.state.calls)
        await self.step()
        return [call for call in self.state.calls if call not in known]

    def succeed(self, call_id: str, stdout: str = "") -> None:
        self.add(ToolOutput(call_id, ok=True, output={"exit_code": 0, "stdout": stdout, "stderr": ""}))

    def fail(self, call_id: str, code: str = "exit") -> None:
        error = ToolError(code, "it exited with 3")
        self.add(ToolOutput(call_id, ok=False, output={"exit_code": 3, "stdout": "bad", "stderr": ""}, error=error))

    def lose(self, call_id: str) -> None:
        self.add(OutcomeUnknown(call_id, "the worker died"))

    def decide(self, call_id: str, verdict: DecisionKind, value: object = None) -> None:
        self.add(Decision(call_id, verdict, value, by="ann"))
