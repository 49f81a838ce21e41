"""Tools that a plan may call: those of the home, and none that is meant for models."""

from pathlib import Path

import pytest

from perdure import Invalid, Perdure
from perdure.app.goals.new_goal import of_plan_text


@pytest.mark.parametrize("tool", ["ask", "done", "fly"])
async def test_a_plan_that_calls_a_tool_of_models_or_an_unknown_one_is_rejected(tmp_path: Path, tool: str) -> None:
    text = f"goal: a\nsteps:\n  - {{id: fin, tool: {tool}, with: {{}}}}\n  - {{id: charge, exec: 'touch CHARGED'}}\n"
    async with Perdure.open(tmp_path / "home") as p:
        with pytest.raises(Invalid, match=f"There is no tool {tool}; known are exec, read_file, write_file"):
            await p.goals.begin(of_plan_text(text, "plan.yaml"))
        assert await p.goals.list() == []
