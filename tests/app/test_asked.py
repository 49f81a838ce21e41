"""What makes no sense is refused by one sentence, whatever it is, and nothing is recorded."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from perdure import Goal, Invalid, Limits, Perdure, Unavailable, flow
from perdure.app.goals.goals import Goals


@flow
async def ok(goal: Goal, number: int = 0) -> int:  # noqa: ARG001 (a flow has one)
    return number


@flow
async def keyed(goal: Goal, key: str) -> str:  # noqa: ARG001 (a flow has one)
    return key


@flow
async def several(goal: Goal, *values: object) -> None:
    """Take all."""


async def plain(goal: Goal) -> None:
    """Lack the decorator."""


@pytest.fixture
async def goals(tmp_path: Path, migrated_sqlite: str) -> AsyncIterator[Goals]:
    (tmp_path / "perdure.db").write_bytes(Path(migrated_sqlite).read_bytes())
    async with Perdure.open(tmp_path / "home", database_url=str(tmp_path / "perdure.db")) as p:
        yield p.goals


GOAL = Goal.__new__(Goal)
NAN = float("nan")
BAD: dict[str, tuple[Callable[[Any], Awaitable[Any]], str]] = {
    "a function without @flow": (lambda goals: goals.run(plain), "test_asked.py, line .* decorate it with @flow"),
    "a builtin": (lambda goals: goals.run(print), "print is not a flow: decorate it with @flow"),
    "a set for a parameter": (lambda goals: goals.run(ok, {1}), "number does not fit"),
    "an object for a parameter": (lambda goals: goals.run(ok, object()), "The argument number of ok cannot be stored"),
    "a text for a number": (lambda goals: goals.run(ok, "7"), "number does not fit. Input should be a valid integer"),
    "a set by name": (lambda goals: goals.run(keyed, key={1}), "key does not fit"),
    "an object among others": (
        lambda goals: goals.run(several, 1, object()),
        "The argument number 2 of several cannot be stored",
    ),
    "a flow that was called": (lambda goals: goals.run(ok(GOAL, 1)), "flow and its arguments separately"),
    "a number": (lambda goals: goals.run(5), "got 5"),
    "nothing": (lambda goals: goals.run(None), "got None"),
    "a key that is a number": (lambda goals: goals.options(key=7).run(ok), "got 7"),
    "an empty key": (lambda goals: goals.options(key="").run(ok), "got ''"),
    "a tag that is empty": (lambda goals: goals.options(tags=[""]).run(ok), "1 to 64 characters"),
    "a tag with a space": (lambda goals: goals.options(tags=["a b"]).run(ok), "got 'a b'"),
    "a tag that is too long": (lambda goals: goals.options(tags=["a" * 65]).run(ok), "1 to 64 characters"),
    "a tag that is a number": (lambda goals: goals.options(tags=[5]).run(ok), "got '5'"),
    "a tag twice": (lambda goals: goals.options(tags=["a", "b", "a"]).run(ok), "'a' is repeated"),
    "too many tags": (lambda goals: goals.options(tags=map(str, range(21))).run(ok), "at most 20, got 21"),
    "tags that are one text": (lambda goals: goals.options(tags="ab").run(ok), "a list of strings"),
    "limits that are a number": (lambda goals: goals.options(limits=5).run(ok), "perdure.Limits"),
    "a limit of nothing": (lambda goals: goals.options(limits=Limits(tokens=0)).run(ok), "limit tokens: .* above 0"),
    "an endless limit of dollars": (lambda goals: goals.options(limits=Limits(usd=NAN)).run(ok), "limit usd"),
    "an unknown way to fail": (lambda goals: goals.options(on_failed="ignore").run(ok), "raise, retry, return"),
    "a flow that was called without a goal": (lambda goals: goals.run(cast("Any", ok)(1)), r"p\.goals\.run\(ok, 1\)"),
    "an id that is a number": (lambda goals: goals.resume(5), "got 5"),
    "an id with NUL": (lambda goals: goals.retry("20\0"), "id of a goal"),
    "an id with a surrogate": (lambda goals: goals.handle("\ud800"), "id of a goal"),
    "a reason that is a number": (lambda goals: goals.retry("20", reason=5), "got 5"),
    "a reason that is empty": (lambda goals: goals.retry("20", reason=""), "1 to 2000 characters"),
    "a reason that is too long": (lambda goals: goals.retry("20", reason="x" * 2001), "got 2001 characters"),
    "a reason with NUL": (lambda goals: goals.retry("20", reason="a\0b"), "Invalid reason"),
    "a reason with a surrogate": (lambda goals: goals.retry("20", reason="\ud800"), "Invalid reason"),
    "a retry with limits that are a number": (lambda goals: goals.retry("20", limits=5), "perdure.Limits"),
    "a retry with a limit below 0": (lambda goals: goals.retry("20", limits=Limits(seconds=-1)), "limit seconds"),
    "a retry with a key of two lines": (lambda goals: goals.retry("20", key="a\nb"), "control characters"),
    "a tag with a surrogate": (lambda goals: goals.list(tag="\ud800"), "tag must be"),
    "a bot with NUL": (lambda goals: goals.list(bot="\0"), "bot must be"),
    "a flow with a surrogate": (lambda goals: goals.list(flow="\ud800"), "flow must be"),
    "a key with a surrogate": (lambda goals: goals.list(key="\ud800"), "key must be"),
    "an event that is a text": (lambda goals: goals.fork("20", "2"), "got '2'"),
    "a fork of no place": (lambda goals: goals.fork("20"), "exactly one"),
    "a fork of two places": (lambda goals: goals.fork("20", 1, before="a"), "exactly one"),
    "a step that is a number": (lambda goals: goals.fork("20", before=3), "got 3"),
    "a step without a name": (lambda goals: goals.fork("20", after=" "), "got ' '"),
    "steps that are a text": (lambda goals: goals.fork("20", 1, repeat="charge"), "a list of steps, got 'charge'"),
    "a negative limit": (lambda goals: goals.list(limit=-1), "got -1"),
    "an endless limit": (lambda goals: goals.list(limit=2**70), "limit must be a whole number"),
    "an unknown status": (lambda goals: goals.list(status="finished"), "waiting, done, failed, cancelled, open"),
    "a page before a number": (lambda goals: goals.list(before=3), "got 3"),
    "a signal without a name": (lambda goals: goals.signal("20", ""), "The name of a signal"),
    "a signal named by a number": (lambda goals: goals.signal("20", 5), "The name of a signal"),
    "a signal with an empty key": (lambda goals: goals.signal("20", "paid", key=""), "got ''"),
}


@pytest.mark.parametrize("what", BAD)
async def test_what_is_invalid_is_invalid_and_recorded_nowhere(goals: Goals, what: str) -> None:
    known = await goals.run(ok)
    call, said = BAD[what]
    with pytest.raises(Invalid, match=said):
        await call(goals)
    assert [view.id for view in await goals.list()] == [known.id]


async def test_a_result_in_place_of_an_id_says_where_the_id_is(goals: Goals) -> None:
    result = await goals.run(ok)
    both: list[Any] = [result, await goals.find(result.id)]
    for given in both:
        with pytest.raises(Invalid, match=f"`.id`, '{result.id}'"):
            await goals.resume(given)


async def test_a_flow_may_have_a_parameter_called_key(goals: Goals) -> None:
    assert (await goals.options(key="a").run(keyed, key="b")).value == "b"


async def test_an_argument_is_the_same_whether_it_is_named_or_not(goals: Goals) -> None:
    first = await goals.options(key="k").run(ok, 5)
    assert await goals.options(key="k").run(ok, number=5) == first
    assert (await goals.find(first.id)).text == "ok(5)"


CALLS: dict[str, Callable[[Perdure], Awaitable[Any]]] = {
    "run": lambda p: p.goals.run(ok),
    "resume": lambda p: p.goals.resume("20"),
    "list": lambda p: p.goals.list(),
    "due": lambda p: p.goals.due(),
    "signal": lambda p: p.goals.signal("20", "x"),
    "tables": lambda p: p.database.tables(),
}


@pytest.mark.parametrize("is_used", [True, False])
async def test_a_home_that_is_closed_says_so(tmp_path: Path, *, is_used: bool) -> None:
    async with Perdure.open(tmp_path / "home") as p:
        if is_used:
            await p.goals.run(ok)
    for call in CALLS.values():
        with pytest.raises(Unavailable, match="closed"):
            await call(p)
