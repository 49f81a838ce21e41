"""The questions that are asked often are answered through an index."""

import re
from dataclasses import dataclass

import pytest

from tests.sql import PlainSql
from tests.store.rows import NOW, add, begin

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

QUESTIONS = (
    Question(
        "tasks of a project by status",
        "SELECT * FROM tasks WHERE project_id = 'p1' AND status = 'pending' ORDER BY created_at",
        "idx_tasks_status",
        is_ordered=True,
    ),
    Question("ready tasks", READY, "idx_tasks_status"),
    Question(
        "tasks of a project",
        "SELECT * FROM tasks WHERE project_id = 'p1' ORDER BY created_at",
        "idx_tasks_project",
        is_ordered=True,
    ),
    Question(
        "metrics of a task",
        "SELECT * FROM metrics WHERE project_id = 'p1' AND task_id = 'p1-task' AND type = 'cost_usd'",
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
        "memories of a category newest first",
        "SELECT * FROM builder_memory WHERE purpose_category = 'c1' ORDER BY created_at DESC, id DESC",
        "idx_builder_memory_category",
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
    begin(sql, *PROJECTS)
    for project in PROJECTS:
        for number in range(ROWS_EACH):
            add_one_of_each(sql, project, number)
    sql.run("ANALYZE")


def add_one_of_each(sql: PlainSql, project: str, number: int) -> None:
    name, moment = f"{project}-{number:03}", NOW + number
    add(sql, "features", project, id=name, created_at=moment)
    add(sql, "tasks", project, id=name, created_at=moment, status="pending" if number % 5 == 0 else "completed")
    add(sql, "task_dependencies", project, task_id=name)
    add(sql, "metrics", project, id=name, task_id=name, timestamp=moment)
    add(sql, "checkpoints", project, id=name, created_at=moment)
    add(sql, "builder_drafts", session_id=name, updated_at=moment)
    add(sql, "builder_memory", id=name, purpose_category=f"c{number % 5}", created_at=moment)


def reads_a_whole_table(step: str) -> bool:
    return "Seq Scan" in step or (step.startswith("SCAN") and "INDEX" not in step)


def builds_what_an_index_would_give(step: str) -> bool:
    return "AUTOMATIC" in step or "TEMP B-TREE" in step or "Sort" in step


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_question_is_answered_through_its_index(sql: PlainSql, question: Question) -> None:
    populate(sql)
    steps = plan(sql, question)
    assert [step for step in steps if re.search(rf"\b{question.index}\b", step)], steps
    assert not [step for step in steps if reads_a_whole_table(step)], steps


@pytest.mark.parametrize("question", [question for question in QUESTIONS if question.is_ordered], ids=str)
def test_an_index_gives_the_rows_in_the_order_that_is_asked_for(sql: PlainSql, question: Question) -> None:
    populate(sql)
    steps = plan(sql, question)
    assert not [step for step in steps if builds_what_an_index_would_give(step)], steps
