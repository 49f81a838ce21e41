"""Goals that wait for a decision of a person, as a worker that is gone, or still holds them, has left them."""

from pathlib import Path
from typing import Literal

from perdure.app.home.system import SystemClock, SystemIds, observer
from perdure.kernel.events import Ask, GoalBegun, MindSpec, OutcomeUnknown, ToolCall
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import GoalStore, Worker
from perdure.text.moments import iso

WaitsFor = Literal["unknown", "approval"]

CALL = ToolCall("pay.1", "pay", "exec", {"argv": ["pay"]}, "once")
PLAN = "goal: pay\nsteps:\n  - {id: pay, shell: true, exec: 'echo . >> paid'}\n"
RIVALS: dict[WaitsFor, tuple[str, str]] = {"unknown": ("abort", "retry"), "approval": ("deny", "approve")}


def worker_of(home: Path) -> Worker:
    """The worker that has left the goals: one of this home and boot, which lives for as long as its lease says."""
    return observer(home, "waiting-worker")


async def waiting_goal(
    store: GoalStore, waits_for: WaitsFor, workdir: Path, *, is_held: bool = False, queue: str = "cli"
) -> str:
    """Make a goal whose call `pay.1` waits for a person; return its id."""
    ids = SystemIds()
    spec = MindSpec("plan", plan=PLAN) if waits_for == "unknown" else MindSpec("model")
    deps = JournalDeps(store, SystemClock(), ids, worker_of(workdir), queue)
    journal = Journal.begin(deps, GoalBegun("pay", spec, workdir=str(workdir)), ids.goal_id("pay"))
    journal.record(CALL, is_decision=True)
    if waits_for == "unknown":
        journal.record(OutcomeUnknown("pay.1", "Nobody knows."))
    await journal.commit(release=not is_held)
    return journal.goal_id


async def unanswered_goal(store: GoalStore, workdir: Path, until_us: int, *, queue: str = "cli") -> str:
    """Make a goal whose question `sure.1` waits for an answer until a moment; return its id."""
    ids = SystemIds()
    deps = JournalDeps(store, SystemClock(), ids, worker_of(workdir), queue)
    begun = GoalBegun("publish", MindSpec("model"), workdir=str(workdir))
    journal = Journal.begin(deps, begun, ids.goal_id("publish"))
    journal.record(Ask("sure.1", "sure", "Publish?", ("yes", "no"), iso(until_us)), is_decision=True)
    await journal.commit(release=True)
    return journal.goal_id
