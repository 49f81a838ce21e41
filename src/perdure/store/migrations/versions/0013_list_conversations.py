"""Keep the title, the number of messages and the last text of each conversation, so that lists read no history.

Conversations of before are read once, here; those whose events cannot be read are not listed until their next message.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0013"
down_revision = "0012"

LONGEST_TITLE = 80
LONGEST_LAST_TEXT = 500

GOALS = (
    "SELECT goal_no, forked_from_id, forked_from_seq, last_seq FROM goals"
    " WHERE mind = 'model' AND deleted_at IS NULL ORDER BY goal_no"
)
ORIGIN = "SELECT goal_no, forked_from_id, forked_from_seq FROM goals WHERE id = :id"
IS_CHAT = "SELECT payload FROM events WHERE goal_no = :goal_no AND type = 'goal' ORDER BY seq LIMIT 1"
SAID = (
    "SELECT type, timestamp, payload FROM events"
    " WHERE goal_no = :goal_no AND seq <= :upto AND type IN ('message', 'model_turn') ORDER BY seq"
)
SET = (
    "UPDATE goals SET title = :title, messages = :messages, last_text = :last_text, last_at = :last_at"
    " WHERE goal_no = :goal_no"
)


def upgrade() -> None:
    whole = by_dialect(sqlite="INTEGER", postgresql="BIGINT")
    for column in ("title TEXT", f"messages {whole}", "last_text TEXT", f"last_at {whole}"):
        op.execute(f"ALTER TABLE goals ADD COLUMN {column}")
    for goal_no, origin_id, origin_seq, last_seq in op.get_bind().execute(sa.text(GOALS)).fetchall():
        overview = _overview(goal_no, origin_id, origin_seq, last_seq)
        if overview is not None:
            op.get_bind().execute(sa.text(SET), {"goal_no": goal_no, **overview})
    op.execute("CREATE INDEX idx_goals_conversations ON goals (bot, last_at, goal_no) WHERE messages IS NOT NULL")


def _overview(goal_no: int, origin_id: str | None, origin_seq: int | None, last_seq: int) -> dict[str, Any] | None:
    """Return the columns of a conversation; None for another goal, and for one that cannot be read."""
    overview: dict[str, Any] = {"messages": 0}
    try:
        first = op.get_bind().execute(sa.text(IS_CHAT), {"goal_no": goal_no}).scalar()
        if first is None or not json.loads(first)["mind"].get("chat"):
            return None
        for place, upto in _parts(goal_no, origin_id, origin_seq, last_seq):
            for kind, at, payload in op.get_bind().execute(sa.text(SAID), {"goal_no": place, "upto": upto}):
                _say(overview, kind, at, json.loads(payload))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return overview if overview["messages"] else None


def _parts(goal_no: int, origin_id: str | None, origin_seq: int | None, upto: int) -> list[tuple[int, int]]:
    """Return the goals whose events a goal has, its first origin first, each with the last seq of its part."""
    parts = [(goal_no, upto)]
    while origin_id is not None and origin_seq is not None:
        upto = min(upto, origin_seq)
        goal_no, origin_id, origin_seq = op.get_bind().execute(sa.text(ORIGIN), {"id": origin_id}).one()
        parts.insert(0, (goal_no, upto))
    return parts


def _say(overview: dict[str, Any], kind: str, at: int, content: dict[str, Any]) -> None:
    if kind == "message":
        if content.get("role", "user") != "user":
            return
        text = content["text"]
        overview["messages"] += 1
        overview.setdefault("title", _beginning(text, LONGEST_TITLE))
    else:
        text = "".join(_texts(content))
    if "title" in overview and text.strip():
        overview |= {"last_text": _beginning(text, LONGEST_LAST_TEXT), "last_at": at}


def _texts(turn: dict[str, Any]) -> Iterator[str]:
    return (part["text"] for part in turn["parts"] if part["kind"] == "text")


def _beginning(text: str, longest: int) -> str:
    """Return the beginning of a text, with NUL and lone surrogates as escapes."""
    shown = re.sub("\0", r"\\x00", text[:longest])
    return shown.encode(errors="backslashreplace").decode()[:longest]
