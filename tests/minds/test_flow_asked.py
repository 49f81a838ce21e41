"""What a flow asks for that makes no sense is refused by one sentence, and nothing of it is recorded."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from perdure import Invalid
from perdure.kernel.events import GoalBegun, Termination
from perdure.minds.flow.flow import Flow, flow
from perdure.minds.flow.registry import find_flow
from perdure.minds.flow.steps.tracebacks import shown
from tests.kernel.world import World
from tests.minds.test_flow import bodies, double, ended, run

BAD: dict[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
    "one text as options": (lambda goal: goal.ask("?", "yes"), "a list of strings"),
    "no options": (lambda goal: goal.ask("?", []), "a list of strings"),
    "options that are numbers": (lambda goal: goal.ask("?", [1]), "a list of strings"),
    "a question that is a number": (lambda goal: goal.ask(5), "A question"),
    "an empty signal": (lambda goal: goal.signal(""), "name of a signal"),
    "a signal that is a number": (lambda goal: goal.signal(3), "name of a signal"),
    "a timeout below 0": (lambda goal: goal.options(timeout_s=-1).step(double, 1), "timeout_s"),
    "a timeout that is no number": (lambda goal: goal.options(timeout_s=float("nan")).step(double, 1), "timeout_s"),
    "a timeout that is a text": (lambda goal: goal.options(timeout_s="3").step(double, 1), "timeout_s"),
    "a step that cannot be called": (lambda goal: goal.step(5), "A step is a function, found 5"),
    "a step that was called": (lambda goal: goal.step(_waits()), "apart"),
    "an empty name": (lambda goal: goal.options(name="").step(double, 1), "name of a step"),
    "a name that is a number": (lambda goal: goal.options(name=5).step(double, 1), "name of a step"),
    "a check that cannot be called": (lambda goal: goal.options(check=True).step(double, 1), "check"),
    "a check that takes nothing": (
        lambda goal: goal.options(check=lambda: True).step(double, 1),
        "The check <lambda> of double cannot be called with the arguments of the step: too many positional arguments."
        " A check takes the arguments of its step: def lambda(number: int) -> bool.",
    ),
    "a check that takes more": (
        lambda goal: goal.options(check=lambda number, more: number == more).step(double, 1),
        "missing a required argument: 'more'",
    ),
    "a check without a keyword": (
        lambda goal: goal.options(check=lambda amount: amount > 0).step(double, number=1),
        "def lambda(number: int) -> bool",
    ),
    "a check that yields": (lambda goal: goal.options(check=_answers).step(double, 1), "has a `yield`"),
    "an async check that takes nothing": (
        lambda goal: goal.options(check=_waits).step(double, 1),
        "The check _waits of double cannot be called",
    ),
    "a retry on an exception that was raised": (
        lambda goal: goal.options(retry={"attempts": 2, "retry_on": ValueError("late")}).step(double, 1),
        "Invalid retry: retry_on must be exception classes or error codes, got ValueError('late')",
    ),
    "a retry on a function": (
        lambda goal: goal.options(retry={"attempts": 2, "give_up_on": [ValueError, double]}).step(double, 1),
        "Invalid retry: give_up_on must be exception classes or error codes, got <function double",
    ),
    "an unknown effect": (lambda goal: goal.options(effect="twice").step(double, 1), "An effect"),
    "a sleep that is a text": (lambda goal: goal.sleep("3"), "A sleep"),
    "a sleep that is no number": (lambda goal: goal.sleep(float("nan")), "A sleep"),
    "a retry that is a text": (lambda goal: goal.options(retry="3").step(double, 1), "Invalid retry: "),
    "a retry that is true": (lambda goal: goal.options(retry=True).step(double, 1), "Invalid retry: "),
    "a retry below 1": (lambda goal: goal.options(retry=0).step(double, 1), "Invalid retry: "),
    "a retry with an unknown key": (
        lambda goal: goal.options(retry={"attempts": 1, "pause": 2}).step(double, 1),
        "Invalid retry: ",
    ),
    "a retry without a number": (lambda goal: goal.options(retry={}).step(double, 1), "Invalid retry: "),
    "a list side by side": (lambda goal: goal.gather([1]), "one by one"),
    "a number side by side": (lambda goal: goal.gather(goal.step(double, 1), 5), "one by one; found 5"),
}


def _answers(number: int) -> Any:
    yield bool(number)


async def _waits() -> None:
    """Do nothing, later."""


@pytest.mark.parametrize("what", BAD)
async def test_what_is_invalid_is_invalid_and_not_recorded(world: World, what: str) -> None:
    call, said = BAD[what]

    async def asks(goal: Any) -> str:
        try:
            await call(goal)
        except Invalid as error:
            return error.detail
        return "nothing was said"

    assert said in ended(await run(world, asks)).value
    assert [type(body) for body in await bodies(world)] == [GoalBegun, Termination]


def plain(goal: Any) -> None:
    """Lack the async."""


async def gives(goal: Any) -> AsyncIterator[int]:  # noqa: ARG001 (it is a flow's)
    yield 1


def yields(goal: Any) -> Any:  # noqa: ARG001 (it is a flow's)
    yield 1


async def lonely() -> None:
    """Lack the goal."""


async def named(*, goal: Any) -> None:
    """Lack a goal that comes first."""


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (plain, "is not async: write `async def`"),
        (gives, "has a `yield`"),
        (yields, "has a `yield`"),
        (lonely, "takes none: write `async def lonely(goal, …)`"),
        (named, "takes none"),
    ],
)
def test_a_function_that_cannot_be_a_flow_is_reported_with_its_place_and_problem(fn: Any, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        flow(fn)
    place = f"{fn.__name__} ({shown(__file__)}, line {inspect.getsourcelines(fn)[1]})"
    assert f"{place} {said}" in refused.value.detail


@pytest.mark.parametrize("thing", [None, 5, "text", int, Any])
def test_what_is_no_function_cannot_be_a_flow(thing: Any) -> None:
    with pytest.raises(Invalid, match="A flow is an async function"):
        flow(thing)


def test_the_decorator_may_be_called() -> None:
    async def ok(goal: Any) -> None:
        """Be a flow."""

    assert isinstance(flow()(ok), Flow)


@pytest.mark.parametrize(
    ("path", "meant"),
    [("fl.py:ok", "fl:ok"), ("./fl.py:ok", "fl:ok"), ("sub/fl.py:ok", "sub.fl:ok"), (".fl:ok", "fl:ok")],
)
def test_the_path_of_a_file_is_not_a_module_and_what_was_meant_is_said(path: str, meant: str) -> None:
    with pytest.raises(Invalid, match=f"did you mean {meant}[?]"):
        find_flow(path)
