"""Give drafts, choices and checkpoints their defaults, let a choice lack details, and index statuses by themselves.

SQLite cannot change a default or NOT NULL, so there the three tables are made again; no other table refers to them.
"""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    by_dialect(sqlite=_make_again, postgresql=_alter)()
    for name in ("idx_tasks_status", "idx_agents_status"):
        op.execute(f"DROP INDEX {name}")
    for statement in STATUS_INDEXES:
        op.execute(statement)


def _make_again() -> None:
    for table, (body, columns) in TABLES.items():
        op.execute(f"CREATE TABLE {table}_before AS SELECT * FROM {table}")
        op.execute(f"DROP TABLE {table}")
        op.execute(f"CREATE TABLE {table} ({body}\n) STRICT")
        op.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM {table}_before")
        op.execute(f"DROP TABLE {table}_before")
    for statement in SQLITE_INDEXES:
        op.execute(statement)


def _alter() -> None:
    for statement in POSTGRESQL:
        op.execute(statement)


TABLES = {
    "builder_drafts": (
        """
session_id TEXT NOT NULL,
schema_version INTEGER DEFAULT 1 NOT NULL,
revision INTEGER DEFAULT 1 NOT NULL,
initial_description TEXT NOT NULL,
phase TEXT NOT NULL,
mode TEXT NOT NULL,
question_count INTEGER DEFAULT 0 NOT NULL,
created_at INTEGER NOT NULL,
updated_at INTEGER NOT NULL,
state_json TEXT NOT NULL,
CONSTRAINT pk_builder_drafts PRIMARY KEY (session_id),
CONSTRAINT ck_builder_drafts_phase CHECK (phase IN ('basics', 'personality', 'model', 'skills', 'review')),
CONSTRAINT ck_builder_drafts_mode CHECK (mode IN ('bot', 'reconfigure', 'skill', 'batch')),
CONSTRAINT ck_builder_drafts_schema_version CHECK (schema_version >= 1),
CONSTRAINT ck_builder_drafts_revision CHECK (revision >= 1),
CONSTRAINT ck_builder_drafts_question_count CHECK (question_count >= 0)""",
        "session_id, schema_version, revision, initial_description, phase, mode, question_count, created_at,"
        " updated_at, state_json",
    ),
    "builder_memory": (
        """
id TEXT NOT NULL,
purpose_category TEXT NOT NULL,
initial_description TEXT NOT NULL,
chosen_tone TEXT,
chosen_model TEXT,
chosen_skills TEXT DEFAULT '[]' NOT NULL,
bot_slug TEXT,
created_at INTEGER NOT NULL,
CONSTRAINT pk_builder_memory PRIMARY KEY (id),
CONSTRAINT ck_builder_memory_chosen_skills_json CHECK (chosen_skills IS NULL OR json_valid(chosen_skills))""",
        "id, purpose_category, initial_description, chosen_tone, chosen_model, chosen_skills, bot_slug, created_at",
    ),
    "checkpoints": (
        """
id TEXT NOT NULL,
project_id TEXT NOT NULL,
name TEXT,
reason TEXT,
state TEXT,
git_commit TEXT,
created_at INTEGER NOT NULL,
format_version INTEGER DEFAULT 1 NOT NULL,
sha256 TEXT NOT NULL,
size_bytes INTEGER NOT NULL,
log_position INTEGER,
pinned INTEGER DEFAULT false NOT NULL,
CONSTRAINT pk_checkpoints PRIMARY KEY (id),
CONSTRAINT ck_checkpoints_format_version CHECK (format_version >= 1),
CONSTRAINT ck_checkpoints_sha256 CHECK (length(sha256) = 64),
CONSTRAINT ck_checkpoints_size_bytes CHECK (size_bytes >= 0),
CONSTRAINT ck_checkpoints_log_position CHECK (log_position >= 0),
CONSTRAINT fk_checkpoints_project_id
    FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE,
CONSTRAINT ck_checkpoints_pinned CHECK (pinned IN (0, 1))""",
        "id, project_id, name, reason, state, git_commit, created_at, format_version, sha256, size_bytes,"
        " log_position, pinned",
    ),
}

SQLITE_INDEXES = (
    "CREATE INDEX idx_builder_drafts_updated ON builder_drafts (updated_at, session_id)",
    "CREATE INDEX idx_builder_memory_category ON builder_memory (purpose_category, created_at, id)",
    "CREATE INDEX idx_builder_memory_created ON builder_memory (created_at, id)",
    "CREATE INDEX idx_checkpoints_project ON checkpoints (project_id, created_at, id)",
)

POSTGRESQL = (
    "ALTER TABLE builder_drafts ALTER COLUMN revision SET DEFAULT 1",
    "ALTER TABLE builder_memory ALTER COLUMN chosen_tone DROP NOT NULL, ALTER COLUMN chosen_model DROP NOT NULL,"
    " ALTER COLUMN bot_slug DROP NOT NULL, ALTER COLUMN chosen_skills SET DEFAULT '[]'",
    "ALTER TABLE checkpoints ALTER COLUMN format_version SET DEFAULT 1",
)

STATUS_INDEXES = (
    "CREATE INDEX idx_tasks_status ON tasks (status, created_at)",
    "CREATE INDEX idx_tasks_project_status ON tasks (project_id, status, created_at)",
    "CREATE INDEX idx_agents_status ON agents (status, project_id)",
)
