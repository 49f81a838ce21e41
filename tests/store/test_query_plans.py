"""The questions that are asked often are answered through an index."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from perdure.kernel.ports import GoalFilter, Summary, Worker
from perdure.statuses import Status
from perdure.store.goals.leases import ClaimQuery, GoalRange
from perdure.store.goals.rows import BY_START_KEY, POSTED, conversation_listing, due_listing, listing
from perdure.store.schema import metadata
from tests.sql import PlainSql
from tests.store.rows import NOW, begin, row

PROJECTS = tuple(f"p{number}" for number in range(3))
ROWS_EACH = 10


@dataclass(frozen=True)
class Question:
    """A query, and the index that each database is to use for it."""

    name: str
    query: str
    index: str
    is_ordered: bool = False
    """Whether the index gives the rows in order, so that nothing is sorted."""

    def __str__(self) -> str:
        return self.name


READY = """
SELECT id FROM tasks AS task
WHERE project_id = 'p1' AND status = 'pending' AND NOT EXISTS (
    SELECT 1 FROM task_dependencies AS edge
    JOIN tasks AS needed ON needed.project_id = edge.project_id AND needed.id = edge.depends_on_id
    WHERE edge.project_id = task.project_id AND edge.task_id = task.id AND needed.status <> 'completed')"""


def listed(status: Status | None = None, before: str | None = None, queue: str | None = None) -> str:
    """The query of the state store, with its values written into it."""
    return listed_where(before, status=status, queue=queue)


def listed_where(before: str | None = None, **filters: Any) -> str:
    """The same, by any filters; a tag is looked for as both databases can."""
    return with_values(*listing(GoalFilter(**filters), "tags LIKE ?", before, 50))


def due(after: Summary | None = None, queue: str | None = None) -> str:
    """The same, for goals that are due."""
    return with_values(*due_listing(7, queue, after, 50))


def conversations(bot: str | None, after: tuple[int, str] | None = None) -> str:
    """The same, for the conversations with a bot."""
    return with_values(*conversation_listing(bot, after, 50))


def next_of(owner: str) -> str:
    """The same, for the open goal that a worker claims next; see also `test_claim_next`."""
    wanted = ClaimQuery(("server",), Worker("w", "host", "home", "boot"), {}, None, "1 = 0")
    return with_values(*GoalRange("open", "server", owner).first(wanted))


def with_values(statement: str, values: Sequence[object]) -> str:
    for value in values:
        statement = statement.replace("?", repr(value), 1)
    return statement


QUESTIONS = (
    Question(
        "tasks of a project by status",
        "SELECT * FROM tasks WHERE project_id = 'p1' AND status = 'pending' ORDER BY created_at",
        "idx_tasks_project_status",
        is_ordered=True,
    ),
    Question("ready tasks", READY, "idx_tasks_project_status"),
    Question("tasks by status", "SELECT * FROM tasks WHERE status = 'pending'", "idx_tasks_status"),
    Question(
        "tasks by status, oldest first",
        "SELECT * FROM tasks WHERE status = 'pending' ORDER BY created_at",
        "idx_tasks_status",
        is_ordered=True,
    ),
    Question("agents by status", "SELECT * FROM agents WHERE status = 'idle'", "idx_agents_status"),
    Question("goals by status", "SELECT * FROM goals WHERE status = 'open'", "idx_goals_status"),
    Question(
        "tasks of a project",
        "SELECT * FROM tasks WHERE project_id = 'p1' ORDER BY created_at",
        "idx_tasks_project",
        is_ordered=True,
    ),
    Question(
        "metrics of a task",
        "SELECT * FROM metrics WHERE project_id = 'p1' AND task_id = 'p1-005' AND type = 'cost_usd'",
        "idx_metrics_task",
    ),
    Question(
        "latest checkpoint of a project",
        "SELECT * FROM checkpoints WHERE project_id = 'p1' ORDER BY created_at DESC, id DESC LIMIT 1",
        "idx_checkpoints_project",
        is_ordered=True,
    ),
    Question(
        "features of a project",
        "SELECT * FROM features WHERE project_id = 'p1' ORDER BY created_at",
        "idx_features_project",
        is_ordered=True,
    ),
    Question(
        "drafts newest first",
        "SELECT session_id, phase FROM builder_drafts ORDER BY updated_at DESC, session_id DESC",
        "idx_builder_drafts_updated",
        is_ordered=True,
    ),
    Question(
        "drafts before one",
        "SELECT session_id, phase FROM builder_drafts WHERE (7, 'p1-005') > (updated_at, session_id)"
        " ORDER BY updated_at DESC, session_id DESC LIMIT 50",
        "idx_builder_drafts_updated",
        is_ordered=True,
    ),
    Question(
        "memories of a category newest first",
        "SELECT * FROM builder_memory WHERE purpose_category = 'c1' ORDER BY created_at DESC, id DESC",
        "idx_builder_memory_category",
        is_ordered=True,
    ),
    Question(
        "memories newest first",
        "SELECT * FROM builder_memory ORDER BY created_at DESC, id DESC",
        "idx_builder_memory_created",
        is_ordered=True,
    ),
    Question(
        "tasks of a sub-feature",
        "SELECT * FROM tasks WHERE project_id = 'p1' AND feature_id = 'p1-005' AND sub_feature_id = 'p1-005'",
        "idx_tasks_feature",
    ),
    Question(
        "tasks of an agent",
        "SELECT * FROM tasks WHERE project_id = 'p1' AND assigned_agent = 'p1-005'",
        "idx_tasks_agent",
    ),
    Question(
        "tasks that depend on a task",
        "SELECT * FROM task_dependencies WHERE project_id = 'p1' AND depends_on_id = 'p1-005'",
        "idx_task_dependencies_depends_on",
    ),
    Question(
        "history of a task",
        "SELECT * FROM task_history WHERE project_id = 'p1' AND task_id = 'p1-005' ORDER BY entry_no",
        "idx_task_history_task",
        is_ordered=True,
    ),
    Question(
        "agents of a project by status",
        "SELECT * FROM agents WHERE project_id = 'p1' AND status = 'idle'",
        "idx_agents_status",
    ),
    Question(
        "requirements of a feature",
        "SELECT * FROM requirement_features WHERE project_id = 'p1' AND feature_id = 'p1-005'",
        "idx_requirement_features_feature",
    ),
    Question(
        "metrics of a project by type",
        "SELECT * FROM metrics WHERE project_id = 'p1' AND type = 'cost_usd' ORDER BY timestamp",
        "idx_metrics_project",
        is_ordered=True,
    ),
    Question(
        "metrics of an agent",
        "SELECT * FROM metrics WHERE project_id = 'p1' AND agent_id = 'p1-005'",
        "idx_metrics_agent",
    ),
    Question(
        "calls that were made before yesterday",
        "SELECT key FROM idempotency_keys WHERE created_at <= 3",
        "idx_idempotency_keys_created",
    ),
    Question("goals of a status newest first", listed("open"), "idx_goals_status", is_ordered=True),
    Question("goals of a status before one", listed("open", "p1-005"), "idx_goals_status", is_ordered=True),
    Question("goals that a server may go on with", listed("open", None, "server"), "idx_goals_status", is_ordered=True),
    Question("goals of a server that are due", due(None, "server"), "idx_goals_due"),
    Question("goals of a worker that something was posted to", POSTED.replace("?", "'p1-w'"), "idx_goals_posted"),
    Question("the next open goal of a worker", next_of("p1-w"), "idx_goals_queue", is_ordered=True),
    Question("conversations with a bot", conversations("ada"), "idx_goals_conversations", is_ordered=True),
    Question(
        "conversations with the assistant after one",
        conversations(None, (7, "p1-005")),
        "idx_goals_conversations",
        is_ordered=True,
    ),
    Question("goals that are due", due(), "idx_goals_due"),  # those of one moment are sorted
    Question(
        "goals that are due after one", due(Summary("p1-005", "", "", "open", 0, 0, 1, due_us=3)), "idx_goals_due"
    ),
    Question("a goal by its start key", BY_START_KEY.replace("?", "'k'"), "uq_goals_start_key"),
    Question("goals of a start key", listed_where(start_key="k"), "uq_goals_start_key"),
    Question(
        "goals of a status since a moment",
        listed_where(status="open", created_after_us=5, tag="nightly"),
        "idx_goals_status",
        is_ordered=True,
    ),
    Question("goals of a flow newest first", listed_where(flow="flow1"), "idx_goals_flow", is_ordered=True),
    Question(
        "goals of a flow before one",
        listed_where(flow="flow1", before="p1-005"),
        "idx_goals_flow",
        is_ordered=True,
    ),
    Question("children of a goal", "SELECT id FROM goals WHERE parent_id = 'p1-goal'", "idx_goals_parent"),
    Question("forks of a goal", listed_where(forked_from="p1-goal"), "idx_goals_forked_from"),
    Question(
        "sessions of a project",
        "SELECT * FROM sessions WHERE project_id = 'p1' ORDER BY started_at",
        "idx_sessions_project",
        is_ordered=True,
    ),
)


def plan(sql: PlainSql, question: Question) -> list[str]:
    """How the database would answer a question, step by step."""
    if sql.name == "sqlite":
        return [str(step[3]) for step in sql.run(f"EXPLAIN QUERY PLAN {question.query}")]
    sql.run("SET LOCAL enable_seqscan = off")  # few rows: reading a whole table would be cheaper
    sql.run("SET LOCAL enable_bitmapscan = off")  # and so would noting their places first
    if question.is_ordered:
        sql.run("SET LOCAL enable_sort = off")  # and so would sorting them
    return [str(line) for (line,) in sql.run(f"EXPLAIN {question.query}")]


def populate(sql: PlainSql) -> None:
    """Give the planner enough rows of several projects to choose between indexes."""
    if sql.name == "postgresql":  # pages of rows that other tests rolled back make all indexes of a table cost the same
        sql.run("TRUNCATE projects CASCADE")
    begin(sql, *PROJECTS)
    several = [one_of_each(project, number) for project in PROJECTS for number in range(ROWS_EACH)]
    for table in several[0]:
        add_at_once(sql, table, [rows[table] for rows in several])
    sql.run("ANALYZE")


def one_of_each(project: str, number: int) -> dict[str, dict[str, Any]]:
    """One row for each table, in an order in which they can be inserted."""
    name, moment = f"{project}-{number:03}", NOW + number
    status, agent_status = ("pending", "idle") if number % 5 == 0 else ("completed", "terminated")
    changes: dict[str, dict[str, Any]] = {
        "features": {"id": name, "created_at": moment},
        "sub_features": {"id": name, "feature_id": name},
        "tasks": {"id": name, "created_at": moment, "status": status, "feature_id": name, "sub_feature_id": name},
        "task_dependencies": {"depends_on_id": name},
        "task_history": {"task_id": name},
        "agents": {"id": name, "status": agent_status},
        "checkpoints": {"id": name, "created_at": moment},
        "requirement_features": {"feature_id": name},
        "metrics": {"id": name, "task_id": name, "agent_id": name, "timestamp": moment},
        "sessions": {"id": name, "started_at": moment},
        "goals": {"id": name, "status": "open" if number % 5 == 0 else "done", "worker": f"{project}-w"}
        | {"forked_from_id": f"{project}-goal", "forked_from_seq": 1}
        | {"parent_id": f"{project}-goal", "parent_call_id": "a.1", "flow": f"flow{number % 9}"},
        "bots": {"id": name, "slug": name},
        "builder_drafts": {"session_id": name, "updated_at": moment},
        "idempotency_keys": {"key": name, "created_at": moment},
        "builder_memory": {"id": name, "purpose_category": f"c{number % 5}", "created_at": moment},
    }
    return {table: row(table, project, **change) for table, change in changes.items()}


def add_at_once(sql: PlainSql, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows by one statement: hundreds of statements are slow."""
    places = ", ".join(f"({', '.join(f':{name}_{number}' for name in values)})" for number, values in enumerate(rows))
    values = {f"{name}_{number}": value for number, values in enumerate(rows) for name, value in values.items()}
    sql.run(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES {places}", values)


def is_unwanted(step: str, question: Question) -> bool:
    """Whether a step reads a whole table, or builds at run time what an index is there for."""
    reads_all = "Seq Scan" in step or (step.startswith("SCAN") and "INDEX" not in step)
    sorts = question.is_ordered and ("TEMP B-TREE" in step or "Sort" in step)
    return reads_all or sorts or "AUTOMATIC" in step


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_question_is_answered_through_its_index(sql: PlainSql, question: Question) -> None:
    populate(sql)
    steps = plan(sql, question)
    assert [step for step in steps if re.search(rf"\b{question.index}\b", step)], steps
    assert not [step for step in steps if is_unwanted(step, question)], steps


def test_each_index_of_the_schema_answers_a_question() -> None:
    indexes = {index.name for table in metadata.tables.values() for index in table.indexes if not index.unique}
    assert indexes == {question.index for question in QUESTIONS if not question.index.startswith("uq_")}


@pytest.mark.parametrize("before", [None, "p1-005"])
def test_all_goals_are_listed_by_one_range_of_their_numbers(sql: PlainSql, before: str | None) -> None:
    populate(sql)
    index = "INTEGER PRIMARY KEY" if sql.name == "sqlite" else "pk_goals"
    question = Question("all goals", listed(before=before), index, is_ordered=True)
    steps = plan(sql, question)
    assert [step for step in steps if index in step], steps
    assert not [step for step in steps if is_unwanted(step, question)], steps
