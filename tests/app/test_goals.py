"""The use cases of goals, as every surface calls them, on each kind of store."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.app import open_ephemeral
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.kernel.events import Limits, MindSpec
from perdure.kernel.loop import Loop

ASKING = """
goal: ask first
steps:
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}}
  - {id: send, exec: [touch, sent], needs: [sure]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


def command(text: str, folder: Path) -> NewGoal:
    return NewGoal(text, MindSpec("command"), folder)


def plan(text: str, folder: Path, limits: Limits | None = None) -> NewGoal:
    return NewGoal("a plan", MindSpec("plan", plan=text), folder, limits or Limits())


async def test_a_command_runs_and_is_listed_as_done(goals: Goals, folder: Path) -> None:
    ran = await goals.begin(command("echo hello", folder))
    view = await goals.find(ran.state.goal_id[:15])
    assert (view.status, view.summary.reason, view.summary.worker) == ("done", "done", None)
    assert view.wire()["id"] == ran.state.goal_id
    assert [found.summary.goal_id for found in await goals.list()] == [ran.state.goal_id]


async def test_a_finished_goal_is_resumed_without_an_event(goals: Goals, folder: Path) -> None:
    ran = await goals.begin(command("true", folder))
    again = await goals.resume_run(ran.state.goal_id)
    assert (again.outcome, again.state.head) == ("ended", ran.state.head)


async def test_an_unknown_goal_is_not_found(goals: Goals) -> None:
    for verb in (goals.resume_run, goals.find, goals.cancel, goals.replay):
        with pytest.raises(NotFound):
            await verb("2026")


CHANGING: dict[str, Callable[[Goals, str], Awaitable[object]]] = {
    "resume": lambda goals, goal_id: goals.resume(goal_id),
    "retry": lambda goals, goal_id: goals.retry(goal_id),
    "resume_run": lambda goals, goal_id: goals.resume_run(goal_id),
    "decide": lambda goals, goal_id: goals.decide(goal_id, "answer", value="yes"),
    "signal": lambda goals, goal_id: goals.signal(goal_id, "paid"),
    "cancel": lambda goals, goal_id: goals.cancel(goal_id),
    "fork": lambda goals, goal_id: goals.fork(goal_id, 1),
    "delete": lambda goals, goal_id: goals.delete(goal_id),
    "get": lambda goals, goal_id: goals.get(goal_id),
}


@pytest.mark.parametrize("verb", CHANGING)
async def test_what_changes_a_goal_needs_its_whole_id(goals: Goals, folder: Path, verb: str) -> None:
    goal_id = (await goals.begin(plan(ASKING, folder))).state.goal_id
    before = await goals.history(goal_id)
    with pytest.raises(NotFound, match=f"No goal has the id '{goal_id[:-1]}'. Did you mean {goal_id}?"):
        await CHANGING[verb](goals, goal_id[:-1])
    await goals.begin(plan(ASKING, folder))
    with pytest.raises(NotFound, match="No goal has the id '20'. Several goals begin with '20'.* Commands that change"):
        await CHANGING[verb](goals, "20")
    assert await goals.history(goal_id) == before
    assert len(await goals.list()) == 2


async def test_what_only_reads_a_goal_accepts_a_prefix(goals: Goals, folder: Path) -> None:
    goal_id = (await goals.begin(command("true", folder))).state.goal_id
    events = await goals.history(goal_id[:-1])
    assert [event async for event in goals.follow(goal_id[:-1])] == events
    assert (await goals.find(goal_id[:-1])).id == (await goals.replay(goal_id[:-1])).state.goal_id == goal_id


async def test_a_seq_beyond_the_end_of_a_goal_is_a_conflict_that_says_where_it_ends(goals: Goals, folder: Path) -> None:
    goal_id = (await goals.begin(command("true", folder))).state.goal_id
    last = (await goals.get(goal_id)).summary.last_seq
    assert await goals.events(goal_id, after=last) == []
    assert [event async for event in goals.follow(goal_id, after=last)] == []
    for read in (goals.events(goal_id, after=last + 1), anext(goals.follow(goal_id, after=last + 1))):
        with pytest.raises(Conflict, match=f"events up to {last}") as beyond:
            await read
        assert beyond.value.problem()["last_seq"] == last


async def test_what_is_invalid_is_refused_before_anything_is_stored(goals: Goals, folder: Path) -> None:
    for bad in (command("", folder), plan("steps: 1", folder)):
        with pytest.raises(Invalid):
            await goals.begin(bad)
    assert await goals.list() == []


async def test_a_decision_is_recorded_and_nothing_runs_until_the_goal_is_resumed(goals: Goals, folder: Path) -> None:
    goal_id = (await goals.begin(plan(ASKING, folder))).state.goal_id
    view = await goals.decide(goal_id, "answer", value="yes")
    assert (view.status, view.summary.worker) == ("interrupted", None)
    assert await goals.pending(goal_id) == []
    assert not (folder / "sent").exists()
    assert (await goals.resume_run(goal_id)).state.status == "done"
    assert (folder / "sent").exists()


async def test_a_decision_that_fits_nothing_leaves_the_goal_unchanged(goals: Goals, folder: Path) -> None:
    ran = await goals.begin(plan(ASKING, folder))
    for decision, kind in (("approve", Conflict), ("retry", Conflict), ("shrug", Invalid)):
        with pytest.raises(kind):
            await goals.decide(ran.state.goal_id, decision)
    assert (await goals.state(ran.state.goal_id)).head == ran.state.head
    assert await goals.pending(ran.state.goal_id) == []


async def test_a_waiting_goal_is_cancelled_there_and_then(goals: Goals, folder: Path) -> None:
    goal_id = (await goals.begin(plan(ASKING, folder))).state.goal_id
    view = await goals.cancel(goal_id)
    assert (view.status, view.summary.reason) == ("cancelled", "cancelled")
    with pytest.raises(Conflict):
        await goals.cancel(goal_id)


async def test_a_limit_is_raised_by_resuming_and_counts_across_resumes(goals: Goals, folder: Path) -> None:
    steps = "\n".join(f"  - {{id: s{i}, exec: [touch, s{i}], needs: [{f's{i - 1}' if i else ''}]}}" for i in range(3))
    ran = await goals.begin(plan(f"goal: a\nsteps:\n{steps}", folder, limits=Limits(iterations=2)))
    assert ran.state.waiting_for == "limit"
    with pytest.raises(Invalid, match=r"iterations must exceed the 2 that \S+ has used"):
        await goals.resume_run(ran.state.goal_id, limits=Limits(iterations=2))
    assert (await goals.find(ran.state.goal_id)).summary.worker is None
    ran = await goals.resume_run(ran.state.goal_id, limits=Limits(iterations=10))
    assert ran.state.status == "done"
    assert ran.state.limits == Limits(iterations=10)


async def test_the_newest_goal_of_a_folder_that_can_continue(goals: Goals, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        await goals.newest_open(folder)
    first = await goals.begin(plan(ASKING, folder))
    await goals.begin(plan(ASKING, tmp_path))
    await goals.begin(command("true", folder))
    assert (await goals.newest_open(folder)).summary.goal_id == first.state.goal_id


async def test_a_goal_that_was_stopped_is_interrupted_and_can_be_resumed(goals: Goals, folder: Path) -> None:
    ran = await goals.begin(command("true", folder), RunOptions(watch=Loop.stop))
    assert ran.outcome == "interrupted"
    assert (await goals.find(ran.state.goal_id)).status == "interrupted"
    assert (await goals.resume_run(ran.state.goal_id)).state.status == "done"


async def test_an_ephemeral_goal_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    async with open_ephemeral() as goals:
        assert (await goals.begin(command("true", folder))).state.status == "done"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]
