"""A valid row for each table, what a project is filled with, and what points at what inside a project."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.sql import PlainSql, insert

NOW = 1_760_000_000_000_000


@dataclass(frozen=True)
class Reference:
    """A column that names a row of the same project."""

    table: str
    column: str
    target_table: str
    target: str
    """The part of the id that follows the project's."""
    rule: str
    beside: Mapping[str, str] = field(default_factory=dict)
    """Other columns of the naming row that the reference needs, each with such a part of an id."""

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"

    def naming(self, value: str | None, project: str = "one") -> dict[str, Any]:
        """The changes that make a row of `project` name `value`."""
        return {name: f"{project}-{target}" for name, target in self.beside.items()} | {self.column: value}


REFERENCES = (
    Reference("sub_features", "feature_id", "features", "feature", "fk_sub_features_project_id_feature_id"),
    Reference("tasks", "feature_id", "features", "feature", "fk_tasks_project_id_feature_id"),
    Reference(
        "tasks",
        "sub_feature_id",
        "sub_features",
        "sub-feature",
        "fk_tasks_project_id_feature_id_sub_feature_id",
        beside={"feature_id": "feature"},
    ),
    Reference("tasks", "assigned_agent", "agents", "agent", "fk_tasks_project_id_assigned_agent"),
    Reference("task_dependencies", "task_id", "tasks", "task", "fk_task_dependencies_project_id_task_id"),
    Reference("task_dependencies", "depends_on_id", "tasks", "needed", "fk_task_dependencies_project_id_depends_on_id"),
    Reference("task_history", "task_id", "tasks", "task", "fk_task_history_project_id_task_id"),
    Reference("agents", "current_task_id", "tasks", "task", "fk_agents_project_id_current_task_id"),
    Reference(
        "requirement_features",
        "requirement_id",
        "requirements",
        "requirement",
        "fk_requirement_features_project_id_requirement_id",
    ),
    Reference(
        "requirement_features", "feature_id", "features", "feature", "fk_requirement_features_project_id_feature_id"
    ),
    Reference("metrics", "agent_id", "agents", "agent", "fk_metrics_project_id_agent_id"),
    Reference("metrics", "task_id", "tasks", "task", "fk_metrics_project_id_task_id"),
)


def row(table: str, project: str = "one", **changes: Any) -> dict[str, Any]:
    """A valid row with no more than the columns that must be given; what it must name is there after `begin`."""
    own = {"id": f"{project}-new"}
    inside = {"project_id": project}
    rows: dict[str, dict[str, Any]] = {
        "projects": own
        | {
            "name": "P",
            "mode": "genesis",
            "status": "created",
            "root_path": "/p",
            "created_at": NOW,
            "updated_at": NOW,
        },
        "features": own | inside | {"name": "F", "created_at": NOW, "updated_at": NOW},
        "sub_features": own | inside | {"feature_id": f"{project}-feature", "name": "S", "created_at": NOW},
        "tasks": own | inside | {"name": "T", "created_at": NOW, "updated_at": NOW},
        "task_dependencies": inside
        | {"task_id": f"{project}-task", "depends_on_id": f"{project}-needed", "created_at": NOW},
        "task_history": inside
        | {"task_id": f"{project}-task", "to_status": "pending", "actor": "person", "created_at": NOW},
        "agents": own | inside | {"type": "coder", "spawned_at": NOW, "last_activity_at": NOW},
        "checkpoints": own | inside | {"created_at": NOW, "sha256": "0" * 64, "size_bytes": 0},
        "requirements": own | inside | {"category": "speed", "description": "R", "created_at": NOW},
        "requirement_features": inside
        | {"requirement_id": f"{project}-requirement", "feature_id": f"{project}-feature", "created_at": NOW},
        "metrics": own | inside | {"type": "cost_usd", "value": 0.5, "timestamp": NOW},
        "sessions": own | inside | {"type": "interview", "started_at": NOW},
        "builder_drafts": {"session_id": f"{project}-new", "state_json": "{}"}
        | {"initial_description": "D", "phase": "basics", "mode": "bot", "created_at": NOW, "updated_at": NOW},
        "goals": own
        | {"text": "G", "mind": "command", "status": "open", "last_seq": 3, "last_hash": bytes(32)}
        | {"created_at": NOW, "updated_at": NOW},
        "events": {"goal_no": goal_no(project), "seq": 1, "id": bytes(16), "type": "goal", "v": 1, "iteration": 0}
        | {"timestamp": NOW, "payload": "{}", "hash": bytes(32)},
        "inbox": own | {"goal_no": goal_no(project), "kind": "signal", "payload": "{}", "key": "k", "created_at": NOW},
        "leases": {"worker": f"{project}-new", "host": "h", "home_id": "h", "boot_id": "b", "deadline": NOW},
        "bots": own | {"slug": f"{project}-new", "name": "B", "category": "c", "created_at": NOW, "updated_at": NOW},
        "bot_versions": {"bot_id": f"{project}-bot", "number": 1, "state": "pending", "origin": "assemble"}
        | {"name": "B", "category": "c", "created_at": NOW, "sha256": "{}", "config": "{}", "conversation": "[]"}
        | {"provenance": "{}", "files": "{}"},
        "idempotency_keys": {"key": f"{project}-new", "route": "POST /", "body_sha256": bytes(32), "subject": "s"}
        | {"created_at": NOW},
        "builder_memory": own | {"purpose_category": "c", "initial_description": "D", "created_at": NOW},
    }
    return rows[table] | changes


def goal_no(project: str) -> int:
    """The number of the goal that `begin` makes beside a project."""
    return int.from_bytes(project.encode())


def add(sql: PlainSql, table: str, project: str = "one", **changes: Any) -> None:
    """Insert a valid row."""
    values = row(table, project, **changes)
    sql.run(insert(table, values), values)


def begin(sql: PlainSql, *projects: str) -> None:
    """Make projects, a goal and a bot beside each, and the rows that can be named; a sub-feature names its feature."""
    for project in projects or ("one",):
        add(sql, "projects", id=project)
        add(sql, "features", project, id=f"{project}-feature")
        add(sql, "sub_features", project, id=f"{project}-sub-feature")
        add(sql, "agents", project, id=f"{project}-agent")
        add(sql, "tasks", project, id=f"{project}-task")
        add(sql, "tasks", project, id=f"{project}-needed")
        add(sql, "requirements", project, id=f"{project}-requirement")
        add(sql, "goals", project, id=f"{project}-goal", goal_no=goal_no(project))
        add(sql, "bots", project, id=f"{project}-bot", slug=f"{project}-bot")


def fill(sql: PlainSql, *projects: str) -> None:
    """Make projects with rows in every table, and with every reference in use."""
    begin(sql, *projects)
    for project in projects:
        feature, task, agent = (f"{project}-{kind}" for kind in ("feature", "task", "agent"))
        add(sql, "task_dependencies", project)
        add(sql, "task_history", project, from_status="queued")
        add(sql, "requirement_features", project)
        add(sql, "checkpoints", project)
        add(sql, "sessions", project)
        add(sql, "metrics", project, agent_id=agent, task_id=task)
        sql.run(
            "UPDATE tasks SET status = 'in_progress', feature_id = :feature, sub_feature_id = :sub_feature,"
            " assigned_agent = :agent WHERE id = :task",
            {"feature": feature, "sub_feature": f"{project}-sub-feature", "agent": agent, "task": task},
        )
        sql.run(
            "UPDATE agents SET status = 'working', current_task_id = :task WHERE id = :agent",
            {"task": task, "agent": agent},
        )
