"""Goals whose workers died, made by hand: the rows and events that such workers leave."""

from pathlib import Path

from perdure.app.system import SystemClock, SystemIds, observer
from perdure.kernel.events import Body, GoalBegun, MindSpec, ToolCall
from perdure.kernel.journal import Desk, Journal
from perdure.kernel.ports import Leases, StateStore, Worker

CALL = ToolCall("work.1", "work", "exec", {"argv": ["true"]}, "idempotent")
PLAN = "goal: work\nsteps: [{id: work, exec: 'true', effect: idempotent}]\n"
WHY = "On hold: its worker died 3 times in a row while it ran; last in step work."


def dead_worker(home: Path, number: int = 0) -> Worker:
    """A worker of this home and boot that has no lease: it is dead."""
    return observer(home, f"dead-worker-{number}")


async def killed_goal(
    store: StateStore, leases: Leases, home: Path, *bodies: Body, deaths: int, queue: str = "server", plan: str = PLAN
) -> str:
    """Make a goal that the next claim finds with as many deaths, its only step begun; return its id."""
    ids = SystemIds()
    desk = Desk(store, SystemClock(), ids, dead_worker(home), queue)
    journal = Journal.begin(desk, GoalBegun("work", MindSpec("plan", plan=plan), workdir=str(home)), ids.goal_id("w"))
    journal.record(*(bodies or (CALL,)), is_decision=True)
    await journal.commit()
    for number in range(1, deaths):
        await leases.claim(journal.goal_id, dead_worker(home, number))
    return journal.goal_id
