"""The contract of `TaskDependencies`, on both databases: what is stored never forms a cycle."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure import DatabaseClient, Invalid, NotFound
from perdure.projects.ports import TaskEdge
from perdure.store.projects.dependencies import SqlTaskDependencies
from perdure.store.transaction import Transaction
from tests import children

TASKS = "abcde"


def _project(tx: Transaction) -> None:
    tx.execute("DELETE FROM projects")
    for project in ("p", "other"):
        tx.execute(
            "INSERT INTO projects (id, name, mode, status, root_path, created_at, updated_at)"
            f" VALUES ('{project}', 'P', 'genesis', 'created', '/', 0, 0)"
        )
    for task in [*TASKS, "far"]:
        project = "other" if task == "far" else "p"
        tx.execute(
            "INSERT INTO tasks (id, project_id, name, created_at, updated_at)"
            f" VALUES ('{task}', '{project}', '{task}', 0, 0)"
        )


@pytest.fixture
async def client(migrated_url: str) -> AsyncIterator[DatabaseClient]:
    async with await DatabaseClient.create(migrated_url) as client:
        await client.transaction(_project)
        yield client


def edges(*pairs: str) -> list[TaskEdge]:
    """`ab`: a depends on b."""
    return [TaskEdge(*pair) for pair in pairs]


async def test_dependencies_are_listed_in_the_order_of_their_creation(client: DatabaseClient) -> None:
    dependencies = SqlTaskDependencies(client)
    await dependencies.add_dependencies("p", edges("ab", "bc"))
    await dependencies.add_dependencies("p", edges("ac", "ab"))
    assert await dependencies.list_dependencies("p") == edges("ab", "bc", "ac")
    assert await dependencies.list_dependencies("other") == await dependencies.list_dependencies("no\0") == []


@pytest.mark.parametrize(
    ("stored", "added", "cycle"),
    [
        ("ab", "ba", "b -> a -> b"),
        ("ab bc cd", "da", "d -> a -> b -> c -> d"),
        ("ab bc", "cd da", "d -> a -> b -> c -> d"),
        ("", "ab bc ca", "c -> a -> b -> c"),
        ("ab ac bd cd", "da", "d -> a -> b -> d"),
        ("ab", "cd ba", "b -> a -> b"),
    ],
)
async def test_a_cycle_is_refused_with_its_tasks_in_order(
    client: DatabaseClient, stored: str, added: str, cycle: str
) -> None:
    dependencies = SqlTaskDependencies(client)
    await dependencies.add_dependencies("p", edges(*stored.split()))
    with pytest.raises(Invalid, match=f"cycle: {cycle} "):
        await dependencies.add_dependencies("p", edges(*added.split()))
    assert await dependencies.list_dependencies("p") == edges(*stored.split())


async def test_a_task_cannot_depend_on_itself(client: DatabaseClient) -> None:
    with pytest.raises(Invalid, match="depend on itself"):
        await SqlTaskDependencies(client).add_dependencies("p", edges("ab", "aa"))
    assert await SqlTaskDependencies(client).list_dependencies("p") == []


@pytest.mark.parametrize(
    ("project", "edge"),
    [
        ("no", TaskEdge("a", "b")),
        ("p", TaskEdge("a", "no")),
        ("p", TaskEdge("a", "far")),
        ("p", TaskEdge("a\0", "b")),
        ("p\ud800", TaskEdge("a", "b")),
    ],
)
async def test_what_is_not_there_is_refused(client: DatabaseClient, project: str, edge: TaskEdge) -> None:
    with pytest.raises(NotFound):
        await SqlTaskDependencies(client).add_dependencies(project, [*edges("bc"), edge])
    assert await SqlTaskDependencies(client).list_dependencies("p") == []


async def test_of_two_that_would_form_a_cycle_together_one_is_stored(client: DatabaseClient, migrated_url: str) -> None:
    async with SqlTaskDependencies(migrated_url) as second:
        for turn in range(10):
            await client.transaction(lambda tx: tx.execute("DELETE FROM task_dependencies").rowcount)
            first = SqlTaskDependencies(client)
            done = await asyncio.gather(
                first.add_dependencies("p", edges("ab")),
                second.add_dependencies("p", edges("ba")),
                return_exceptions=True,
            )
            assert sorted(type(each).__name__ for each in done) == ["Invalid", "NoneType"], turn
            assert len(await first.list_dependencies("p")) == 1


def _has_cycle(found: Sequence[TaskEdge]) -> bool:
    left = list(found)
    while left:
        blocked = {edge.task_id for edge in left}
        rest = [edge for edge in left if edge.depends_on_id in blocked]
        if len(rest) == len(left):
            return True
        left = rest
    return False


@given(
    st.lists(st.lists(st.tuples(st.sampled_from(TASKS), st.sampled_from(TASKS)), min_size=1, max_size=4), max_size=8)
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_call_is_refused_exactly_when_it_would_form_a_cycle(
    shared_sqlite: str, calls: list[list[tuple[str, str]]]
) -> None:
    async def play() -> None:
        async with await DatabaseClient.create(shared_sqlite) as client:
            await client.transaction(_project)
            dependencies, stored = SqlTaskDependencies(client), list[TaskEdge]()
            for call in calls:
                asked = [TaskEdge(*pair) for pair in call]
                together = list(dict.fromkeys([*stored, *asked]))
                try:
                    await dependencies.add_dependencies("p", asked)
                except Invalid:
                    assert _has_cycle(together)
                else:
                    assert not _has_cycle(together)
                    stored = together
                assert await dependencies.list_dependencies("p") == stored

    asyncio.run(play())


@pytest.fixture
def shared_sqlite(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: str) -> str:
    from shutil import copy

    return str(copy(migrated_sqlite, tmp_path_factory.mktemp("dependencies") / "perdure.db"))


async def _add_in_child(url: str) -> None:
    async with SqlTaskDependencies(url) as dependencies:
        await dependencies.add_dependencies("p", edges("ab", "bc"))


@pytest.mark.parametrize(("point", "stored"), [("store.commit.before", ""), ("store.commit.after", "ab bc")])
async def test_a_killed_process_has_stored_all_dependencies_or_none(
    client: DatabaseClient, migrated_url: str, point: str, stored: str
) -> None:
    children.run_until(point, _add_in_child, migrated_url)
    assert await SqlTaskDependencies(client).list_dependencies("p") == edges(*stored.split())
    await SqlTaskDependencies(client).add_dependencies("p", edges("ab", "bc"))
    assert await SqlTaskDependencies(client).list_dependencies("p") == edges("ab", "bc")
