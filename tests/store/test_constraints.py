"""What each database itself refuses in a single row, or in two rows together."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from perdure.store.schema import metadata
from tests.sql import PlainSql, Refusal, insert
from tests.store.rows import NOW, REFERENCES, Reference, add, begin, goal_no, row

TABLES = tuple(metadata.tables)
PROJECT_TABLES = tuple(name for name, table in metadata.tables.items() if "project_id" in table.c)
NUMBERS = {
    "task_dependencies": "edge_no",
    "task_history": "entry_no",
    "requirement_features": "link_no",
    "goals": "goal_no",
    "events": "event_no",
    "inbox": "inbox_no",
}
"""Keys that the database gives out."""
NAMES = {"builder_drafts": "session_id", "idempotency_keys": "key", "leases": "worker"}
"""Keys that are names, where they are not called `id`."""
INSIDE = {"bot_versions": "number"}
"""Keys that are counted by whoever adds the row, in what it belongs to."""
OTHER_REFERENCES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "fk_goals_forked_from_id": ("goals", {"forked_from_id": "nowhere", "forked_from_seq": 1}),
    "fk_goals_parent_id": ("goals", {"parent_id": "nowhere", "parent_call_id": "a.1"}),
    "fk_events_goal_no": ("events", {"goal_no": 1}),
    "fk_inbox_goal_no": ("inbox", {"goal_no": 1}),
    "fk_bot_versions_bot_id": ("bot_versions", {"bot_id": "nowhere"}),
}
"""Rows that point at a goal or a bot that is not there."""

FEATURE_STATUSES = "backlog planning in_progress ai_review human_review done"
BUSY = "assigned in_progress qa_loop merging"
NOT_BUSY = "pending queued escalated approved completed failed blocked cancelled"
PRIORITIES = "must should could wont"

VOCABULARIES = {
    ("projects", "mode"): "genesis evolution",
    ("projects", "status"): "created interviewing planning executing paused completed failed",
    ("features", "priority"): PRIORITIES,
    ("features", "status"): FEATURE_STATUSES,
    ("sub_features", "status"): FEATURE_STATUSES,
    ("tasks", "status"): f"{BUSY} {NOT_BUSY}",
    ("tasks", "size"): "atomic small",
    ("task_history", "from_status"): f"{BUSY} {NOT_BUSY}",
    ("task_history", "to_status"): f"{BUSY} {NOT_BUSY}",
    ("agents", "type"): "planner coder tester reviewer merger",
    ("agents", "status"): "idle assigned working waiting error terminated",
    ("requirements", "priority"): PRIORITIES,
    ("metrics", "type"): "token_usage task_duration qa_iterations cost_usd",
    ("sessions", "type"): "interview planning execution review",
    ("sessions", "status"): "active paused completed",
    ("goals", "mind"): "command plan flow model",
    ("goals", "status"): "open waiting done failed cancelled",
    ("goals", "waiting_for"): "person signal timer limit",
    ("builder_drafts", "phase"): "basics personality model skills review",
    ("builder_drafts", "mode"): "bot reconfigure skill batch",
    ("bot_versions", "state"): "pending current past",
    ("bot_versions", "origin"): "assemble reconfigure rollback import",
}

OPTIONAL = {
    "projects": "description repository_url completed_at",
    "features": "description",
    "sub_features": "description",
    "tasks": "feature_id sub_feature_id description assigned_agent worktree_path branch_name actual_minutes"
    " started_at completed_at",
    "task_history": "from_status reason goal_id seq",
    "agents": "current_task_id worktree_path branch_name terminated_at termination_reason",
    "checkpoints": "name reason state git_commit log_position",
    "requirements": "source confidence",
    "metrics": "agent_id task_id metadata",
    "sessions": "data ended_at",
    "goals": "bot reason waiting_for workdir forked_from_id forked_from_seq start_key worker deleted_at due_at"
    " parent_id parent_call_id flow detail title messages last_text last_at",
    "events": "key",
    "builder_memory": "chosen_tone chosen_model bot_slug",
    "bots": "session_id",
    "bot_versions": "session_id",
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "features": {"priority": "should", "status": "backlog", "estimated_tasks": 0, "completed_tasks": 0},
    "sub_features": {"status": "backlog"},
    "tasks": {"status": "pending", "size": "small", "qa_iterations": 0, "max_iterations": 50, "estimated_minutes": 15},
    "agents": {"status": "idle", "tokens_used": 0, "tasks_completed": 0, "tasks_failed": 0},
    "checkpoints": {"pinned": False, "format_version": 1},
    "bot_versions": {"hand_edits": "[]"},
    "requirements": {"priority": "should", "validated": False},
    "sessions": {"status": "active"},
    "goals": {
        "queue": "cli",
        "steps": 0,
        "cost_usd": 0.0,
        "epoch": 1,
        "inbox_count": 0,
        "tags": "[]",
        "deaths": 0,
    },
    "leases": {"beat": 0, "ttl_us": 30_000_000},
    "builder_drafts": {"schema_version": 1, "revision": 1, "question_count": 0},
    "builder_memory": {"chosen_skills": "[]"},
}


@dataclass(frozen=True)
class Refused:
    """A row that breaks one CHECK, or on one of the databases a rule that comes before it."""

    rule: str
    table: str
    changes: Mapping[str, Any]
    sqlite: Refusal = "check"
    postgresql: Refusal = "check"

    def __str__(self) -> str:
        return _shown(self.rule, self.changes)


@dataclass(frozen=True)
class Duplicate:
    """Two rows that cannot both be there, the second where need be in another project."""

    rule: str
    table: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]
    second_project: str = "one"

    def __str__(self) -> str:
        return self.rule


def _shown(name: str, changes: Mapping[str, Any]) -> str:
    return f"{name}: {', '.join(f'{column} {str(value)[:20]!r}' for column, value in changes.items())}"


def _refused_words() -> Iterator[Refused]:
    for (table, column), words in VOCABULARIES.items():
        word = words.split()[0]
        for wrong in ("unknown", word.upper(), ""):
            yield Refused(f"ck_{table}_{column}", table, {column: wrong})


def _refused_json() -> Iterator[Refused]:
    columns = [("metrics", "metadata"), ("sessions", "data"), ("builder_memory", "chosen_skills"), ("inbox", "payload")]
    parts = ("hand_edits", "sha256", "config", "conversation", "provenance", "files")
    for table, column in (*columns, *(("bot_versions", part) for part in parts)):
        for text in ("", "{'a': 1}", "NaN", '"line\nbreak"'):
            yield Refused(f"ck_{table}_{column}_json", table, {column: text}, postgresql="type")


BELOW_0, ABOVE_1 = math.nextafter(0, -1), math.nextafter(1, 2)
ATOMIC = {"size": "atomic"}
A_GOAL = {"goal_id": "g"}
AN_ORIGIN = {"forked_from_id": "one-goal"}

REFUSED = (
    *_refused_words(),
    *_refused_json(),
    Refused("ck_projects_completed_at", "projects", {"completed_at": NOW - 1}),
    Refused("ck_features_task_counts", "features", {"estimated_tasks": -1}),
    Refused("ck_features_task_counts", "features", {"completed_tasks": -1}),
    Refused("ck_tasks_sub_feature_of_feature", "tasks", {"sub_feature_id": "one-sub-feature"}),
    Refused("ck_tasks_max_iterations", "tasks", {"max_iterations": 0}),
    Refused("ck_tasks_max_iterations", "tasks", {"max_iterations": 51}),
    Refused("ck_tasks_qa_iterations", "tasks", {"qa_iterations": -1}),
    Refused("ck_tasks_qa_iterations", "tasks", {"qa_iterations": 51}),
    Refused("ck_tasks_qa_iterations", "tasks", {"qa_iterations": 4, "max_iterations": 3}),
    Refused("ck_tasks_estimated_minutes", "tasks", {"estimated_minutes": 0}),
    Refused("ck_tasks_estimated_minutes", "tasks", {"estimated_minutes": 31}),
    Refused("ck_tasks_atomic_minutes", "tasks", ATOMIC | {"estimated_minutes": 16}),
    Refused("ck_tasks_actual_minutes", "tasks", {"actual_minutes": -1}),
    Refused("ck_tasks_completed_at", "tasks", {"started_at": NOW, "completed_at": NOW - 1}),
    Refused("ck_task_dependencies_no_self_edge", "task_dependencies", {"depends_on_id": "one-task"}),
    Refused("ck_task_history_is_a_change", "task_history", {"from_status": "failed", "to_status": "failed"}),
    Refused("ck_task_history_goal_event", "task_history", A_GOAL),
    Refused("ck_task_history_goal_event", "task_history", {"seq": 1}),
    Refused("ck_task_history_goal_event", "task_history", A_GOAL | {"seq": 0}),
    Refused("ck_agents_counters", "agents", {"tokens_used": -1}),
    Refused("ck_agents_counters", "agents", {"tasks_completed": -1}),
    Refused("ck_agents_counters", "agents", {"tasks_failed": -1}),
    Refused("ck_agents_last_activity_at", "agents", {"last_activity_at": NOW - 1}),
    Refused("ck_agents_terminated_at", "agents", {"terminated_at": NOW - 1}),
    Refused("ck_checkpoints_pinned", "checkpoints", {"pinned": "2"}, postgresql="type"),
    Refused("ck_checkpoints_pinned", "checkpoints", {"pinned": "-1"}, postgresql="type"),
    Refused("ck_checkpoints_format_version", "checkpoints", {"format_version": 0}),
    Refused("ck_checkpoints_sha256", "checkpoints", {"sha256": ""}),
    Refused("ck_checkpoints_sha256", "checkpoints", {"sha256": "6" * 63}),
    Refused("ck_checkpoints_sha256", "checkpoints", {"sha256": "7" * 65}),
    Refused("ck_checkpoints_size_bytes", "checkpoints", {"size_bytes": -1}),
    Refused("ck_checkpoints_log_position", "checkpoints", {"log_position": -1}),
    Refused("ck_requirements_validated", "requirements", {"validated": "2"}, postgresql="type"),
    Refused("ck_requirements_validated", "requirements", {"validated": "-1"}, postgresql="type"),
    Refused("ck_requirements_confidence", "requirements", {"confidence": BELOW_0}),
    Refused("ck_requirements_confidence", "requirements", {"confidence": ABOVE_1}),
    Refused("ck_requirements_confidence", "requirements", {"confidence": math.inf}),
    Refused("ck_metrics_value", "metrics", {"value": BELOW_0}),
    Refused("ck_metrics_value", "metrics", {"value": math.inf}),
    Refused("ck_metrics_value", "metrics", {"value": -math.inf}),
    Refused("ck_metrics_value", "metrics", {"value": math.nan}, sqlite="not null"),
    Refused("ck_sessions_ended_at", "sessions", {"ended_at": NOW - 1}),
    Refused("ck_builder_drafts_schema_version", "builder_drafts", {"schema_version": 0}),
    Refused("ck_builder_drafts_revision", "builder_drafts", {"revision": 0}),
    Refused("ck_builder_drafts_question_count", "builder_drafts", {"question_count": -1}),
    Refused("ck_idempotency_keys_body_sha256", "idempotency_keys", {"body_sha256": bytes(31)}),
    Refused("ck_bots_slug", "bots", {"slug": ""}),
    Refused("ck_bot_versions_number", "bot_versions", {"number": 0}),
    Refused("ck_goals_parent", "goals", {"parent_id": "one-goal"}),
    Refused("ck_goals_parent", "goals", {"parent_call_id": "a.1"}),
    Refused("ck_goals_counts", "goals", {"deaths": -1}),
    Refused("ck_goals_tags_json", "goals", {"tags": "["}, postgresql="type"),
    Refused("ck_goals_forked_from", "goals", {"forked_from_id": "one-goal"}),
    Refused("ck_goals_forked_from", "goals", {"forked_from_seq": 1}),
    Refused("ck_goals_forked_from", "goals", AN_ORIGIN | {"forked_from_seq": 0}),
    Refused("ck_goals_forked_from", "goals", AN_ORIGIN | {"forked_from_seq": 3}),
    Refused("ck_goals_counts", "goals", {"steps": -1}),
    Refused("ck_goals_counts", "goals", {"last_seq": 0}),
    Refused("ck_goals_counts", "goals", {"epoch": 0}),
    Refused("ck_goals_counts", "goals", {"inbox_count": -1}),
    Refused("ck_goals_cost_usd", "goals", {"cost_usd": BELOW_0}),
    Refused("ck_goals_cost_usd", "goals", {"cost_usd": math.inf}),
    Refused("ck_goals_last_hash", "goals", {"last_hash": bytes(31)}),
    Refused("ck_events_seq", "events", {"seq": 0}),
    Refused("ck_events_id", "events", {"id": bytes(17)}),
    Refused("ck_events_hash", "events", {"hash": b""}),
)

ACCEPTED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("projects", {"completed_at": NOW}),
    ("features", {"estimated_tasks": 0, "completed_tasks": 0}),
    ("tasks", {"max_iterations": 1, "qa_iterations": 1}),
    ("tasks", {"max_iterations": 50, "qa_iterations": 50}),
    ("tasks", {"estimated_minutes": 1}),
    ("tasks", {"estimated_minutes": 30}),
    ("tasks", ATOMIC | {"estimated_minutes": 15}),
    ("tasks", {"actual_minutes": 0}),
    ("tasks", {"started_at": NOW, "completed_at": NOW}),
    ("tasks", {"completed_at": NOW}),
    ("task_history", A_GOAL | {"seq": 1}),
    ("agents", {"last_activity_at": NOW, "terminated_at": NOW}),
    ("checkpoints", {"log_position": 0}),
    ("checkpoints", {"pinned": True}),
    ("requirements", {"confidence": 0.0, "validated": False}),
    ("requirements", {"confidence": 1.0, "validated": True}),
    ("metrics", {"value": 0.0}),
    ("metrics", {"value": sys.float_info.max}),
    ("metrics", {"metadata": '{"a": [1, null, "\\u00e9"]}'}),
    ("sessions", {"ended_at": NOW}),
    ("sessions", {"data": "null"}),
    ("goals", AN_ORIGIN | {"forked_from_seq": 1}),
    ("goals", AN_ORIGIN | {"forked_from_seq": 2}),
    ("goals", {"cost_usd": sys.float_info.max, "last_seq": 1}),
    ("events", {"payload": "damaged"}),
)

DUPLICATES = (
    *(
        Duplicate(f"pk_{table}", table, {key: "same"}, {key: "same"}, "two")
        for table in TABLES
        if table not in NUMBERS and table not in INSIDE
        for key in [NAMES.get(table, "id")]
    ),
    *(Duplicate(f"pk_{table}", table, {key: 7}, {key: 7}, "two") for table, key in NUMBERS.items()),
    Duplicate("pk_bot_versions", "bot_versions", {}, {}),
    Duplicate("uq_bot_versions_session", "bot_versions", {"session_id": "s"}, {"session_id": "s"}, "two"),
    Duplicate("uq_bot_versions_current", "bot_versions", {"state": "current"}, {"state": "current", "number": 2}),
    Duplicate("uq_bots_slug", "bots", {"slug": "same"}, {"slug": "same"}, "two"),
    Duplicate("uq_bots_session", "bots", {"session_id": "s"}, {"session_id": "s"}, "two"),
    Duplicate("uq_goals_id", "goals", {}, {}),
    Duplicate("uq_goals_start_key", "goals", {"start_key": "k"}, {"start_key": "k"}, "two"),
    Duplicate("uq_events_goal_no_seq", "events", {}, {}),
    Duplicate("uq_events_key", "events", {"key": "k"}, {"key": "k", "seq": 2}),
    Duplicate("uq_inbox_goal_no_key", "inbox", {}, {"id": "another"}),
    Duplicate("uq_task_dependencies_project_id_task_id_depends_on_id", "task_dependencies", {}, {}),
    Duplicate("uq_requirement_features_project_id_requirement_id_feature_id", "requirement_features", {}, {}),
    Duplicate(
        "uq_agents_current_task",
        "agents",
        {"id": "first", "current_task_id": "one-task"},
        {"id": "second", "current_task_id": "one-task"},
    ),
    Duplicate(
        "uq_tasks_busy_agent",
        "tasks",
        {"id": "first", "assigned_agent": "one-agent", "status": "assigned"},
        {"id": "second", "assigned_agent": "one-agent", "status": "merging"},
    ),
)


def _key(table: sa.Table | None) -> set[str]:
    return set() if table is None else set(table.primary_key.columns.keys())


def _optional(table: str) -> list[str]:
    return OPTIONAL.get(table, "").split()


def _columns(table: str, kind: type[sa.types.TypeEngine[Any]]) -> list[str]:
    """The columns of a type, without a key that the database gives out."""
    columns = metadata.tables[table].c
    return [column.name for column in columns if isinstance(column.type, kind) and NUMBERS.get(table) != column.name]


REQUIRED = [
    (name, column.name)
    for name, table in metadata.tables.items()
    for column in table.c
    if column.name not in _optional(name) and NUMBERS.get(name) != column.name
]


def refuses_row(sql: PlainSql, why: Refusal, table: str, changes: Mapping[str, Any], rule: str = "") -> None:
    values = row(table, **changes)
    sql.refuses(why, insert(table, values), values, rule=rule)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_row_that_breaks_a_check_is_refused(sql: PlainSql, case: Refused) -> None:
    begin(sql)
    why = case.sqlite if sql.name == "sqlite" else case.postgresql
    refuses_row(sql, why, case.table, case.changes, rule=case.rule if why == "check" else "")


@pytest.mark.parametrize(("table", "changes"), ACCEPTED, ids=[_shown(*case) for case in ACCEPTED])
def test_a_row_at_the_bound_of_a_check_is_accepted(sql: PlainSql, table: str, changes: Mapping[str, Any]) -> None:
    begin(sql)
    add(sql, table, **changes)


def test_a_change_of_a_row_is_checked_like_a_new_row(sql: PlainSql) -> None:
    begin(sql)
    sql.refuses("check", "UPDATE tasks SET estimated_minutes = 31", rule="ck_tasks_estimated_minutes")


@pytest.mark.parametrize(("table", "column"), VOCABULARIES, ids=[".".join(key) for key in VOCABULARIES])
def test_every_word_of_a_vocabulary_is_accepted(sql: PlainSql, table: str, column: str) -> None:
    begin(sql)
    counted = {**NUMBERS, **INSIDE}
    key = NAMES.get(table, counted.get(table, "id"))
    for number, word in enumerate(VOCABULARIES[table, column].split(), 1):
        changes: dict[str, Any] = {key: number if table in counted else word, column: word}
        if table == "goals":
            changes["id"] = word
        if column == "from_status":  # a transition leads to another status
            changes["to_status"] = "queued" if word == "pending" else "pending"
        add(sql, table, **changes)


def test_each_check_of_the_schema_is_tried() -> None:
    checks = {
        constraint.name
        for table in metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, sa.CheckConstraint)
    }
    assert checks == {case.rule for case in REFUSED}


def test_each_unique_rule_of_the_schema_is_tried() -> None:
    rules = {
        rule.name
        for table in metadata.tables.values()
        for rule in (*table.constraints, *(index for index in table.indexes if index.unique))
        if isinstance(rule, sa.PrimaryKeyConstraint | sa.Index)
        or (isinstance(rule, sa.UniqueConstraint) and set(rule.columns.keys()).isdisjoint(_key(rule.table)))
    }  # a constraint with the key in it is the target of references: the primary key alone keeps it unique
    assert rules == {case.rule for case in DUPLICATES}


def test_each_reference_of_the_schema_is_tried() -> None:
    references = {
        constraint.name: set(constraint.column_keys)
        for table in metadata.tables.values()
        for constraint in table.foreign_key_constraints
    }
    tried = {reference.rule for reference in REFERENCES} | set(OTHER_REFERENCES)
    assert {name for name, columns in references.items() if columns != {"project_id"}} == tried


@pytest.mark.parametrize(("table", "column"), REQUIRED, ids=[".".join(names) for names in REQUIRED])
def test_a_required_column_cannot_be_null(sql: PlainSql, table: str, column: str) -> None:
    begin(sql)
    refuses_row(sql, "not null", table, {column: None})


@pytest.mark.parametrize("table", TABLES)
def test_a_required_column_without_default_cannot_be_left_out(sql: PlainSql, table: str) -> None:
    begin(sql)
    for column in row(table):
        values = {name: value for name, value in row(table).items() if name != column}
        sql.refuses("not null", insert(table, values), values)


@pytest.mark.parametrize(("table", "key"), NUMBERS.items())
def test_a_number_that_the_database_gives_out_is_never_null(sql: PlainSql, table: str, key: str) -> None:
    begin(sql)
    values = row(table) | {key: None}
    if sql.name == "sqlite":  # takes it as a wish for the next number
        sql.run(insert(table, values), values)
    else:
        sql.refuses("not null", insert(table, values), values)
    assert sql.run(f"SELECT count(*) FROM {table} WHERE {key} IS NULL") == [(0,)]


def test_edges_are_numbered_in_the_order_of_their_creation(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "tasks", id="another")
    for needed in ("one-needed", "another"):
        add(sql, "task_dependencies", depends_on_id=needed)
    ordered = sql.run("SELECT depends_on_id FROM task_dependencies ORDER BY edge_no")
    assert ordered == [("one-needed",), ("another",)]


@pytest.mark.parametrize("table", TABLES)
def test_a_column_that_is_not_given_has_its_default_or_is_null(sql: PlainSql, table: str) -> None:
    begin(sql)
    given = row(table)
    expected = given | dict.fromkeys(_optional(table)) | DEFAULTS.get(table, {})
    assert {*expected, *([NUMBERS[table]] if table in NUMBERS else [])} == set(metadata.tables[table].c.keys())
    [stored] = sql.run(f"{insert(table, given)} RETURNING {', '.join(expected)}", given)
    assert stored == tuple(expected.values())


@pytest.mark.parametrize("table", TABLES)
def test_text_in_an_integer_column_is_refused(sql: PlainSql, table: str) -> None:
    begin(sql)
    columns = _columns(table, sa.BigInteger)
    assert columns
    for column in columns:
        refuses_row(sql, "type", table, {column: "soon"})


@pytest.mark.parametrize(
    ("table", "column"), [("requirements", "confidence"), ("metrics", "value"), ("goals", "cost_usd")]
)
def test_text_in_a_real_column_is_refused(sql: PlainSql, table: str, column: str) -> None:
    begin(sql)
    assert column in _columns(table, sa.Double)
    refuses_row(sql, "type", table, {column: "half"})


@pytest.mark.parametrize("case", DUPLICATES, ids=str)
def test_a_second_row_where_one_is_allowed_is_refused(sql: PlainSql, case: Duplicate) -> None:
    begin(sql, "one", "two")
    add(sql, case.table, **case.first)
    second = row(case.table, case.second_project, **case.second)
    sql.refuses("unique", insert(case.table, second), second, rule=case.rule)


@pytest.mark.parametrize("status", BUSY.split())
def test_an_agent_has_one_busy_task(sql: PlainSql, status: str) -> None:
    begin(sql)
    add(sql, "tasks", id="busy", assigned_agent="one-agent", status="in_progress")
    refuses_row(sql, "unique", "tasks", {"assigned_agent": "one-agent", "status": status}, rule="uq_tasks_busy_agent")


def test_an_agent_keeps_its_name_on_all_tasks_that_are_not_busy(sql: PlainSql) -> None:
    begin(sql)
    for number, status in enumerate(["in_progress", *NOT_BUSY.split(), "completed"]):
        add(sql, "tasks", id=f"task-{number}", assigned_agent="one-agent", status=status)


def test_a_finished_task_cannot_become_busy_again_while_its_agent_is(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "tasks", id="busy", assigned_agent="one-agent", status="in_progress")
    add(sql, "tasks", id="finished", assigned_agent="one-agent", status="completed")
    again = "UPDATE tasks SET status = 'qa_loop' WHERE id = 'finished'"
    sql.refuses("unique", again, rule="uq_tasks_busy_agent")


def test_any_number_of_busy_tasks_may_have_no_agent(sql: PlainSql) -> None:
    begin(sql)
    for name in ("first", "second"):
        add(sql, "tasks", id=name, status="in_progress", assigned_agent=None)


def test_any_number_of_agents_may_have_no_task(sql: PlainSql) -> None:
    begin(sql)
    for name in ("first", "second"):
        add(sql, "agents", id=name, current_task_id=None)


@pytest.mark.parametrize("table", PROJECT_TABLES)
def test_a_row_cannot_belong_to_a_project_that_is_not_there(sql: PlainSql, table: str) -> None:
    begin(sql)
    refuses_row(sql, "foreign key", table, {"project_id": "nowhere"})


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_a_row_can_name_a_row_of_its_own_project(sql: PlainSql, reference: Reference) -> None:
    begin(sql, "one", "two")
    add(sql, reference.table, **reference.naming(f"one-{reference.target}"))


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_a_row_cannot_point_into_another_project(sql: PlainSql, reference: Reference) -> None:
    begin(sql, "one", "two")
    changes = reference.naming(f"two-{reference.target}")
    refuses_row(sql, "foreign key", reference.table, changes, rule=reference.rule)


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_a_row_cannot_point_at_nothing(sql: PlainSql, reference: Reference) -> None:
    begin(sql)
    refuses_row(sql, "foreign key", reference.table, reference.naming("nowhere"), rule=reference.rule)


def test_a_task_cannot_name_a_sub_feature_of_another_feature(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "features", id="another")
    changes = {"feature_id": "another", "sub_feature_id": "one-sub-feature"}
    refuses_row(sql, "foreign key", "tasks", changes, rule="fk_tasks_project_id_feature_id_sub_feature_id")


@pytest.mark.parametrize("rule", OTHER_REFERENCES)
def test_a_row_cannot_belong_to_a_goal_that_is_not_there(sql: PlainSql, rule: str) -> None:
    begin(sql)
    table, changes = OTHER_REFERENCES[rule]
    refuses_row(sql, "foreign key", table, changes, rule=rule)


def test_any_number_of_events_may_have_no_key(sql: PlainSql) -> None:
    begin(sql)
    for seq in (1, 2):
        add(sql, "events", seq=seq)


def test_an_event_is_never_changed(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "events")
    sql.run("UPDATE goals SET deleted_at = 1")
    sql.refuses("trigger", "UPDATE events SET payload = 'other'", rule="events are never changed")
    sql.refuses("trigger", "UPDATE events SET seq = seq", rule="events are never changed")


def test_an_event_goes_only_when_its_goal_is_deleted(sql: PlainSql) -> None:
    begin(sql, "one", "two")
    for project in ("one", "two"):
        add(sql, "events", project)
    sql.refuses("trigger", "DELETE FROM events", rule="events go only when their goal is deleted")
    sql.run("UPDATE goals SET deleted_at = 1 WHERE id = 'one-goal'")
    sql.refuses("trigger", "DELETE FROM events", rule="events go only when their goal is deleted")
    sql.run("DELETE FROM events WHERE goal_no = :number", {"number": goal_no("one")})
    assert sql.run("SELECT goal_no FROM events") == [(goal_no("two"),)]


def test_a_goal_cannot_go_before_its_events(sql: PlainSql) -> None:
    begin(sql)
    add(sql, "events")
    sql.refuses("foreign key", "DELETE FROM goals", rule="fk_events_goal_no")


@pytest.mark.parametrize("backend", ["postgresql"])
@pytest.mark.parametrize("tables", ["events", "goals CASCADE"])
def test_events_are_never_truncated(sql: PlainSql, tables: str) -> None:
    begin(sql)
    sql.run("UPDATE goals SET deleted_at = 1")
    sql.refuses("trigger", f"TRUNCATE {tables}", rule="events are never changed")
