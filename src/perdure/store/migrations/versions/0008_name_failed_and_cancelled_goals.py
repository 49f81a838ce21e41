"""Tell failed from cancelled goals, name queues and forks as such, and keep tags, deaths, flows and details.

SQLite cannot change a CHECK, so there the table is made again; its numbers, and with them its events, stay.
"""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    by_dialect(sqlite=_make_again, postgresql=_alter)()
    for statement in INDEXES:
        op.execute(statement)


def _make_again() -> None:
    kept = ", ".join(KEPT)
    checks = _checks("tags IS NULL OR json_valid(tags)")
    rules = "".join(f",\nCONSTRAINT ck_goals_{name} CHECK ({rule})" for name, rule in checks.items())
    values = {**RENAMED, "status": STATUS, "flow": _flow(SQLITE_FLOW)}
    op.execute("CREATE TABLE goals_before AS SELECT * FROM goals")
    op.execute("DROP TABLE goals")
    op.execute(f"CREATE TABLE goals ({TABLE}{rules}\n) STRICT")
    op.execute(
        f"INSERT INTO goals ({kept}, {', '.join(values)})"
        f" SELECT {kept}, {', '.join(values.values())} FROM goals_before AS goals"
    )
    op.execute("DROP TABLE goals_before")
    for statement in SQLITE_INDEXES:
        op.execute(statement)


def _alter() -> None:
    for statement in POSTGRESQL:
        op.execute(statement)
    op.execute(f"UPDATE goals SET status = {STATUS}, flow = {_flow(POSTGRESQL_FLOW)}")
    for name, rule in _checks("tags IS NULL OR CAST(tags AS JSON) IS NOT NULL").items():
        op.execute(f"ALTER TABLE goals ADD CONSTRAINT ck_goals_{name} CHECK ({rule})")


def _flow(name: str) -> str:
    """Return the SQL of a flow's name, by the first event of the goal; one that is damaged has none."""
    first = "FROM events WHERE events.goal_no = goals.goal_no AND type = 'goal' ORDER BY seq LIMIT 1"
    return f"CASE WHEN mind = 'flow' THEN (SELECT {name} {first}) END"


def _checks(is_json: str) -> dict[str, str]:
    return {
        "status": "status IN ('open', 'waiting', 'done', 'failed', 'cancelled')",
        "waiting_for": "waiting_for IN ('person', 'signal', 'timer', 'limit', 'child', 'hold')",
        "forked_from": (
            "(forked_from_id IS NULL) = (forked_from_seq IS NULL)"
            " AND (forked_from_seq IS NULL OR forked_from_seq BETWEEN 1 AND last_seq - 1)"
        ),
        "parent": "(parent_id IS NULL) = (parent_call_id IS NULL)",
        "counts": "steps >= 0 AND last_seq >= 1 AND epoch >= 1 AND inbox_count >= 0 AND deaths >= 0",
        "tags_json": is_json,
    }


STATUS = "CASE WHEN status <> 'stopped' THEN status WHEN reason = 'cancelled' THEN 'cancelled' ELSE 'failed' END"
RENAMED = {"forked_from_id": "parent_id", "forked_from_seq": "parent_seq", "queue": "runner"}
_SQLITE_PATH = "json_extract(payload, '$.mind.flow')"
SQLITE_FLOW = f"CASE WHEN json_valid(payload) THEN substr({_SQLITE_PATH}, instr({_SQLITE_PATH}, ':') + 1) END"
POSTGRESQL_FLOW = """substring(payload FROM '"flow"\\: ?"[^"]*\\:([^"]*)"')"""

KEPT = (
    *("goal_no", "id", "text", "mind", "bot", "reason", "waiting_for", "workdir", "start_key", "steps", "cost_usd"),
    *("last_seq", "last_hash", "epoch", "worker", "inbox_count", "created_at", "updated_at", "deleted_at", "due_at"),
)

TABLE = """
goal_no INTEGER NOT NULL,
id TEXT NOT NULL,
text TEXT NOT NULL,
mind TEXT NOT NULL,
bot TEXT,
status TEXT NOT NULL,
reason TEXT,
waiting_for TEXT,
workdir TEXT,
forked_from_id TEXT,
forked_from_seq INTEGER,
queue TEXT DEFAULT 'cli' NOT NULL,
start_key TEXT,
steps INTEGER DEFAULT 0 NOT NULL,
cost_usd REAL DEFAULT 0 NOT NULL,
last_seq INTEGER NOT NULL,
last_hash BLOB NOT NULL,
epoch INTEGER DEFAULT 1 NOT NULL,
worker TEXT,
inbox_count INTEGER DEFAULT 0 NOT NULL,
created_at INTEGER NOT NULL,
updated_at INTEGER NOT NULL,
deleted_at INTEGER,
due_at INTEGER,
parent_id TEXT,
parent_call_id TEXT,
tags TEXT DEFAULT '[]' NOT NULL,
deaths INTEGER DEFAULT 0 NOT NULL,
flow TEXT,
detail TEXT,
CONSTRAINT pk_goals PRIMARY KEY (goal_no),
CONSTRAINT uq_goals_id UNIQUE (id),
CONSTRAINT fk_goals_forked_from_id FOREIGN KEY (forked_from_id) REFERENCES goals (id),
CONSTRAINT fk_goals_parent_id FOREIGN KEY (parent_id) REFERENCES goals (id),
CONSTRAINT ck_goals_mind CHECK (mind IN ('command', 'plan', 'flow', 'model')),
CONSTRAINT ck_goals_cost_usd CHECK (cost_usd >= 0 AND cost_usd <= 1.7976931348623157e308),
CONSTRAINT ck_goals_last_hash CHECK (length(last_hash) = 32)"""

POSTGRESQL = (
    *(
        f"ALTER TABLE goals DROP CONSTRAINT ck_goals_{name}"
        for name in ("status", "waiting_for", "runner", "parent", "counts")
    ),
    "ALTER TABLE goals DROP CONSTRAINT fk_goals_parent_id",
    "DROP INDEX idx_goals_parent",
    "ALTER TABLE goals RENAME COLUMN parent_id TO forked_from_id",
    "ALTER TABLE goals RENAME COLUMN parent_seq TO forked_from_seq",
    "ALTER TABLE goals RENAME COLUMN runner TO queue",
    "ALTER TABLE goals ADD COLUMN parent_id TEXT, ADD COLUMN parent_call_id TEXT,"
    " ADD COLUMN tags TEXT DEFAULT '[]' NOT NULL, ADD COLUMN deaths BIGINT DEFAULT 0 NOT NULL,"
    " ADD COLUMN flow TEXT, ADD COLUMN detail TEXT",
    "ALTER TABLE goals ADD CONSTRAINT fk_goals_forked_from_id FOREIGN KEY (forked_from_id) REFERENCES goals (id)",
    "ALTER TABLE goals ADD CONSTRAINT fk_goals_parent_id FOREIGN KEY (parent_id) REFERENCES goals (id)",
)

SQLITE_INDEXES = (
    "CREATE INDEX idx_goals_status ON goals (status, goal_no)",
    "CREATE UNIQUE INDEX uq_goals_start_key ON goals (start_key) WHERE start_key IS NOT NULL",
    "CREATE INDEX idx_goals_posted ON goals (worker) WHERE inbox_count > 0",
    "CREATE INDEX idx_goals_due ON goals (due_at) WHERE due_at IS NOT NULL",
)

INDEXES = (
    "CREATE INDEX idx_goals_forked_from ON goals (forked_from_id)",
    "CREATE INDEX idx_goals_parent ON goals (parent_id)",
    "CREATE INDEX idx_goals_flow ON goals (flow, goal_no) WHERE flow IS NOT NULL",
)
