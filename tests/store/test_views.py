"""The two views that show the rows of edges and joins as JSON arrays."""

import json
from collections.abc import Sequence

import pytest

from perdure.store.schema import VIEWS, metadata
from tests.sql import PlainSql
from tests.store.rows import add, begin

UNSORTED = ("m", "z", "a")
"""Ids whose order of creation is neither that of the alphabet nor its reverse."""


def listed(sql: PlainSql, view: str, column: str, row_id: str) -> list[str]:
    """The JSON array in one column of one row of a view."""
    [(text,)] = sql.run(f"SELECT {column} FROM {view} WHERE id = :row_id", {"row_id": row_id})
    assert isinstance(text, str)
    values: list[str] = json.loads(text)
    return values


def depend_on(sql: PlainSql, ids: Sequence[str], status: str = "pending") -> None:
    """Let the task of the project depend on new tasks."""
    for task in ids:
        add(sql, "tasks", id=task, status=status)
        add(sql, "task_dependencies", depends_on_id=task)


def names_of(sql: PlainSql, relation: str) -> list[str]:
    """The columns of a table or view, in their order."""
    if sql.name == "sqlite":
        return [str(name) for (name,) in sql.run(f"SELECT name FROM pragma_table_info('{relation}') ORDER BY cid")]
    query = "SELECT column_name FROM information_schema.columns WHERE table_name = :relation ORDER BY ordinal_position"
    return [str(name) for (name,) in sql.run(query, {"relation": relation})]


def test_depends_on_lists_dependencies_in_the_order_of_their_creation(sql: PlainSql) -> None:
    begin(sql)
    depend_on(sql, UNSORTED)
    assert listed(sql, "task_list", "depends_on", "one-task") == list(UNSORTED)


def test_blocked_by_lists_dependencies_in_the_order_of_their_creation(sql: PlainSql) -> None:
    begin(sql)
    depend_on(sql, UNSORTED, status="failed")
    assert listed(sql, "task_list", "blocked_by", "one-task") == list(UNSORTED)


def test_linked_features_lists_features_in_the_order_of_their_linking(sql: PlainSql) -> None:
    begin(sql)
    for feature in reversed(UNSORTED):
        add(sql, "features", id=feature)
    for feature in UNSORTED:
        add(sql, "requirement_features", feature_id=feature)
    assert listed(sql, "requirement_list", "linked_features", "one-requirement") == list(UNSORTED)


@pytest.mark.parametrize(
    ("view", "column", "row_id"),
    [
        ("task_list", "depends_on", "one-task"),
        ("task_list", "blocked_by", "one-task"),
        ("requirement_list", "linked_features", "one-requirement"),
    ],
)
def test_a_list_with_nothing_in_it_is_an_empty_array(sql: PlainSql, view: str, column: str, row_id: str) -> None:
    begin(sql)
    assert sql.run(f"SELECT {column} FROM {view} WHERE id = :row_id", {"row_id": row_id}) == [("[]",)]


def test_blocked_by_lists_failed_and_cancelled_dependencies_and_no_others(sql: PlainSql) -> None:
    begin(sql)
    statuses = (
        "pending cancelled queued assigned in_progress qa_loop failed escalated approved merging completed blocked"
    )
    for status in statuses.split():
        depend_on(sql, [f"is-{status}"], status)
    assert listed(sql, "task_list", "blocked_by", "one-task") == ["is-cancelled", "is-failed"]


def test_blocked_by_follows_the_status_of_the_dependency(sql: PlainSql) -> None:
    begin(sql)
    depend_on(sql, ["needed"], "failed")
    sql.run("UPDATE tasks SET status = 'pending' WHERE id = 'needed'")
    assert listed(sql, "task_list", "blocked_by", "one-task") == []


def test_a_task_that_is_needed_does_not_list_the_one_that_needs_it(sql: PlainSql) -> None:
    begin(sql)
    depend_on(sql, ["needed"])
    assert listed(sql, "task_list", "depends_on", "needed") == []


def test_the_lists_of_a_project_hold_nothing_of_another(sql: PlainSql) -> None:
    begin(sql, "one", "two")
    for project in ("one", "two"):
        add(sql, "task_dependencies", project)
        add(sql, "requirement_features", project)
    assert listed(sql, "task_list", "depends_on", "two-task") == ["two-needed"]
    assert listed(sql, "requirement_list", "linked_features", "two-requirement") == ["two-feature"]


def test_an_id_with_quotes_and_other_scripts_comes_back_whole(sql: PlainSql) -> None:
    begin(sql)
    ids = ['"quoted"', "back\\slash", "two\nlines", "日本語 🙂"]
    depend_on(sql, ids)
    assert listed(sql, "task_list", "depends_on", "one-task") == ids


@pytest.mark.parametrize(
    ("view", "table", "lists"),
    [
        ("task_list", "tasks", ["depends_on", "blocked_by"]),
        ("requirement_list", "requirements", ["linked_features"]),
    ],
)
def test_a_view_has_every_column_of_its_table_and_its_lists(
    sql: PlainSql, view: str, table: str, lists: list[str]
) -> None:
    assert names_of(sql, view) == [*metadata.tables[table].c.keys(), *lists]


def test_a_row_of_a_view_shows_the_values_of_its_table(sql: PlainSql) -> None:
    begin(sql)
    columns = ", ".join(metadata.tables["tasks"].c.keys())
    shown = sql.run(f"SELECT {columns} FROM task_list ORDER BY id")
    assert shown == sql.run(f"SELECT {columns} FROM tasks ORDER BY id")


def test_each_view_of_the_schema_is_in_the_database(sql: PlainSql) -> None:
    for view in VIEWS:
        assert names_of(sql, view)
