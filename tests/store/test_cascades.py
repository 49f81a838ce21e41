"""What goes with a deleted row, and what keeps a row from being deleted or renamed."""

from typing import Any

import pytest

from perdure.store.schema import metadata
from tests.sql import PlainSql
from tests.store.rows import REFERENCES, Reference, add, begin, fill

PROJECT_TABLES = tuple(name for name, table in metadata.tables.items() if "project_id" in table.c)
HELD = tuple(reference for reference in REFERENCES if reference.table != "sub_features")
"""References that keep what they name; a sub-feature goes with its feature instead."""

DELETE_ONE = "DELETE FROM projects WHERE id = 'one'"


def contents(sql: PlainSql, project: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a project."""
    held = {"projects": sql.run("SELECT * FROM projects WHERE id = :project", {"project": project})}
    for table in PROJECT_TABLES:
        rows = sql.run(f"SELECT * FROM {table} WHERE project_id = :project", {"project": project})
        held[table] = sorted(rows, key=repr)
    return held


def test_deleting_a_project_removes_all_its_rows(sql: PlainSql) -> None:
    fill(sql, "one", "two")
    assert all(contents(sql, "one").values())
    sql.run(DELETE_ONE)
    assert not any(contents(sql, "one").values())


def test_deleting_a_project_leaves_every_row_of_another_unchanged(sql: PlainSql) -> None:
    fill(sql, "one", "two")
    before = contents(sql, "two")
    sql.run(DELETE_ONE)
    assert contents(sql, "two") == before


def test_every_reference_is_in_use_when_projects_are_deleted(sql: PlainSql) -> None:
    fill(sql, "one")
    for reference in REFERENCES:
        query = f"SELECT count(*) FROM {reference.table} WHERE {reference.column} IS NOT NULL"
        assert sql.run(query) != [(0,)], reference


def test_all_projects_can_be_deleted_at_once(sql: PlainSql) -> None:
    fill(sql, "one", "two")
    sql.run("DELETE FROM projects")
    assert not any(contents(sql, "one").values())
    assert not any(contents(sql, "two").values())


def test_deleting_a_project_leaves_what_belongs_to_no_project(sql: PlainSql) -> None:
    fill(sql, "one")
    add(sql, "builder_drafts")
    add(sql, "builder_memory")
    add(sql, "bot_versions")
    sql.run(DELETE_ONE)
    assert sql.run("SELECT count(*) FROM builder_drafts") == [(1,)]
    assert sql.run("SELECT count(*) FROM builder_memory") == [(1,)]
    assert sql.run("SELECT count(*) FROM bot_versions") == [(1,)]


def test_the_versions_of_a_bot_go_with_it(sql: PlainSql) -> None:
    begin(sql, "one", "two")
    add(sql, "bot_versions")
    add(sql, "bot_versions", "two")
    sql.run("DELETE FROM bots WHERE id = 'one-bot'")
    assert sql.run("SELECT bot_id FROM bot_versions") == [("two-bot",)]


def test_deleting_a_feature_takes_its_sub_features_and_no_others(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "features", id="another")
    add(sql, "sub_features", id="of-another", feature_id="another")
    sql.run("DELETE FROM features WHERE id = 'one-feature'")
    assert sql.run("SELECT id FROM sub_features") == [("of-another",)]


def test_a_feature_stays_with_its_sub_features_while_a_task_names_one_of_them(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "tasks", feature_id="one-feature", sub_feature_id="one-sub-feature")
    before = contents(sql, "one")
    sql.refuses("foreign key", "DELETE FROM features WHERE id = 'one-feature'")
    assert contents(sql, "one") == before


@pytest.mark.parametrize("reference", HELD, ids=str)
def test_a_row_that_is_still_named_cannot_be_deleted(sql: PlainSql, reference: Reference) -> None:
    begin(sql)
    target = f"one-{reference.target}"
    add(sql, reference.table, **reference.naming(target))
    delete = f"DELETE FROM {reference.target_table} WHERE id = :target"
    sql.refuses("foreign key", delete, {"target": target}, rule=reference.rule)


@pytest.mark.parametrize("reference", HELD, ids=str)
def test_a_refused_deletion_sets_nothing_to_null(sql: PlainSql, reference: Reference) -> None:
    begin(sql)
    target = f"one-{reference.target}"
    add(sql, reference.table, **reference.naming(target))
    before = contents(sql, "one")
    sql.refuses("foreign key", f"DELETE FROM {reference.target_table} WHERE id = :target", {"target": target})
    assert contents(sql, "one") == before


@pytest.mark.parametrize("reference", HELD, ids=str)
def test_a_row_that_is_no_longer_named_can_be_deleted(sql: PlainSql, reference: Reference) -> None:
    begin(sql)
    target = {"target": f"one-{reference.target}"}
    add(sql, reference.table, **reference.naming(target["target"]))
    sql.run(f"DELETE FROM {reference.table} WHERE {reference.column} = :target", target)
    sql.run(f"DELETE FROM {reference.target_table} WHERE id = :target", target)
    assert sql.run(f"SELECT count(*) FROM {reference.target_table} WHERE id = :target", target) == [(0,)]


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
@pytest.mark.parametrize("change", ["id = 'renamed'", "project_id = 'two'"])
def test_a_row_that_is_named_keeps_its_id_and_its_project(sql: PlainSql, reference: Reference, change: str) -> None:
    begin(sql, "one", "two")
    target = f"one-{reference.target}"
    add(sql, reference.table, **reference.naming(target))
    update = f"UPDATE {reference.target_table} SET {change} WHERE id = :target"
    sql.refuses("foreign key", update, {"target": target})


def test_a_project_that_has_rows_keeps_its_id(sql: PlainSql) -> None:
    begin(sql)
    sql.refuses("foreign key", "UPDATE projects SET id = 'renamed' WHERE id = 'one'")


@pytest.mark.parametrize("table", PROJECT_TABLES)
def test_a_row_cannot_leave_its_project_for_none(sql: PlainSql, table: str) -> None:
    fill(sql, "one")
    sql.refuses("not null", f"UPDATE {table} SET project_id = NULL")


def test_a_task_that_names_rows_of_its_project_cannot_move_to_another(sql: PlainSql) -> None:
    begin(sql, "one", "two")
    add(sql, "tasks", feature_id="one-feature")
    move = "UPDATE tasks SET project_id = 'two' WHERE id = 'one-new'"
    sql.refuses("foreign key", move, rule="fk_tasks_project_id_feature_id")
