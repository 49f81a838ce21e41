"""One trial: a random flow that is killed, what must be true of it, and its history run again by itself."""

from typing import Any

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.store.transaction import Transaction
from tests.contracts.histories import Stored
from tests.faults.checks import is_step, require_intact, require_promised_effects
from tests.faults.flows import PROGRAMS
from tests.faults.generator import program_of
from tests.faults.household import ProcessWorld
from tests.faults.lives import Hit, Lives
from tests.faults.outside import OUTSIDES, Outside
from tests.faults.programs import Line, expected
from tests.faults.virtual_time import LoopClock, Timeless


async def try_seed(
    stored: Stored, seed: int, *, program: Line | None = None, kills: int = 3, killed_at: Hit | None = None
) -> int:
    """Run the flow of a seed through kills, and check all that is promised; return how often it died.

    It is killed at random, `kills` times at most, or first at one hit of a point.

    Raises: AssertionError, with the seed and the program.
    """
    made, has_model = program_of(seed)
    wanted = made if program is None else program
    PROGRAMS[seed] = wanted
    try:
        return await _try(stored, seed, wanted, has_model=has_model, kills=kills, killed_at=killed_at)
    except BaseException as error:
        error.add_note(f"seed {seed} ({kills} kills), program:\n{wanted!r}")
        raise
    finally:
        del PROGRAMS[seed]
        OUTSIDES.pop(seed, None)


async def _try(stored: Stored, seed: int, program: Line, *, has_model: bool, kills: int, killed_at: Hit | None) -> int:
    store, leases = Timeless(stored.store), Timeless(stored.leases)
    world = ProcessWorld(store, leases, LoopClock(), dead=stored.dead, name=f"w{seed}")  # type: ignore[arg-type]
    if stored.database is not None:
        database = Timeless(stored.database)
        world.finish_writes = lambda: database.write(_nothing)  # the writer takes it after all that came before
    world.ids.count = seed << 32
    outside = OUTSIDES[seed] = Outside(seed=seed)
    lives = Lives(world, seed, outside, kills=kills, killed_at=killed_at)
    state = await lives.live()
    if has_model:
        assert _value(state) == expected(program), "not the result of the model"
    for goal_id in (*lives.household.created, lives.goal_id):
        if (found := await world.state(goal_id)) is not None:
            require_intact(await world.store.load(goal_id), await world.store.find(goal_id))
            require_promised_effects(found, outside)
    await _require_same_again(world, lives, state)
    return lives.deaths


def _nothing(tx: Transaction) -> None:
    """Write nothing."""


async def _require_same_again(world: ProcessWorld, lives: Lives, state: GoalState) -> None:
    """Fork the goal right before its end: the flow runs again on the whole history, and does nothing but end alike."""
    before, all_before = _recorded_effects(lives, state), len(lives.outside.effects())
    fork_id, children_before = f"{lives.goal_id}-again", len(lives.household.created)
    await world.fork(state.head.seq - 1, lives.goal_id, fork_id)
    again = (await world.resume(fork_id)).state
    assert _recorded_effects(lives, state) == before, "a step was run again, though its outcome is recorded"
    for goal_id in lives.household.created[children_before:]:
        child = await world.state(goal_id)
        started_by = child.begun.parent if child is not None else None
        is_known = started_by is not None and started_by.call_id in state.calls
        assert not is_known, "a child was started again, though its end is recorded"
    if len(lives.outside.effects()) == all_before and not _has_new_pure(again, state):
        assert _value(again) == _value(state), "the recorded history leads to another result"
        assert again.calls.keys() == state.calls.keys()


def _has_new_pure(again: GoalState, state: GoalState) -> bool:
    """Return whether a pure step has an outcome now that was cancelled before, which left no trace."""
    new = [again.calls[name].call for name in again.calls.keys() - state.calls.keys()]
    return any(isinstance(call, ToolCall) and call.effect == "pure" for call in new)


def _recorded_effects(lives: Lives, state: GoalState) -> list[str]:
    """Return the effects of all steps but the pure ones, which leave no trace when they are cancelled."""
    intents = {
        call.call.arguments["args"][0]
        for call in state.calls.values()
        if isinstance(call.call, ToolCall) and is_step(call)
    }
    return [place for place, _key in lives.outside.effects() if place in intents]


def _value(state: GoalState) -> Any:
    assert state.termination is not None
    assert state.termination.reason == "done", state.termination
    return state.termination.value
