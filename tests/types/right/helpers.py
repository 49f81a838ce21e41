"""Time, ids, chance and versions of a flow."""

from datetime import datetime
from random import Random
from typing import assert_type
from uuid import UUID

from perdure import Goal, Retry, current_step, flow


def fetch(day: str) -> int:
    step = current_step()
    step.usage(tokens=10, cost_usd=0.1)
    step.record(day=day)
    return step.attempt


@flow
async def nightly(goal: Goal) -> int:
    assert_type(goal.now(), datetime)
    assert_type(goal.uuid(), UUID)
    assert_type(goal.random(), Random)
    assert_type(await goal.version("mail", 2), int)
    patient = goal.options(effect="idempotent", retry=Retry(3, initial=0.5, retry_on=(OSError, "timeout")))
    return await patient.step(fetch, f"{goal.now():%Y-%m-%d}")
