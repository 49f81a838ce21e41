"""A step's exception reaches the flow as its own class, the first time and at every replay, and nothing is imported."""

import sys
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Conflict, GoalFailed, Invalid, Retry, StepFailed
from perdure.errors import Unavailable
from perdure.kernel.events import ToolError
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.steps.exceptions import rebuilt
from tests.kernel.world import World
from tests.minds.test_flow import ended, run

CALLS: list[str] = []


class Declined(Exception):
    """Keeps what `__init__` was given, and counts how often that was."""

    def __init__(self, reason: str, amount: int) -> None:
        super().__init__(reason, amount)
        CALLS.append("init")
        self.reason = reason


class Outer:
    class Inner(LookupError):
        pass


class Slotted(Exception):
    __slots__ = ("extra",)


class Refusing(Exception):
    def __new__(cls, *args: Any) -> "Refusing":
        if CALLS and CALLS[-1] == "armed":
            raise RuntimeError("not twice")
        return super().__new__(cls, *args)


class Other(Exception):
    def __new__(cls, *args: Any) -> Any:
        return ValueError(*args) if CALLS and CALLS[-1] == "armed" else super().__new__(cls, *args)


class Meta(type):
    def __getattribute__(cls, name: str) -> Any:
        if CALLS and CALLS[-1] == "armed":
            CALLS.append(name)
        return super().__getattribute__(name)

    def __call__(cls, *args: Any) -> Any:
        if CALLS and CALLS[-1] == "armed":
            raise RuntimeError("called")
        return super().__call__(*args)


class Watched(Exception, metaclass=Meta):
    pass


class Quiet(Exception):
    """Lets nothing be set or read, and has no text."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(name)

    def __str__(self) -> str:
        raise ValueError("silent")


Lying: Any = type("Lying", (Exception,), {"__class__": property(lambda _self: int)})
Hiding: Any = type("Hiding", (Exception,), {"args": property(lambda _self: ("hidden",)), "__cause__": None})


def throw(kind: str, *args: Any) -> None:
    raise KINDS[kind](*args)


KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(ValueError, KeyError, OSError, FileNotFoundError, ZeroDivisionError, TimeoutError),
        *(UnicodeEncodeError, Declined, Outer.Inner, Slotted, Refusing, Other, Watched, Quiet, Lying, Hiding),
        *(Invalid, Conflict, Unavailable, SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration, Exception),
        *(BaseException, StopAsyncIteration),
    )
}


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


async def caught(world: World, kind: str, *args: Any) -> list[BaseException]:
    """Return what a flow caught of a step that raised, and what it caught at the replay."""
    seen: list[BaseException] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(throw, kind, *args)
        except Exception as error:  # noqa: BLE001 (any)
            seen.append(error)
        await goal.ask("Go on?")

    await run(world, catches)
    CALLS.append("armed")
    await world.resume()
    return seen


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        ("ValueError", ("no", 1)),
        ("KeyError", ("a",)),
        ("FileNotFoundError", (2, "nothing")),
        ("ZeroDivisionError", ()),
        ("TimeoutError", ("its own",)),
        ("UnicodeEncodeError", ("ascii", "é", 0, 1, "no")),
        ("Declined", ("too poor", 5)),
        ("Inner", ("in", {"a": [1, None, 2.5]})),
        ("Slotted", ("s",)),
        ("Watched", ("w",)),
        ("Exception", ("plain",)),
    ],
)
async def test_the_class_and_the_arguments_come_back(world: World, kind: str, args: tuple[Any, ...]) -> None:
    seen = await caught(world, kind, *args)
    assert [type(error) for error in seen] == [KINDS[kind]] * 2
    for error in seen:
        assert error.args == args
        assert isinstance(error.__cause__, StepFailed)
        assert (error.__cause__.step, error.__cause__.error.args) == ("/throw#0", list(args))
    assert [call for call in CALLS if call not in ("init", "armed", "__new__")] == []


async def test_a_builtin_is_whole(world: World) -> None:
    whole, *_ = await caught(world, "UnicodeEncodeError", "ascii", "é", 0, 1, "no")
    assert str(whole) == "'ascii' codec can't encode character '\\xe9' in position 0: no"


async def test_init_is_run_by_the_step_only(world: World) -> None:
    first, second = await caught(world, "Declined", "too poor", 5)
    assert CALLS.count("init") == 1
    assert [getattr(error, "reason", None) for error in (first, second)] == ["too poor", "too poor"]


class Rejected(Exception):
    """Is given its attributes by name only, and one of them is not JSON."""

    def __init__(self, *, code: str, details: dict[str, Any], response: object = None) -> None:
        super().__init__(f"rejected: {code}")
        self.code = code
        self.details = details
        self.response = response


class Guarded(Exception):
    """Does not let its attributes be set."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        object.__setattr__(self, "code", code)

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(name)


async def test_attributes_that_are_json_come_back_and_others_are_missing_the_first_time_too(world: World) -> None:
    def reject() -> None:
        raise Rejected(code="funds", details={"tries": [1, None]}, response=object())

    def refuse() -> None:
        raise Guarded("closed")

    seen: list[Any] = []

    async def catches(goal: Goal) -> None:
        for fn in (reject, refuse):
            try:
                await goal.step(fn)
            except (Rejected, Guarded) as error:
                seen.append({name: value for name, value in vars(error).items() if not name.startswith("__")})
                if isinstance(error, Rejected):
                    error.details["tries"].append("changed by the flow")
        await goal.ask("Go on?")

    await run(world, catches)
    await world.resume()
    assert seen[:2] == [{"code": "funds", "details": {"tries": [1, None, "changed by the flow"]}}, {"code": "closed"}]
    assert seen[2:] == seen[:2]


async def test_notes_come_back(world: World) -> None:
    def noted() -> None:
        error = ValueError("no")
        error.add_note("of the step")
        raise error

    seen: list[Any] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(noted)
        except ValueError as error:
            seen.append(error.__notes__)
        await goal.ask("Go on?")

    await run(world, catches)
    await world.resume()
    assert seen == [["of the step"]] * 2


async def test_the_file_of_an_os_error_comes_back(world: World) -> None:
    def move() -> None:
        raise PermissionError(1, "not permitted", "a.txt", None, "b.txt")

    seen: list[Any] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(move)
        except PermissionError as error:
            seen.append((error.args, error.filename, error.filename2))
        await goal.ask("Go on?")

    await run(world, catches)
    await world.resume()
    assert seen == [((1, "not permitted"), "a.txt", "b.txt")] * 2


@pytest.mark.parametrize("kind", ["Invalid", "Conflict", "Unavailable"])
async def test_an_error_of_ours_has_its_detail(world: World, kind: str) -> None:
    for error in await caught(world, kind, "what is wrong"):
        assert isinstance(error, KINDS[kind])
        assert getattr(error, "detail", "") == "what is wrong"


@pytest.mark.parametrize(
    ("kind", "args"),
    [
        *(("SystemExit", (3,)), ("KeyboardInterrupt", ()), ("GeneratorExit", ()), ("StopIteration", (1,))),
        *(("BaseException", ("b",)), ("StopAsyncIteration", ())),
        *(("Refusing", ("r",)), ("Other", ("o",))),
    ],
)
async def test_what_cannot_come_back_is_a_step_failure(world: World, kind: str, args: tuple[Any, ...]) -> None:
    CALLS.clear()
    seen = await caught(world, kind, *args)
    assert type(seen[-1]) is StepFailed


@pytest.mark.parametrize("kind", ["Quiet", "Lying", "Hiding", "Slotted", "Watched", "Refusing", "Other"])
async def test_a_hostile_class_ends_its_goal_with_the_step_and_a_retry_calls_it_again(world: World, kind: str) -> None:
    async def fails(goal: Goal) -> None:
        await goal.step(throw, kind, "x")

    for ran in (await run(world, fails), await world.retry()):
        end = ended(ran)
        assert (end.reason, end.steps, end.error and end.error.args) == ("failed", ("/throw#0",), ["x"])


async def test_an_exception_whose_module_is_not_loaded_is_a_step_failure_and_nothing_is_imported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("perdure_test_errors")
    exec("class Gone(Exception): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "perdure_test_errors", module)
    monkeypatch.setitem(KINDS, "Gone", module.__dict__["Gone"])
    seen: list[type] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(throw, "Gone", "x")
        except Exception as error:  # noqa: BLE001 (any)
            seen.append(type(error))
        await goal.ask("Go on?")

    await run(world, catches)
    monkeypatch.delitem(sys.modules, "perdure_test_errors")
    await world.resume()
    assert seen == [KINDS["Gone"], StepFailed]
    assert "perdure_test_errors" not in sys.modules


@pytest.mark.parametrize(
    "path",
    [
        *("os.path:join", "builtins:print", "builtins:int", "nowhere:Error", "?:X", "", ":", "builtins:", "os:"),
        *(
            "perdure:Invalid",
            "sys:modules",
            "builtins:ValueError.args",
            "builtins:SystemExit",
            "asyncio:CancelledError",
        ),
        *("asyncio.exceptions:CancelledError", "perdure.errors:StepFailed", "perdure.errors:GoalFailed"),
        *("perdure.minds.flow.steps.step_thread:_Unusual", "builtins:ExceptionGroup", "builtins:StopIteration"),
        *("xml.dom:NoSuch", "antigravity:Error", "tests.minds.test_step_errors:Outer"),
    ],
)
def test_a_path_that_is_not_an_exception_class_is_nothing(path: str) -> None:
    assert rebuilt(ToolError("c", "m", type=path, args=["x"]), StepFailed("c", "m")) is None
    assert "antigravity" not in sys.modules


@given(st.text(max_size=40), st.none() | st.lists(st.none() | st.integers() | st.text(max_size=5), max_size=3))
def test_any_recorded_type_is_an_exception_or_nothing(path: str, args: Any) -> None:
    made = rebuilt(ToolError("c", "m", type=path, args=args), StepFailed("c", "m"))
    assert made is None or isinstance(made, Exception)


async def test_arguments_that_were_not_recorded_make_a_step_failure(world: World) -> None:
    def odd() -> None:
        raise ValueError(object())

    seen: list[Exception] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(odd)
        except Exception as error:  # noqa: BLE001 (any)
            seen.append(error)

    await run(world, catches)
    assert [type(error) for error in seen] == [StepFailed]
    [note] = seen[0].__notes__
    assert note.startswith("It is raised as StepFailed, because the arguments of ValueError are not plain JSON")


async def test_a_goal_ends_by_the_error_of_its_step_and_by_its_own_otherwise(world: World) -> None:
    async def through(goal: Goal) -> None:
        await goal.step(throw, "ValueError", "of the step")

    end = ended(await run(world, through))
    assert (end.reason, end.error and end.error.message.partition(" (")[0]) == ("failed", "of the step")
    assert end.error is not None
    assert str(end.error.traceback).count("of the step") == 1


async def test_an_error_raised_because_of_a_step_is_the_flows_own_with_both_tracebacks_once(world: World) -> None:
    async def wraps(goal: Goal) -> None:
        try:
            await goal.step(throw, "ValueError", "of the step")
        except ValueError as error:
            raise RuntimeError("of the flow") from error

    end = ended(await run(world, wraps))
    assert (end.reason, end.steps) == ("fatal_error", ("/throw#0",))
    assert end.error is not None
    assert str(end.error.traceback).count("ValueError: of the step") == 2  # in the step, and where the flow got it
    assert "StepFailed" not in str(end.error.traceback)


async def test_a_goal_that_failed_inside_a_step_is_a_step_failure_with_its_text(world: World) -> None:
    def inner() -> None:
        raise GoalFailed("goal-b", "failed", "it is broken")

    async def outer(goal: Goal) -> str:
        try:
            await goal.step(inner)
        except StepFailed as error:
            return error.code
        return ""

    assert ended(await run(world, outer)).value == "goal_failed"


async def test_a_gather_of_a_step_and_the_flows_own_error_ends_by_the_first(world: World) -> None:
    async def own() -> None:
        raise RuntimeError("of the flow")

    async def both(goal: Goal) -> None:
        await goal.gather(own(), goal.step(throw, "ValueError", "of the step"))

    end = ended(await run(world, both))
    assert (end.reason, end.steps) == ("fatal_error", ("g1.1/throw#0",))


async def test_a_retried_step_raises_its_last_error(world: World) -> None:
    async def fails(goal: Goal) -> str:
        try:
            await goal.options(retry=Retry(2)).step(throw, "KeyError", "a")
        except KeyError as error:
            return str(error)
        return ""

    assert ended(await run(world, fails)).value == "'a'"
