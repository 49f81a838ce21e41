"""Flows as children of another flow, alone, side by side, and as values."""

import asyncio
from collections.abc import Sequence
from typing import assert_type

from perdure import Flow, Goal, GoalHandle, GoalResult, Limits, Perdure, flow


@flow
async def ship(goal: Goal, order: str, *, express: bool = False) -> int:
    return await goal.step(len, f"{order} {express}")


@flow
async def invoice(goal: Goal, order: str) -> str:
    return await goal.step(str, order)


@flow
async def checkout(goal: Goal, order: str) -> int:
    assert_type(await goal.child(ship, order, express=True), int)
    return await goal.options(key="ship", limits=Limits(usd=1.0)).child(ship, order)


@flow
async def side_by_side(goal: Goal, order: str) -> str:
    parcel, paper = await goal.gather(goal.child(ship, order), goal.child(invoice, order))
    assert_type(parcel, int)
    assert_type(paper, str)
    winner = await goal.first(goal.child(ship, order), goal.child(invoice, order))
    assert_type(winner.value, int | str)
    task = asyncio.create_task(goal.child(ship, order))
    assert_type(await task, int)
    return f"{parcel} {paper} {winner.position}"


@flow
async def all_of(goal: Goal, order: str) -> int:
    steps: Sequence[Flow[[str], int | str]] = [invoice, checkout]
    results = await goal.gather(*(goal.child(each, order) for each in steps))
    assert_type(results, list[int | str])
    return len(results)


async def shown(result: GoalResult[object], handle: GoalHandle[object]) -> str:
    return f"{result.value} {(await handle.result()).value}"


async def show(p: Perdure) -> str:
    return await shown(await p.goals.run(checkout, "A-1"), await p.goals.start(invoice, "A-1"))
