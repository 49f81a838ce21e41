"""Two flows under one name never swap, whoever makes them."""

import pytest

from perdure import Flow, Goal, Invalid, flow
from perdure.app.goals import Goals


def answer_with(answer: str, name: str | None = None) -> Flow[[], str]:
    """Make a flow; all that are made here have the same function name, file and line."""

    @flow(name=name)
    async def answers(goal: Goal) -> str:  # noqa: ARG001
        return answer

    return answers


async def test_flows_of_one_factory_never_swap(goals: Goals) -> None:
    first, second = answer_with("first"), answer_with("second")
    assert (await goals.run(second)).value == "second"
    with pytest.raises(Invalid, match=r"test_flow_names\.py.*@flow\(name="):
        await goals.run(first)
    with pytest.raises(Invalid, match=r"@flow\(name="):
        await goals.start(first)
    assert len(await goals.list()) == 1
