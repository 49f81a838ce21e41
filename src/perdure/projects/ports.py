"""What projects ask of the outside. So far only the value types that a store has to know."""

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
    "TaskSize",
    "TaskStatus",
]
