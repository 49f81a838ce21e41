"""Goals whose workers died, made by hand: the rows and events that such workers leave."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from perdure import Perdure
from perdure.app.home.system import SystemClock, SystemIds, is_dead, observer
from perdure.kernel.events import Body, GoalBegun, MindSpec, ToolCall
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import Worker

CALL = ToolCall("work.1", "work", "exec", {"argv": ["true"]}, "idempotent")
PLAN = "goal: work\nsteps: [{id: work, exec: 'true', effect: idempotent}]\n"
WHY = "On hold: its worker died 3 times in a row while it ran; last in step work."


def dead_worker(home: Path, number: int = 0) -> Worker:
    """A worker of this home and boot that has no lease: it is dead."""
    return observer(home, f"dead-worker-{number}")


async def left_by_dead_worker(
    p: Perdure, *bodies: Body, deaths: int = 3, queue: str = "server", plan: str = PLAN, workdir: Path | None = None
) -> str:
    """Make a goal that the next claim finds with as many deaths, its only step begun; return its id.

    Without deaths, its worker has released it.
    """
    home, store, ids = p.settings.home, p.database.state_store(), SystemIds()
    deps = JournalDeps(store, SystemClock(), ids, dead_worker(home), queue)
    begun = GoalBegun("work", MindSpec("plan", plan=plan), workdir=str(workdir or home))
    journal = Journal.begin(deps, begun, ids.goal_id("work"))
    journal.record(*(bodies or (CALL,)), is_decision=True)
    await journal.commit(release=deaths == 0)
    await claim_by_dead_workers(p, journal.goal_id, range(1, deaths))
    return journal.goal_id


async def claim_by_dead_workers(p: Perdure, goal_id: str, numbers: Iterable[int]) -> None:
    """Let workers claim a goal and die, one after the other."""
    home = p.settings.home
    leases = p.database.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, home))
    for number in numbers:
        await leases.claim(goal_id, dead_worker(home, number))
