"""The tables as they are after the newest migration, for queries and for the test that compares the two.

Rules of a project: its rows go with it; whatever points inside a project carries `project_id`, so that nothing
can point into another one; such references are NO ACTION, and a sub-feature goes with its feature.

Rules of a goal: its events are never changed, and go only when it is deleted; triggers see to that.
"""

from collections.abc import Iterable
from typing import Any, get_args

import sqlalchemy as sa

from perdure.forge.ports import BuilderMode, BuilderPhase
from perdure.kernel.ports import MindKind, Runner, Status, WaitingFor
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
from perdure.store.types import Bytes, Flag, Integer, Json, Micros, Real, Text

LARGEST_REAL = "1.7976931348623157e308"
"""Refuses infinity on both databases, and NaN on PostgreSQL, where NaN is larger than everything."""

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    }
)


def _table(name: str, *items: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *items, sqlite_strict=True)


def _column(name: str, type_: Any, default: str | None = None, *, optional: bool = False) -> sa.Column[Any]:
    return sa.Column(name, type_, nullable=optional, server_default=None if default is None else sa.text(default))


def _id() -> sa.Column[str]:
    return sa.Column("id", Text, primary_key=True, nullable=False)


def _number(name: str) -> sa.Column[int]:
    """A number that the database gives out in the order of creation."""
    return sa.Column(name, Integer, sa.Identity(always=False), primary_key=True, nullable=False)


def _project() -> sa.Column[str]:
    return sa.Column("project_id", Text, sa.ForeignKey("projects.id", ondelete="CASCADE"), nullable=False)


def _inside(
    columns: Iterable[str], target: str, target_columns: Iterable[str] = ("id",), **options: Any
) -> sa.ForeignKeyConstraint:
    """A reference that stays inside the project."""
    return sa.ForeignKeyConstraint(
        ["project_id", *columns], [f"{target}.{name}" for name in ("project_id", *target_columns)], **options
    )


def _one_of(column: str, words: Iterable[str]) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN ({', '.join(repr(str(word)) for word in words)})", name=column)


def _index_where(condition: sa.ColumnElement[bool], name: str, *columns: sa.Column[Any], unique: bool = False) -> None:
    """Add an index of only those rows that a condition holds for."""
    sa.Index(name, *columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def _json(column: str) -> tuple[sa.CheckConstraint, sa.CheckConstraint]:
    """Refuse a text that is not JSON; PostgreSQL does it by the cast."""
    return (
        sa.CheckConstraint(f"{column} IS NULL OR json_valid({column})", name=f"{column}_json").ddl_if(dialect="sqlite"),
        sa.CheckConstraint(f"{column} IS NULL OR CAST({column} AS JSON) IS NOT NULL", name=f"{column}_json").ddl_if(
            dialect="postgresql"
        ),
    )


def _flag(column: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(f"{column} IN (0, 1)", name=column).ddl_if(dialect="sqlite")


projects = _table(
    "projects",
    _id(),
    _column("name", Text),
    _column("description", Text, optional=True),
    _column("mode", Text),
    _column("status", Text),
    _column("root_path", Text),
    _column("repository_url", Text, optional=True),
    _column("created_at", Micros),
    _column("updated_at", Micros),
    _column("completed_at", Micros, optional=True),
    _one_of("mode", ProjectMode),
    _one_of("status", ProjectStatus),
    _check("completed_at", "completed_at >= created_at"),
)

features = _table(
    "features",
    _id(),
    _project(),
    _column("name", Text),
    _column("description", Text, optional=True),
    _column("priority", Text, "'should'"),
    _column("status", Text, "'backlog'"),
    _column("estimated_tasks", Integer, "0"),
    _column("completed_tasks", Integer, "0"),
    _column("created_at", Micros),
    _column("updated_at", Micros),
    sa.UniqueConstraint("project_id", "id"),
    _one_of("priority", Priority),
    _one_of("status", FeatureStatus),
    _check("task_counts", "estimated_tasks >= 0 AND completed_tasks >= 0"),
    sa.Index("idx_features_project", "project_id", "created_at"),
)

sub_features = _table(
    "sub_features",
    _id(),
    _project(),
    _column("feature_id", Text),
    _column("name", Text),
    _column("description", Text, optional=True),
    _column("status", Text, "'backlog'"),
    _column("created_at", Micros),
    _inside(["feature_id"], "features", ondelete="CASCADE"),
    sa.UniqueConstraint("project_id", "feature_id", "id"),
    _one_of("status", FeatureStatus),
)

tasks = _table(
    "tasks",
    _id(),
    _project(),
    _column("feature_id", Text, optional=True),
    _column("sub_feature_id", Text, optional=True),
    _column("name", Text),
    _column("description", Text, optional=True),
    _column("status", Text, "'pending'"),
    _column("size", Text, "'small'"),
    _column("assigned_agent", Text, optional=True),
    _column("worktree_path", Text, optional=True),
    _column("branch_name", Text, optional=True),
    _column("qa_iterations", Integer, "0"),
    _column("max_iterations", Integer, "50"),
    _column("estimated_minutes", Integer, "15"),
    _column("actual_minutes", Integer, optional=True),
    _column("started_at", Micros, optional=True),
    _column("completed_at", Micros, optional=True),
    _column("created_at", Micros),
    _column("updated_at", Micros),
    _inside(["feature_id"], "features"),
    _inside(["feature_id", "sub_feature_id"], "sub_features", ["feature_id", "id"]),
    _inside(["assigned_agent"], "agents", use_alter=True),
    sa.UniqueConstraint("project_id", "id"),
    _one_of("status", TaskStatus),
    _one_of("size", TaskSize),
    _check("sub_feature_of_feature", "sub_feature_id IS NULL OR feature_id IS NOT NULL"),
    _check("max_iterations", "max_iterations BETWEEN 1 AND 50"),
    _check("qa_iterations", "qa_iterations BETWEEN 0 AND max_iterations"),
    _check("estimated_minutes", "estimated_minutes BETWEEN 1 AND 30"),
    _check("atomic_minutes", "size <> 'atomic' OR estimated_minutes <= 15"),
    _check("actual_minutes", "actual_minutes >= 0"),
    _check("completed_at", "completed_at >= started_at"),
    sa.Index("idx_tasks_project", "project_id", "created_at"),
    sa.Index("idx_tasks_status", "project_id", "status", "created_at"),
    sa.Index("idx_tasks_agent", "project_id", "assigned_agent"),
    sa.Index("idx_tasks_feature", "project_id", "feature_id", "sub_feature_id"),
)

_busy = tasks.c.status.in_([sa.literal_column(repr(str(status))) for status in BUSY_TASK_STATUSES])
_index_where(tasks.c.assigned_agent.is_not(None) & _busy, "uq_tasks_busy_agent", tasks.c.assigned_agent, unique=True)

task_dependencies = _table(
    "task_dependencies",
    _number("edge_no"),
    _project(),
    _column("task_id", Text),
    _column("depends_on_id", Text),
    _column("created_at", Micros),
    _inside(["task_id"], "tasks"),
    _inside(["depends_on_id"], "tasks"),
    sa.UniqueConstraint("project_id", "task_id", "depends_on_id"),
    _check("no_self_edge", "task_id <> depends_on_id"),
    sa.Index("idx_task_dependencies_depends_on", "project_id", "depends_on_id"),
)

task_history = _table(
    "task_history",
    _number("entry_no"),
    _project(),
    _column("task_id", Text),
    _column("from_status", Text, optional=True),
    _column("to_status", Text),
    _column("reason", Text, optional=True),
    _column("actor", Text),
    _column("goal_id", Text, optional=True),
    _column("seq", Integer, optional=True),
    _column("created_at", Micros),
    _inside(["task_id"], "tasks"),
    _one_of("from_status", TaskStatus),
    _one_of("to_status", TaskStatus),
    _check("is_a_change", "from_status <> to_status"),
    _check("goal_event", "(goal_id IS NULL) = (seq IS NULL) AND (seq IS NULL OR seq >= 1)"),
    sa.Index("idx_task_history_task", "project_id", "task_id", "entry_no"),
)

agents = _table(
    "agents",
    _id(),
    _project(),
    _column("type", Text),
    _column("status", Text, "'idle'"),
    _column("current_task_id", Text, optional=True),
    _column("worktree_path", Text, optional=True),
    _column("branch_name", Text, optional=True),
    _column("tokens_used", Integer, "0"),
    _column("tasks_completed", Integer, "0"),
    _column("tasks_failed", Integer, "0"),
    _column("spawned_at", Micros),
    _column("last_activity_at", Micros),
    _column("terminated_at", Micros, optional=True),
    _column("termination_reason", Text, optional=True),
    _inside(["current_task_id"], "tasks"),
    sa.UniqueConstraint("project_id", "id"),
    _one_of("type", AgentType),
    _one_of("status", AgentStatus),
    _check("counters", "tokens_used >= 0 AND tasks_completed >= 0 AND tasks_failed >= 0"),
    _check("last_activity_at", "last_activity_at >= spawned_at"),
    _check("terminated_at", "terminated_at >= spawned_at"),
    sa.Index("idx_agents_status", "project_id", "status"),
)
_index_where(agents.c.current_task_id.is_not(None), "uq_agents_current_task", agents.c.current_task_id, unique=True)

checkpoints = _table(
    "checkpoints",
    _id(),
    _project(),
    _column("name", Text, optional=True),
    _column("reason", Text, optional=True),
    _column("state", Text, optional=True),
    _column("git_commit", Text, optional=True),
    _column("created_at", Micros),
    _column("format_version", Integer),
    _column("sha256", Text),
    _column("size_bytes", Integer),
    _column("log_position", Integer, optional=True),
    _column("pinned", Flag, "false"),
    _flag("pinned"),
    _check("format_version", "format_version >= 1"),
    _check("sha256", "length(sha256) = 64"),
    _check("size_bytes", "size_bytes >= 0"),
    _check("log_position", "log_position >= 0"),
    sa.Index("idx_checkpoints_project", "project_id", "created_at", "id"),
)

requirements = _table(
    "requirements",
    _id(),
    _project(),
    _column("category", Text),
    _column("description", Text),
    _column("priority", Text, "'should'"),
    _column("source", Text, optional=True),
    _column("confidence", Real, optional=True),
    _column("validated", Flag, "false"),
    _column("created_at", Micros),
    sa.UniqueConstraint("project_id", "id"),
    _flag("validated"),
    _one_of("priority", Priority),
    _check("confidence", "confidence BETWEEN 0 AND 1"),
)

requirement_features = _table(
    "requirement_features",
    _number("link_no"),
    _project(),
    _column("requirement_id", Text),
    _column("feature_id", Text),
    _column("created_at", Micros),
    _inside(["requirement_id"], "requirements"),
    _inside(["feature_id"], "features"),
    sa.UniqueConstraint("project_id", "requirement_id", "feature_id"),
    sa.Index("idx_requirement_features_feature", "project_id", "feature_id"),
)

metrics = _table(
    "metrics",
    _id(),
    _project(),
    _column("agent_id", Text, optional=True),
    _column("task_id", Text, optional=True),
    _column("type", Text),
    _column("value", Real),
    _column("metadata", Json, optional=True),
    _column("timestamp", Micros),
    _inside(["agent_id"], "agents"),
    _inside(["task_id"], "tasks"),
    _one_of("type", MetricType),
    _check("value", f"value >= 0 AND value <= {LARGEST_REAL}"),
    *_json("metadata"),
    sa.Index("idx_metrics_project", "project_id", "type", "timestamp"),
    sa.Index("idx_metrics_task", "project_id", "task_id", "type"),
    sa.Index("idx_metrics_agent", "project_id", "agent_id"),
)

sessions = _table(
    "sessions",
    _id(),
    _project(),
    _column("type", Text),
    _column("status", Text, "'active'"),
    _column("data", Json, optional=True),
    _column("started_at", Micros),
    _column("ended_at", Micros, optional=True),
    _one_of("type", SessionType),
    _one_of("status", SessionStatus),
    _check("ended_at", "ended_at >= started_at"),
    *_json("data"),
    sa.Index("idx_sessions_project", "project_id", "started_at"),
)

builder_drafts = _table(
    "builder_drafts",
    sa.Column("session_id", Text, primary_key=True, nullable=False),
    _column("state_json", Text),
    _column("schema_version", Integer, "1"),
    _column("revision", Integer),
    _column("initial_description", Text),
    _column("phase", Text),
    _column("mode", Text),
    _column("question_count", Integer, "0"),
    _column("created_at", Micros),
    _column("updated_at", Micros),
    _one_of("phase", BuilderPhase),
    _one_of("mode", BuilderMode),
    _check("schema_version", "schema_version >= 1"),
    _check("revision", "revision >= 1"),
    _check("question_count", "question_count >= 0"),
    sa.Index("idx_builder_drafts_updated", "updated_at", "session_id"),
)

builder_memory = _table(
    "builder_memory",
    _id(),
    _column("purpose_category", Text),
    _column("initial_description", Text),
    _column("chosen_tone", Text),
    _column("chosen_model", Text),
    _column("chosen_skills", Json),
    _column("bot_slug", Text),
    _column("created_at", Micros),
    *_json("chosen_skills"),
    sa.Index("idx_builder_memory_category", "purpose_category", "created_at", "id"),
    sa.Index("idx_builder_memory_created", "created_at", "id"),
)

goals = _table(
    "goals",
    _number("goal_no"),
    _column("id", Text),
    _column("text", Text),
    _column("mind", Text),
    _column("bot", Text, optional=True),
    _column("status", Text),
    _column("reason", Text, optional=True),
    _column("waiting_for", Text, optional=True),
    _column("workdir", Text, optional=True),
    sa.Column("parent_id", Text, sa.ForeignKey("goals.id"), nullable=True),
    _column("parent_seq", Integer, optional=True),
    _column("runner", Text, "'cli'"),
    _column("start_key", Text, optional=True),
    _column("steps", Integer, "0"),
    _column("cost_usd", Real, "0"),
    _column("last_seq", Integer),
    _column("last_hash", Bytes),
    _column("epoch", Integer, "1"),
    _column("worker", Text, optional=True),
    _column("inbox_count", Integer, "0"),
    _column("created_at", Micros),
    _column("updated_at", Micros),
    _column("deleted_at", Micros, optional=True),
    _column("due_at", Micros, optional=True),
    sa.UniqueConstraint("id"),
    _one_of("mind", get_args(MindKind)),
    _one_of("status", get_args(Status)),
    _one_of("waiting_for", get_args(WaitingFor)),
    _one_of("runner", get_args(Runner)),
    _check(
        "parent",
        "(parent_id IS NULL) = (parent_seq IS NULL) AND (parent_seq IS NULL OR parent_seq BETWEEN 1 AND last_seq - 1)",
    ),
    _check("counts", "steps >= 0 AND last_seq >= 1 AND epoch >= 1 AND inbox_count >= 0"),
    _check("cost_usd", f"cost_usd >= 0 AND cost_usd <= {LARGEST_REAL}"),
    _check("last_hash", "length(last_hash) = 32"),
    sa.Index("idx_goals_status", "status", "goal_no"),
    sa.Index("idx_goals_parent", "parent_id"),
)
_index_where(goals.c.start_key.is_not(None), "uq_goals_start_key", goals.c.start_key, unique=True)
_index_where(goals.c.due_at.is_not(None), "idx_goals_due", goals.c.due_at)
_index_where(goals.c.inbox_count > 0, "idx_goals_posted", goals.c.worker)


def _goal() -> sa.Column[int]:
    return sa.Column("goal_no", Integer, sa.ForeignKey("goals.goal_no"), nullable=False)


events = _table(
    "events",
    _number("event_no"),
    _goal(),
    _column("seq", Integer),
    _column("id", Bytes),
    _column("type", Text),
    _column("v", Integer),
    _column("iteration", Integer),
    _column("timestamp", Micros),
    _column("payload", Text),
    _column("hash", Bytes),
    _column("key", Text, optional=True),
    sa.UniqueConstraint("goal_no", "seq"),
    _check("seq", "seq >= 1"),
    _check("id", "length(id) = 16"),
    _check("hash", "length(hash) = 32"),
)
_index_where(events.c.key.is_not(None), "uq_events_key", events.c.goal_no, events.c.key, unique=True)

inbox = _table(
    "inbox",
    _number("inbox_no"),
    _goal(),
    _column("id", Text),
    _column("kind", Text),
    _column("payload", Json),
    _column("key", Text),
    _column("created_at", Micros),
    sa.UniqueConstraint("goal_no", "key"),
    *_json("payload"),
)

leases = _table(
    "leases",
    sa.Column("worker", Text, primary_key=True, nullable=False),
    _column("host", Text),
    _column("home_id", Text),
    _column("boot_id", Text),
    _column("deadline", Integer),
)

VIEWS = ("requirement_list", "task_list")
"""Views are written in the migrations only: their SQL differs between the databases."""
