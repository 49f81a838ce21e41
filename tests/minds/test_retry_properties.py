"""Random plans and flows whose steps fail, retried until they are done: each effect as often as its class promises."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.kernel.events import Effect, MindSpec, ToolError, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.tool import CallContext
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.crash.size import torture_size
from tests.kernel.world import World
from tests.registered_flows import path_of

FAILURES = ("no", "maybe")
"""A failure without an effect; and one that has had its effect although it failed, which a timeout looks like."""


@dataclass(frozen=True)
class Step:
    """A step, and how its tries end before one succeeds."""

    effect: Effect
    retry: int
    fails: tuple[str, ...]


@dataclass
class Outside:
    """What steps did to the world, and the failures that are left."""

    effects: Counter[str] = field(default_factory=Counter)
    fails: dict[str, list[str]] = field(default_factory=dict)

    def next_end(self, name: str) -> str | None:
        """Act, and return how the try fails, if it does."""
        left = self.fails[name]
        failure = left.pop(0) if left else None
        self.effects[name] += failure != "no"
        return failure


steps = st.builds(
    Step,
    st.sampled_from(["pure", "idempotent", "once"]),
    st.integers(0, 1),
    st.lists(st.sampled_from(FAILURES), max_size=4).map(tuple),
)
lines = st.lists(st.lists(steps, min_size=1, max_size=3), min_size=1, max_size=3)
"""Lines of steps: the branches of a gather, or chains of a plan."""


def new_world() -> World:
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    return World(store, store, dead=dead)


async def drive(world: World, spec: MindSpec, outside: Outside) -> GoalState:
    """Retry a goal until it is done; a person who is asked looks whether it happened."""
    await world.start(spec)
    for _ in range(60):
        state = fold(await world.store.load("goal-a"))
        if state.status == "done":
            return state
        for call_id, call in state.open_calls.items():
            assert call.unknown is not None
            verdict = "skip" if outside.effects[name_of(call.call.step)] else "retry"
            payload = {"call_id": call_id, "decision": verdict, "value": "skipped"}
            await world.store.post("goal-a", "decision", payload, key=f"{call_id} {state.head.seq}")
        await (world.retry() if state.status == "failed" else world.resume())
    raise AssertionError("the goal never came to its end")


def name_of(step: str) -> str:
    return step.rpartition("/")[2].partition("#")[0]


def named(program: list[list[Step]]) -> dict[str, Step]:
    return {f"s{i}-{j}": step for i, line in enumerate(program) for j, step in enumerate(line)}


def check(program: list[list[Step]], state: GoalState, outside: Outside) -> None:
    """Each step has had its effect; a once step exactly once, and each has as many calls as were promised."""
    for name, step in named(program).items():
        assert outside.effects[name] >= 1, name
        if step.effect == "once":
            assert outside.effects[name] == 1, name
    for number, call in enumerate(state.calls.values()):
        assert call.seq > 1, number
    attempts = Counter(name_of(call.call.step) for call in state.calls.values())
    for name, step in named(program).items():
        assert attempts[name] <= len(step.fails) + 1


def made(program: list[list[Step]]) -> Outside:
    return Outside(fails={name: [*step.fails] for name, step in named(program).items()})


@given(lines)
@settings(max_examples=torture_size(small=60), deadline=None)
def test_a_flow_that_is_retried_until_it_is_done_has_each_effect_as_promised(program: list[list[Step]]) -> None:
    outside = made(program)

    async def act(name: str) -> Any:
        match outside.next_end(name):
            case "no":
                raise ValueError(name)
            case "maybe":
                return object()  # done, but its result cannot be kept
        return name

    async def line(goal: Goal, number: int, parts: list[Step]) -> None:
        for place, step in enumerate(parts):
            name = f"s{number}-{place}"
            await goal.options(name=name, effect=step.effect, retry=step.retry + 1).step(act, name)

    async def whole(goal: Goal) -> None:
        await goal.gather(*(line(goal, number, parts) for number, parts in enumerate(program)))

    state = asyncio.run(drive(new_world(), MindSpec("flow", at=path_of(whole)), outside))
    check(program, state, outside)


@given(lines)
@settings(max_examples=torture_size(small=60), deadline=None)
def test_a_plan_that_is_retried_until_it_is_done_has_each_effect_as_promised(program: list[list[Step]]) -> None:
    outside, world = made(program), new_world()

    async def run(context: CallContext) -> ToolOutput:
        failure = outside.next_end(context.call.step)
        error = {"no": ToolError("exit", "no"), "maybe": ToolError("timeout", "too long")}.get(failure or "")
        return ToolOutput(context.call.call_id, ok=failure is None, output=None, error=error)

    text = "goal: g\nsteps:\n"
    for number, parts in enumerate(program):
        for place, step in enumerate(parts):
            needs = f", needs: [s{number}-{place - 1}]" if place else ""
            # a plan repeats a timeout by its own policy, so only a retry of the goal has to ask
            retry = 0 if step.effect == "once" else step.retry
            text += f"  - {{id: s{number}-{place}, exec: [x], effect: {step.effect}"
            text += f", retry: {{attempts: {retry + 1}}}{needs}}}\n"
    world.tool.run = run  # type: ignore[method-assign]
    check(program, asyncio.run(drive(world, MindSpec("plan", plan=text), outside)), outside)
