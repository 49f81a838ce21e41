"""The tables of projects.

Deleting a project deletes its rows. Every reference inside a project includes `project_id`, so no row can refer to
another project. Such references are NO ACTION; deleting a feature deletes its sub-features.
"""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from perdure.projects.ports import (
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
from perdure.store.schema.parts import (
    LARGEST_REAL,
    check,
    column,
    id_column,
    index_where,
    json_check,
    number,
    one_of,
    table,
)
from perdure.store.schema.types import Flag, Integer, Json, Micros, Real, Text


def _project() -> sa.Column[str]:
    return sa.Column("project_id", Text, sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False)


def _inside(
    columns: Iterable[str], target: str, target_columns: Iterable[str] = ("id",), **options: Any
) -> sa.ForeignKeyConstraint:
    """Return a foreign key within the project."""
    return sa.ForeignKeyConstraint(
        ["project_id", *columns], [f"{target}.{name}" for name in ("project_id", *target_columns)], **options
    )


def _flag(name: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{name} IN (0, 1)", name=name).ddl_if(dialect="sqlite")


projects = table(
    "projects",
    id_column(),
    column("name", Text),
    column("description", Text, optional=True),
    column("mode", Text),
    column("status", Text),
    column("root_path", Text),
    column("repository_url", Text, optional=True),
    column("created_at", Micros),
    column("updated_at", Micros),
    column("completed_at", Micros, optional=True),
    one_of("mode", ProjectMode),
    one_of("status", ProjectStatus),
    check("completed_at", "completed_at >= created_at"),
)

features = table(
    "features",
    id_column(),
    _project(),
    column("name", Text),
    column("description", Text, optional=True),
    column("priority", Text, "'should'"),
    column("status", Text, "'backlog'"),
    column("estimated_tasks", Integer, "0"),
    column("completed_tasks", Integer, "0"),
    column("created_at", Micros),
    column("updated_at", Micros),
    sa.UniqueConstraint("project_id", "id"),
    one_of("priority", Priority),
    one_of("status", FeatureStatus),
    check("task_counts", "estimated_tasks >= 0 AND completed_tasks >= 0"),
    sa.Index("idx_features_project", "project_id", "created_at"),
)

sub_features = table(
    "sub_features",
    id_column(),
    _project(),
    column("feature_id", Text),
    column("name", Text),
    column("description", Text, optional=True),
    column("status", Text, "'backlog'"),
    column("created_at", Micros),
    _inside(["feature_id"], "features", ondelete="CASCADE"),
    sa.UniqueConstraint("project_id", "feature_id", "id"),
    one_of("status", FeatureStatus),
)

tasks = table(
    "tasks",
    id_column(),
    _project(),
    column("feature_id", Text, optional=True),
    column("sub_feature_id", Text, optional=True),
    column("name", Text),
    column("description", Text, optional=True),
    column("status", Text, "'pending'"),
    column("size", Text, "'small'"),
    column("assigned_agent", Text, optional=True),
    column("worktree_path", Text, optional=True),
    column("branch_name", Text, optional=True),
    column("qa_iterations", Integer, "0"),
    column("max_iterations", Integer, "50"),
    column("estimated_minutes", Integer, "15"),
    column("actual_minutes", Integer, optional=True),
    column("started_at", Micros, optional=True),
    column("completed_at", Micros, optional=True),
    column("created_at", Micros),
    column("updated_at", Micros),
    _inside(["feature_id"], "features"),
    _inside(["feature_id", "sub_feature_id"], "sub_features", ["feature_id", "id"]),
    _inside(["assigned_agent"], "agents", use_alter=True),
    sa.UniqueConstraint("project_id", "id"),
    one_of("status", TaskStatus),
    one_of("size", TaskSize),
    check("sub_feature_of_feature", "sub_feature_id IS NULL OR feature_id IS NOT NULL"),
    check("max_iterations", "max_iterations BETWEEN 1 AND 50"),
    check("qa_iterations", "qa_iterations BETWEEN 0 AND max_iterations"),
    check("estimated_minutes", "estimated_minutes BETWEEN 1 AND 30"),
    check("atomic_minutes", "size <> 'atomic' OR estimated_minutes <= 15"),
    check("actual_minutes", "actual_minutes >= 0"),
    check("completed_at", "completed_at >= started_at"),
    sa.Index("idx_tasks_project", "project_id", "created_at"),
    sa.Index("idx_tasks_status", "status", "created_at"),
    sa.Index("idx_tasks_project_status", "project_id", "status", "created_at"),
    sa.Index("idx_tasks_agent", "project_id", "assigned_agent"),
    sa.Index("idx_tasks_feature", "project_id", "feature_id", "sub_feature_id"),
)

_busy = tasks.c.status.in_([sa.literal_column(repr(str(status))) for status in BUSY_TASK_STATUSES])
index_where(tasks.c.assigned_agent.is_not(None) & _busy, "uq_tasks_busy_agent", tasks.c.assigned_agent, unique=True)

task_dependencies = table(
    "task_dependencies",
    number("edge_no"),
    _project(),
    column("task_id", Text),
    column("depends_on_id", Text),
    column("created_at", Micros),
    _inside(["task_id"], "tasks"),
    _inside(["depends_on_id"], "tasks"),
    sa.UniqueConstraint("project_id", "task_id", "depends_on_id"),
    check("no_self_edge", "task_id <> depends_on_id"),
    sa.Index("idx_task_dependencies_depends_on", "project_id", "depends_on_id"),
)

task_history = table(
    "task_history",
    number("entry_no"),
    _project(),
    column("task_id", Text),
    column("from_status", Text, optional=True),
    column("to_status", Text),
    column("reason", Text, optional=True),
    column("actor", Text),
    column("goal_id", Text, optional=True),
    column("seq", Integer, optional=True),
    column("created_at", Micros),
    _inside(["task_id"], "tasks"),
    one_of("from_status", TaskStatus),
    one_of("to_status", TaskStatus),
    check("is_a_change", "from_status <> to_status"),
    check("goal_event", "(goal_id IS NULL) = (seq IS NULL) AND (seq IS NULL OR seq >= 1)"),
    sa.Index("idx_task_history_task", "project_id", "task_id", "entry_no"),
)

agents = table(
    "agents",
    id_column(),
    _project(),
    column("type", Text),
    column("status", Text, "'idle'"),
    column("current_task_id", Text, optional=True),
    column("worktree_path", Text, optional=True),
    column("branch_name", Text, optional=True),
    column("tokens_used", Integer, "0"),
    column("tasks_completed", Integer, "0"),
    column("tasks_failed", Integer, "0"),
    column("spawned_at", Micros),
    column("last_activity_at", Micros),
    column("terminated_at", Micros, optional=True),
    column("termination_reason", Text, optional=True),
    _inside(["current_task_id"], "tasks"),
    sa.UniqueConstraint("project_id", "id"),
    one_of("type", AgentType),
    one_of("status", AgentStatus),
    check("counters", "tokens_used >= 0 AND tasks_completed >= 0 AND tasks_failed >= 0"),
    check("last_activity_at", "last_activity_at >= spawned_at"),
    check("terminated_at", "terminated_at >= spawned_at"),
    sa.Index("idx_agents_status", "status", "project_id"),
)
index_where(agents.c.current_task_id.is_not(None), "uq_agents_current_task", agents.c.current_task_id, unique=True)

checkpoints = table(
    "checkpoints",
    id_column(),
    _project(),
    column("name", Text, optional=True),
    column("reason", Text, optional=True),
    column("state", Text, optional=True),
    column("git_commit", Text, optional=True),
    column("created_at", Micros),
    column("format_version", Integer, "1"),
    column("sha256", Text),
    column("size_bytes", Integer),
    column("log_position", Integer, optional=True),
    column("pinned", Flag, "false"),
    _flag("pinned"),
    check("format_version", "format_version >= 1"),
    check("sha256", "length(sha256) = 64"),
    check("size_bytes", "size_bytes >= 0"),
    check("log_position", "log_position >= 0"),
    sa.Index("idx_checkpoints_project", "project_id", "created_at", "id"),
)

requirements = table(
    "requirements",
    id_column(),
    _project(),
    column("category", Text),
    column("description", Text),
    column("priority", Text, "'should'"),
    column("source", Text, optional=True),
    column("confidence", Real, optional=True),
    column("validated", Flag, "false"),
    column("created_at", Micros),
    sa.UniqueConstraint("project_id", "id"),
    _flag("validated"),
    one_of("priority", Priority),
    check("confidence", "confidence BETWEEN 0 AND 1"),
)

requirement_features = table(
    "requirement_features",
    number("link_no"),
    _project(),
    column("requirement_id", Text),
    column("feature_id", Text),
    column("created_at", Micros),
    _inside(["requirement_id"], "requirements"),
    _inside(["feature_id"], "features"),
    sa.UniqueConstraint("project_id", "requirement_id", "feature_id"),
    sa.Index("idx_requirement_features_feature", "project_id", "feature_id"),
)

metrics = table(
    "metrics",
    id_column(),
    _project(),
    column("agent_id", Text, optional=True),
    column("task_id", Text, optional=True),
    column("type", Text),
    column("value", Real),
    column("metadata", Json, optional=True),
    column("timestamp", Micros),
    _inside(["agent_id"], "agents"),
    _inside(["task_id"], "tasks"),
    one_of("type", MetricType),
    check("value", f"value >= 0 AND value <= {LARGEST_REAL}"),
    *json_check("metadata"),
    sa.Index("idx_metrics_project", "project_id", "type", "timestamp"),
    sa.Index("idx_metrics_task", "project_id", "task_id", "type"),
    sa.Index("idx_metrics_agent", "project_id", "agent_id"),
)

sessions = table(
    "sessions",
    id_column(),
    _project(),
    column("type", Text),
    column("status", Text, "'active'"),
    column("data", Json, optional=True),
    column("started_at", Micros),
    column("ended_at", Micros, optional=True),
    one_of("type", SessionType),
    one_of("status", SessionStatus),
    check("ended_at", "ended_at >= started_at"),
    *json_check("data"),
    sa.Index("idx_sessions_project", "project_id", "started_at"),
)
