"""The folder of a plan's step: inside the goal's folder, relative or absolute."""

from pathlib import Path

import pytest

from perdure import Invalid
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import of_plan_text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "inner").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def plan(cwd: object) -> str:
    return f"goal: g\nsteps:\n  - {{id: where, exec: touch here, cwd: '{cwd}'}}\n"


@pytest.mark.parametrize("cwd", ["inner", "{0}/inner", "{0}", "{0}/inner/../inner"])
async def test_a_folder_inside_is_accepted(goals: Goals, folder: Path, cwd: str) -> None:
    ran = await goals.begin(of_plan_text(plan(cwd.format(folder)), "plan"))
    wanted = folder if cwd == "{0}" else folder / "inner"
    assert (await goals.get(ran.state.goal_id)).status == "done"
    assert (wanted / "here").exists()


@pytest.mark.parametrize("cwd", ["/etc", "/", "{0}/..", "{0}-beside", "{0}/out"])
async def test_an_absolute_folder_outside_is_refused_and_nothing_is_stored(
    goals: Goals, folder: Path, cwd: str
) -> None:
    (folder / "out").symlink_to("/etc")
    with pytest.raises(Invalid, match="is outside of the folder of the goal"):
        await goals.begin(of_plan_text(plan(cwd.format(folder)), "plan"))
    assert await goals.list() == []
