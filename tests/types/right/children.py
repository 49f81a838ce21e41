"""Flows as children of another flow."""

from typing import assert_type

from perdure import Goal, Limits, flow


@flow
async def ship(goal: Goal, order: str, *, express: bool = False) -> int:
    return await goal.step(len, f"{order} {express}")


@flow
async def checkout(goal: Goal, order: str) -> int:
    assert_type(await goal.child(ship, order, express=True), int)
    return await goal.options(key="ship", limits=Limits(usd=1.0)).child(ship, order)
