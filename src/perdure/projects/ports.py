"""The ports of projects: the store for the dependencies of tasks, and the value types that it uses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from perdure.projects.vocabulary import (
    BUSY_TASK_STATUSES,
    AgentStatus,
    AgentType,
    FeatureStatus,
    MetricType,
    Priority,
    ProjectMode,
    ProjectStatus,
    SessionStatus,
    SessionType,
    TaskSize,
    TaskStatus,
)

__all__ = [
    "BUSY_TASK_STATUSES",
    "AgentStatus",
    "AgentType",
    "FeatureStatus",
    "MetricType",
    "Priority",
    "ProjectMode",
    "ProjectStatus",
    "SessionStatus",
    "SessionType",
    "TaskDependencies",
    "TaskEdge",
    "TaskSize",
    "TaskStatus",
]


@dataclass(frozen=True, slots=True)
class TaskEdge:
    """A task that cannot start before another one is completed."""

    task_id: str
    depends_on_id: str


class TaskDependencies(Protocol):
    """Stores the dependencies between the tasks of a project, which never form a cycle."""

    async def add_dependencies(self, project_id: str, edges: Sequence[TaskEdge]) -> None:
        """Store dependencies, all or none; one that is already stored is unchanged.

        Two concurrent calls, from any process, cannot form a cycle together: the project is locked first.

        Raises: NotFound when there is no such project, or no such task in it; Invalid when they form a cycle, with
        each other or with stored ones. The message lists the cycle in order.
        """
        ...

    async def list_dependencies(self, project_id: str) -> Sequence[TaskEdge]:
        """Return the dependencies of a project in the order of their creation."""
        ...
