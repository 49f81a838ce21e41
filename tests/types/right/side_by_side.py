"""Several steps at once, with one result type or many."""

import asyncio
from typing import assert_type

from perdure import First, Goal, flow


def length(text: str) -> int:
    return len(text)


async def upper(text: str) -> str:
    return text.upper()


def is_empty(text: str) -> bool:
    return not text


@flow
async def same_types(goal: Goal, texts: list[str]) -> int:
    lengths = await goal.gather(*(goal.step(length, text) for text in texts))
    assert_type(lengths, list[int])
    return sum(lengths)


@flow
async def different_types(goal: Goal, text: str) -> str:
    found = await goal.gather(goal.step(length, text), goal.step(upper, text), goal.step(is_empty, text))
    assert_type(found, tuple[int, str, bool])
    six = await goal.gather(
        goal.step(length, text),
        goal.step(upper, text),
        goal.step(is_empty, text),
        goal.ask("Which?", ["a", "b"]),
        goal.sleep(1),
        goal.step(length, text),
    )
    assert_type(six, tuple[int, str, bool, str, None, int])
    size, shout = await asyncio.gather(goal.step(length, text), goal.step(upper, text))
    assert_type(size, int)
    assert_type(shout, str)
    return f"{size} {shout} {found[-1]}"


@flow
async def task_group(goal: Goal, text: str) -> str:
    async with asyncio.TaskGroup() as group:
        size = group.create_task(goal.step(length, text))
        shout = group.create_task(goal.step(upper, text))
    assert_type(size.result(), int)
    return shout.result()


@flow
async def racing(goal: Goal, text: str) -> str:
    winner = await goal.first(goal.step(length, text), goal.step(upper, text))
    assert_type(winner, First[int | str])
    one = await goal.first(goal.step(upper, text), goal.step(upper, text + "!"))
    assert_type(one, First[str])
    many = await goal.first(*(goal.step(length, each) for each in text))
    assert_type(many, First[int])
    six = await goal.first(
        goal.step(length, text),
        goal.step(upper, text),
        goal.step(is_empty, text),
        goal.sleep(1),
        goal.step(length, text),
        goal.step(upper, text),
    )
    assert_type(six, First[int | str | bool | None])
    return f"{winner.position} {winner.value} {one.value.lower()}"


@flow
async def parent(goal: Goal, text: str) -> str:
    shout = await different_types(goal, text)
    assert_type(shout, str)
    assert_type(await goal.gather(different_types(goal, text), task_group(goal, text=text)), tuple[str, str])
    return shout
