"""Create bots and their versions, and put the states of drafts last in their rows.

SQLite reads a row from its beginning: who lists drafts would read through a long state that stands before the rest.
"""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    columns = ", ".join(DRAFT_COLUMNS)
    op.execute("CREATE TABLE builder_drafts_before AS SELECT * FROM builder_drafts")
    op.execute("DROP TABLE builder_drafts")
    for table, template in TABLES.items():
        _create(table, template)
    for statement in INDEXES:
        op.execute(statement)
    op.execute(f"INSERT INTO builder_drafts ({columns}) SELECT {columns} FROM builder_drafts_before")
    op.execute("DROP TABLE builder_drafts_before")


def _create(table: str, template: str) -> None:
    words = {
        "INT": by_dialect(sqlite="INTEGER", postgresql="BIGINT"),
        "SLUG": by_dialect(sqlite="TEXT", postgresql='TEXT COLLATE "C"'),
        "STRICT": by_dialect(sqlite=" STRICT", postgresql=""),
    }
    body = template
    for word, meaning in words.items():
        body = body.replace(f"<{word}>", meaning)
    test = by_dialect(sqlite="json_valid({0})", postgresql="CAST({0} AS JSON) IS NOT NULL")
    checks = [
        f",\nCONSTRAINT ck_{table}_{name}_json CHECK ({name} IS NULL OR {test.format(name)})"
        for name in JSONS.get(table, ())
    ]
    op.execute(f"CREATE TABLE {table} ({body}{''.join(checks)}\n){words['STRICT']}")


DRAFT_COLUMNS = (
    *("session_id", "schema_version", "revision", "initial_description", "phase", "mode", "question_count"),
    *("created_at", "updated_at", "state_json"),
)

TABLES = {
    "builder_drafts": """
session_id TEXT NOT NULL,
schema_version <INT> DEFAULT 1 NOT NULL,
revision <INT> NOT NULL,
initial_description TEXT NOT NULL,
phase TEXT NOT NULL,
mode TEXT NOT NULL,
question_count <INT> DEFAULT 0 NOT NULL,
created_at <INT> NOT NULL,
updated_at <INT> NOT NULL,
state_json TEXT NOT NULL,
CONSTRAINT pk_builder_drafts PRIMARY KEY (session_id),
CONSTRAINT ck_builder_drafts_phase CHECK (phase IN ('basics', 'personality', 'model', 'skills', 'review')),
CONSTRAINT ck_builder_drafts_mode CHECK (mode IN ('bot', 'reconfigure', 'skill', 'batch')),
CONSTRAINT ck_builder_drafts_schema_version CHECK (schema_version >= 1),
CONSTRAINT ck_builder_drafts_revision CHECK (revision >= 1),
CONSTRAINT ck_builder_drafts_question_count CHECK (question_count >= 0)""",
    "bots": """
id TEXT NOT NULL,
slug <SLUG> NOT NULL,
name TEXT NOT NULL,
category TEXT NOT NULL,
session_id TEXT,
created_at <INT> NOT NULL,
updated_at <INT> NOT NULL,
CONSTRAINT pk_bots PRIMARY KEY (id),
CONSTRAINT uq_bots_slug UNIQUE (slug),
CONSTRAINT ck_bots_slug CHECK (slug <> '')""",
    "bot_versions": """
bot_id TEXT NOT NULL,
number <INT> NOT NULL,
state TEXT NOT NULL,
origin TEXT NOT NULL,
name TEXT NOT NULL,
category TEXT NOT NULL,
session_id TEXT,
created_at <INT> NOT NULL,
sha256 TEXT NOT NULL,
config TEXT NOT NULL,
conversation TEXT NOT NULL,
provenance TEXT NOT NULL,
files TEXT NOT NULL,
CONSTRAINT pk_bot_versions PRIMARY KEY (bot_id, number),
CONSTRAINT fk_bot_versions_bot_id FOREIGN KEY (bot_id) REFERENCES bots (id) ON DELETE CASCADE,
CONSTRAINT ck_bot_versions_state CHECK (state IN ('pending', 'current', 'past')),
CONSTRAINT ck_bot_versions_origin CHECK (origin IN ('assemble', 'reconfigure', 'rollback', 'import')),
CONSTRAINT ck_bot_versions_number CHECK (number >= 1)""",
}

JSONS = {"bot_versions": ("sha256", "config", "conversation", "provenance", "files")}

INDEXES = (
    "CREATE INDEX idx_builder_drafts_updated ON builder_drafts (updated_at, session_id)",
    "CREATE UNIQUE INDEX uq_bots_session ON bots (session_id) WHERE session_id IS NOT NULL",
    "CREATE UNIQUE INDEX uq_bot_versions_session ON bot_versions (session_id) WHERE session_id IS NOT NULL",
    "CREATE UNIQUE INDEX uq_bot_versions_current ON bot_versions (bot_id) WHERE state = 'current'",
)
