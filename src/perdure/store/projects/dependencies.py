"""Dependencies between tasks in the database."""

import time
from collections.abc import Callable, Sequence

from perdure.errors import Invalid, NotFound
from perdure.projects.ports import TaskEdge
from perdure.store.client import DatabaseClient
from perdure.store.on_demand import ClientUser, Place
from perdure.store.raw import RawTransaction
from perdure.text.storable import is_storable

_LOCK = "UPDATE projects SET updated_at = updated_at WHERE id = ? RETURNING id"
"""Locks the row until the commit, like FOR UPDATE, which SQLite does not support."""
_TASK = "SELECT 1 FROM tasks WHERE project_id = ? AND id = ?"
_INSERT = (
    "INSERT INTO task_dependencies (project_id, task_id, depends_on_id, created_at) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (project_id, task_id, depends_on_id) DO NOTHING"
)
_REACHED = """
WITH RECURSIVE reached (task_id) AS (
    SELECT CAST(? AS TEXT)
    UNION
    SELECT edge.depends_on_id FROM task_dependencies AS edge
    JOIN reached ON edge.task_id = reached.task_id
    WHERE edge.project_id = ?
)
SELECT edge.task_id, edge.depends_on_id FROM task_dependencies AS edge
JOIN reached ON edge.task_id = reached.task_id
WHERE edge.project_id = ?
ORDER BY edge.edge_no"""
"""The direct and indirect dependencies of a task. UNION drops duplicates, so the query ends even with a cycle."""
_LIST = "SELECT task_id, depends_on_id FROM task_dependencies WHERE project_id = ? ORDER BY edge_no"


class SqlTaskDependencies(ClientUser):
    """Dependencies between tasks in a SQL database. See TaskDependencies and ClientUser."""

    def __init__(
        self, client: DatabaseClient | Place, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        super().__init__(client)
        self._now_us = now_us

    async def add_dependencies(self, project_id: str, edges: Sequence[TaskEdge]) -> None:
        """See TaskDependencies.add_dependencies."""
        if not is_storable(project_id):
            raise NotFound(f"There is no project {project_id!r}.")
        await self._client.write_raw(lambda raw: _add_all(raw, project_id, edges, self._now_us()))

    async def list_dependencies(self, project_id: str) -> Sequence[TaskEdge]:
        """See TaskDependencies.list_dependencies."""
        if not is_storable(project_id):
            return []
        return await self._client.read_raw(lambda raw: [TaskEdge(*row) for row in raw.execute(_LIST, project_id)])


def _add_all(raw: RawTransaction, project_id: str, edges: Sequence[TaskEdge], now_us: int) -> None:
    if raw.first(_LOCK, project_id) is None:
        raise NotFound(f"There is no project {project_id!r}.")
    for edge in edges:
        for task_id in (edge.task_id, edge.depends_on_id):
            if not is_storable(task_id) or raw.first(_TASK, project_id, task_id) is None:
                raise NotFound(f"There is no task {task_id!r} in the project {project_id!r}.")
        _require_no_cycle(raw, project_id, edge)
        raw.execute(_INSERT, project_id, edge.task_id, edge.depends_on_id, now_us)


def _require_no_cycle(raw: RawTransaction, project_id: str, edge: TaskEdge) -> None:
    """Check that the dependency of a task does not depend on the task.

    Raises: Invalid
    """
    if edge.task_id == edge.depends_on_id:
        raise Invalid(f"The task {edge.task_id} cannot depend on itself.")
    rows = raw.execute(_REACHED, edge.depends_on_id, project_id, project_id).fetchall()
    path = _path({(str(row[0]), str(row[1])): None for row in rows}, edge.depends_on_id, edge.task_id)
    if path is not None:
        cycle = " -> ".join([edge.task_id, *path])
        raise Invalid(f"The dependencies form a cycle: {cycle} (each task depends on the next). Nothing was stored.")


def _path(edges: dict[tuple[str, str], None], start: str, end: str) -> list[str] | None:
    """Return the shortest path from one task to another along dependencies; None if there is none."""
    needs: dict[str, list[str]] = {}
    for task_id, needed in edges:
        needs.setdefault(task_id, []).append(needed)
    came_from: dict[str, str | None] = {start: None}
    queue = [start]
    for task_id in queue:  # breadth first: the list grows during the loop
        for needed in needs.get(task_id, ()):
            if needed not in came_from:
                came_from[needed] = task_id
                queue.append(needed)
    if end not in came_from:
        return None
    path: list[str] = []
    at: str | None = end
    while at is not None:
        path.append(at)
        at = came_from[at]
    return path[::-1]
