"""What is recorded of an exception: the user's frames, of bounded size, whatever the class of the exception does."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_serializer

from perdure.errors import Invalid, StepFailed
from perdure.kernel.events import Head, Termination, ToolError, ToolOutput, encode, seal
from perdure.kernel.history.compare import compare
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.steps.tracebacks import LONGEST_BYTES, frames_of, traceback_of
from perdure.minds.flow.steps.user_errors import failure_of
from perdure.minds.flow.values.values import arguments_to_json
from perdure.minds.plan.mind import PlanMind
from perdure.minds.plan.plan_file import parse_plan
from tests.kernel.world import World
from tests.minds.history import History
from tests.minds.test_flow import bodies, ended, run


def raised(fn: Callable[[], object]) -> BaseException:
    try:
        fn()
    except BaseException as error:  # noqa: BLE001 (also one that is not an Exception)
        return error
    raise AssertionError("it raised nothing")


def run_untraced(code: CodeType) -> None:
    """Run code that the tracer of `make coverage` cannot: it reads the name of the file, which may have a NUL."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        exec(code)
    finally:
        sys.settrace(tracer)


def fails() -> None:
    secret = "hunter2"
    raise ValueError("no luck", len(secret))


def fails_in_a_library() -> None:
    json.loads("{")


def test_a_failure_has_its_class_its_arguments_and_the_line_of_the_user() -> None:
    failure = failure_of(raised(fails), "here")
    assert (failure.code, failure.type, failure.args) == ("ValueError", "builtins:ValueError", ["no luck", 7])
    lines = str(failure.traceback).splitlines()
    assert lines[-3].endswith("in fails")
    assert lines[-2] == '    raise ValueError("no luck", len(secret))'
    assert lines[-1] == "ValueError: ('no luck', 7)"
    assert "hunter2" not in str(failure.traceback)


def test_frames_of_libraries_are_left_out() -> None:
    error = raised(fails_in_a_library)
    assert any("json" in frame.file for frame in frames_of(error))
    assert "decoder.py" not in traceback_of(error)
    assert "decoder.py" in traceback_of(error, is_whole=True)


def test_frames_of_libraries_are_kept_where_there_are_no_others() -> None:
    error = raised(fails_in_a_library)
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is not None
    assert "decoder.py" in traceback_of(error.with_traceback(error.__traceback__.tb_next.tb_next))


class _Unknown:
    pass


class _Odd(BaseModel):
    number: int

    @field_serializer("number")
    def _write(self, number: int) -> int:
        return number // 0


def _files(traceback: str) -> list[str]:
    return [Path(found).name for found in re.findall(r'File "(.*?)", line', traceback)]


def _returns(value: object) -> Any:
    return value


@pytest.mark.parametrize("value", [_Unknown(), [_Unknown()], {"a": (_Unknown(),)}, _Unknown])
async def test_a_result_that_cannot_be_stored_has_no_frames_of_libraries(world: World, value: object) -> None:
    async def odd(_goal: Goal) -> Any:
        return value

    end = ended(await run(world, odd))
    [line] = str(end.error and end.error.traceback).splitlines()
    assert re.match(r"perdure\.errors\.Invalid: The result of .*\.odd cannot be stored as JSON: a ", line)


async def test_a_serializer_of_the_user_that_raises_is_in_the_traceback(world: World) -> None:
    async def odd(_goal: Goal) -> Any:
        return _Odd(number=1)

    end = ended(await run(world, odd))
    said = str(end.error and end.error.traceback)
    assert _files(said) == ["test_tracebacks.py"]
    assert "return number // 0" in said
    assert re.match(r"perdure\.errors\.Invalid: The result of .*\.odd cannot be stored", said.splitlines()[-1])


async def test_an_argument_that_cannot_be_stored_is_refused_without_the_frames_of_pydantic(world: World) -> None:
    async def odd(goal: Goal) -> Any:
        return await goal.step(_returns, _Unknown())

    end = ended(await run(world, odd))
    assert _files(str(end.error and end.error.traceback)) == ["test_tracebacks.py"]
    with pytest.raises(Invalid) as caught:
        arguments_to_json("returns", _returns, [_Unknown()], {})
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


def test_causes_and_contexts_come_first() -> None:
    def chained() -> None:
        try:
            fails()
        except ValueError as error:
            raise KeyError("b") from error

    said = traceback_of(raised(chained))
    assert said.index("ValueError: ") < said.index("direct cause") < said.index("KeyError: 'b'")


def test_the_members_of_a_group_are_shown() -> None:
    group = BaseExceptionGroup("both", [raised(fails), KeyError("b")])
    said = traceback_of(group)
    assert "1 of 2" in said
    assert "ValueError: " in said
    assert "KeyError: 'b'" in said


def test_a_step_that_the_flow_failed_of_is_in_the_traceback_of_the_flow() -> None:
    failed = StepFailed("ValueError", "no luck")
    failed.error = failure_of(raised(fails), "here")

    def wraps() -> None:
        raise RuntimeError("gave up") from failed

    said = traceback_of(raised(wraps))
    assert said.index("in fails") < said.index("in the flow") < said.index("RuntimeError: gave up")


def test_a_chain_of_ten_thousand_exceptions_is_bounded() -> None:
    error = last = ValueError(0)
    for number in range(10_000):
        last.__context__ = ValueError(number)
        last = last.__context__
    assert len(traceback_of(error).encode()) < 2000


def test_a_traceback_that_is_too_long_loses_its_middle() -> None:
    error = first = ValueError("the last " + "é" * 5000)
    for number in range(8):
        first.__context__ = ValueError(f"number {number} " + "é" * 5000)
        first = first.__context__
    said = traceback_of(error)
    assert LONGEST_BYTES - 10 < len(said.encode()) <= LONGEST_BYTES
    assert said.index("number 7") < said.index("\n  [… left out …]\n") < said.index("the last")


def test_a_chain_that_leads_back_to_itself_ends() -> None:
    one, two = ValueError(1), ValueError(2)
    one.__cause__, two.__cause__ = two, one
    assert traceback_of(one).count("ValueError") == 2


def test_a_deep_recursion_is_written_once() -> None:
    def deeper(left: int) -> float:
        return deeper(left - 1) if left else 1 / 0

    assert "[Previous line repeated 500 more times]" in traceback_of(raised(lambda: deeper(500)))


@pytest.mark.parametrize("name", ["gone.py", "/dev/zero", "\0", "binary.py", "<string>", "caf\udce9.py"])
def test_a_source_that_cannot_be_read_costs_only_the_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary.py").write_bytes(os.urandom(1000) + b"\xff\xfe")
    code = compile("1 / 0", "x.py", "exec").replace(co_filename=name)
    said = traceback_of(raised(lambda: run_untraced(code)))
    assert said.endswith("ZeroDivisionError: division by zero\n")
    said.encode()


class Meta(type):
    def __getattribute__(self, name: str) -> Any:  # noqa: N804 (vulture knows a special method by `self`)
        raise RuntimeError(name)


class Text(str):
    __slots__ = ()

    def __getitem__(self, _: Any) -> str:
        raise RuntimeError

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise RuntimeError


def hostile(says: Callable[[], str]) -> type[Exception]:
    class Hostile(Exception, metaclass=Meta):
        __module__ = 5  # type: ignore[assignment]
        args = __class__ = __cause__ = __context__ = __dict__ = __traceback__ = property(lambda _: 1 / 0)

        def __str__(self) -> str:
            return says()

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    return Hostile


def _exits() -> str:
    raise SystemExit


_ANY_TEXT = st.text(st.characters(), max_size=50)
_ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _ANY_TEXT | st.binary() | st.just(object()),
    lambda inner: st.lists(inner) | st.dictionaries(_ANY_TEXT | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@pytest.mark.parametrize("says", [_exits, lambda: 5, lambda: Text("x"), lambda: "\udc00" * 10**6, lambda: "\0\n\x1b"])
def test_no_class_can_keep_its_failure_from_being_recorded(says: Callable[[], Any]) -> None:
    made = hostile(says)
    outer = KeyError("outer")
    outer.__context__ = inner = made("a")
    for error in (inner, outer):
        failure = failure_of(error, "here")
        encode(ToolOutput("a.1", ok=False, error=failure))
        assert len(str(failure.traceback).encode()) <= LONGEST_BYTES
    assert failure_of(inner, "here").type.endswith("Hostile")  # type: ignore[union-attr]


@given(st.lists(_ANY_JSON, max_size=4), _ANY_TEXT, st.integers(0, 20_000))
def test_any_arguments_are_recorded_unchanged_or_not_at_all(args: list[Any], text: str, times: int) -> None:
    failure = failure_of(raised(lambda: _raise(ValueError(*args, text * times))), "here")
    _, payload = encode(ToolOutput("a.1", ok=False, error=failure))
    assert orjson.loads(payload)["error"].get("args") == failure.args
    assert failure.args is None or failure.args == [*args, text * times]
    assert len(str(failure.traceback).encode()) <= LONGEST_BYTES


@given(st.dictionaries(_ANY_TEXT | st.integers(), _ANY_JSON, max_size=6), st.integers(0, 20_000))
def test_any_attributes_are_recorded_unchanged_or_left_out(given_: dict[Any, Any], times: int) -> None:
    error = ValueError("a")
    vars(error).update(given_, much="m" * times)
    failure = failure_of(raised(lambda: _raise(error)), "here")
    _, payload = encode(ToolOutput("a.1", ok=False, error=failure))
    assert orjson.loads(payload)["error"].get("attributes") == failure.attributes
    kept = failure.attributes or {}
    assert all(vars(error)[name] == value for name, value in kept.items())
    assert len(orjson.dumps(kept)) <= LONGEST_BYTES


def test_attributes_are_kept_in_their_order_while_they_fit() -> None:
    error = ValueError("a")
    vars(error).update(code="first", body="b" * 17_000, last=[1], itself=error)
    assert failure_of(error, "here").attributes == {"code": "first", "last": [1]}


def _raise(error: BaseException) -> None:
    raise error


async def test_a_failed_step_and_the_end_that_it_leads_to_have_its_traceback(world: World) -> None:
    async def broken(goal: Goal) -> None:
        await goal.step(fails)

    end = ended(await run(world, broken))
    [outcome] = [body for body in await bodies(world) if isinstance(body, ToolOutput)]
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.args) == ("builtins:ValueError", ["no luck", 7])
    assert "in fails\n" in str(outcome.error.traceback)
    assert (end.reason, end.error) == ("failed", outcome.error)


async def test_a_step_that_is_done_records_no_error(world: World) -> None:
    async def fine(goal: Goal) -> None:
        await goal.step(len, "a")

    await run(world, fine)
    assert [body.error for body in await bodies(world) if isinstance(body, ToolOutput | Termination)] == [None, None]


def test_histories_that_differ_in_a_traceback_alone_are_the_same() -> None:
    def ends(traceback: str, message: str = "m") -> list[Any]:
        error = ToolError("c", message, "t", [traceback], traceback)
        return [seal(Termination("failed", error=error), Head("g"), event_id="e", iteration=0, timestamp_us=0)]

    assert compare(ends("a"), ends("b")).common == 1
    assert compare(ends("a"), ends("a", "n")).common == 0


async def test_a_plan_ends_with_the_error_of_the_step_that_failed() -> None:
    history = History(PlanMind(parse_plan("goal: g\nsteps: [{id: a, exec: x}]", "p")))
    await history.step()
    history.fail("a.1", "timeout")
    await history.step()
    assert history.state.termination is not None
    assert history.state.termination.error == ToolError("timeout", "it exited with 3")
