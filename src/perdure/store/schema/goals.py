"""The tables of goals. Triggers ensure that events are never changed, and deleted only with their goal."""

from typing import get_args

import sqlalchemy as sa

from perdure.kernel.ports import MindKind, WaitingFor
from perdure.statuses import Status
from perdure.store.schema.parts import (
    LARGEST_REAL,
    check,
    column,
    index_where,
    json_check,
    number,
    one_of,
    table,
)
from perdure.store.schema.types import Bytes, Integer, Json, Micros, Real, Text

goals = table(
    "goals",
    number("goal_no"),
    column("id", Text),
    column("text", Text),
    column("mind", Text),
    column("bot", Text, optional=True),
    column("status", Text),
    column("reason", Text, optional=True),
    column("waiting_for", Text, optional=True),
    column("workdir", Text, optional=True),
    sa.Column("forked_from_id", Text, sa.ForeignKey("goals.id"), nullable=True),
    column("forked_from_seq", Integer, optional=True),
    column("queue", Text, "'cli'"),
    column("start_key", Text, optional=True),
    column("steps", Integer, "0"),
    column("cost_usd", Real, "0"),
    column("last_seq", Integer),
    column("last_hash", Bytes),
    column("epoch", Integer, "1"),
    column("worker", Text, optional=True),
    column("inbox_count", Integer, "0"),
    column("created_at", Micros),
    column("updated_at", Micros),
    column("deleted_at", Micros, optional=True),
    column("due_at", Micros, optional=True),
    sa.Column("parent_id", Text, sa.ForeignKey("goals.id"), nullable=True),
    column("parent_call_id", Text, optional=True),
    column("tags", Json, "'[]'"),
    column("deaths", Integer, "0"),
    column("flow", Text, optional=True),
    column("detail", Text, optional=True),
    column("title", Text, optional=True),
    column("messages", Integer, optional=True),
    column("last_text", Text, optional=True),
    column("last_at", Micros, optional=True),
    sa.UniqueConstraint("id"),
    one_of("mind", get_args(MindKind)),
    one_of("status", get_args(Status)),
    one_of("waiting_for", get_args(WaitingFor)),
    check(
        "forked_from",
        "(forked_from_id IS NULL) = (forked_from_seq IS NULL)"
        " AND (forked_from_seq IS NULL OR forked_from_seq BETWEEN 1 AND last_seq - 1)",
    ),
    check("parent", "(parent_id IS NULL) = (parent_call_id IS NULL)"),
    check("counts", "steps >= 0 AND last_seq >= 1 AND epoch >= 1 AND inbox_count >= 0 AND deaths >= 0"),
    check("cost_usd", f"cost_usd >= 0 AND cost_usd <= {LARGEST_REAL}"),
    check("last_hash", "length(last_hash) = 32"),
    sa.Index("idx_goals_status", "status", "goal_no"),
    sa.Index("idx_goals_forked_from", "forked_from_id"),
    sa.Index("idx_goals_parent", "parent_id"),
    *json_check("tags"),
)
index_where(goals.c.flow.is_not(None), "idx_goals_flow", goals.c.flow, goals.c.goal_no)
index_where(goals.c.start_key.is_not(None), "uq_goals_start_key", goals.c.start_key, unique=True)
index_where(goals.c.due_at.is_not(None), "idx_goals_due", goals.c.due_at)
index_where(goals.c.inbox_count > 0, "idx_goals_posted", goals.c.worker, goals.c.queue, goals.c.goal_no)
index_where(goals.c.messages.is_not(None), "idx_goals_conversations", goals.c.bot, goals.c.last_at, goals.c.goal_no)
_is_open = sa.and_(goals.c.status.not_in(["waiting", "done", "failed", "cancelled"]), goals.c.deleted_at.is_(None))
"""The condition in the queries of `store.goals.leases`."""
index_where(_is_open, "idx_goals_queue", goals.c.queue, goals.c.worker, goals.c.goal_no)


def _goal() -> sa.Column[int]:
    return sa.Column("goal_no", Integer, sa.ForeignKey("goals.goal_no"), nullable=False)


events = table(
    "events",
    number("event_no"),
    _goal(),
    column("seq", Integer),
    column("id", Bytes),
    column("type", Text),
    column("v", Integer),
    column("iteration", Integer),
    column("timestamp", Micros),
    column("payload", Text),
    column("hash", Bytes),
    column("key", Text, optional=True),
    sa.UniqueConstraint("goal_no", "seq"),
    check("seq", "seq >= 1"),
    check("id", "length(id) = 16"),
    check("hash", "length(hash) = 32"),
)
index_where(events.c.key.is_not(None), "uq_events_key", events.c.goal_no, events.c.key, unique=True)

inbox = table(
    "inbox",
    number("inbox_no"),
    _goal(),
    column("id", Text),
    column("kind", Text),
    column("payload", Json),
    column("key", Text),
    column("created_at", Micros),
    sa.UniqueConstraint("goal_no", "key"),
    *json_check("payload"),
)

leases = table(
    "leases",
    sa.Column("worker", Text, primary_key=True, nullable=False),
    column("host", Text),
    column("home_id", Text),
    column("boot_id", Text),
    column("deadline", Integer),
    column("beat", Integer, "0"),
    column("ttl_us", Integer, "30000000"),
)
