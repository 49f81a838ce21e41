"""Record with each version of a bot which files had hand edits since the version before.

It is not known of the versions of before: there, each file that Forge has changed counts as edited, so that a rollback
keeps its text beside rather than drop an edit. SQLite reads a row from its beginning, so the large parts stay last.
"""

from alembic import op

from perdure.store.migrations.dialect import by_dialect

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    by_dialect(sqlite=_make_again, postgresql=_alter)()


def _make_again() -> None:
    op.execute("CREATE TABLE bot_versions_before AS SELECT * FROM bot_versions")
    op.execute("DROP TABLE bot_versions")
    op.execute(f"CREATE TABLE bot_versions ({BODY}\n) STRICT")
    op.execute(
        f"INSERT INTO bot_versions ({COLUMNS}, hand_edits) SELECT {COLUMNS}, CASE WHEN origin = 'reconfigure'"
        " AND json_type(sha256) = 'object' THEN (SELECT json_group_array(key) FROM json_each(sha256)) ELSE '[]' END"
        " FROM bot_versions_before"
    )
    op.execute("DROP TABLE bot_versions_before")
    for statement in INDEXES:
        op.execute(statement)


def _alter() -> None:
    op.execute(
        "ALTER TABLE bot_versions ADD COLUMN hand_edits TEXT DEFAULT '[]' NOT NULL, ADD CONSTRAINT"
        " ck_bot_versions_hand_edits_json CHECK (hand_edits IS NULL OR CAST(hand_edits AS JSON) IS NOT NULL)"
    )
    op.execute(
        "UPDATE bot_versions SET hand_edits = (SELECT COALESCE(json_agg(path), '[]')::text"
        " FROM json_object_keys(sha256::json) AS path)"
        " WHERE origin = 'reconfigure' AND json_typeof(sha256::json) = 'object'"
    )


COLUMNS = (
    "bot_id, number, state, origin, name, category, session_id, created_at, sha256, config, conversation, provenance,"
    " files"
)

BODY = """
bot_id TEXT NOT NULL,
number INTEGER NOT NULL,
state TEXT NOT NULL,
origin TEXT NOT NULL,
name TEXT NOT NULL,
category TEXT NOT NULL,
session_id TEXT,
created_at INTEGER NOT NULL,
hand_edits TEXT DEFAULT '[]' NOT NULL,
sha256 TEXT NOT NULL,
config TEXT NOT NULL,
conversation TEXT NOT NULL,
provenance TEXT NOT NULL,
files TEXT NOT NULL,
CONSTRAINT pk_bot_versions PRIMARY KEY (bot_id, number),
CONSTRAINT fk_bot_versions_bot_id FOREIGN KEY (bot_id) REFERENCES bots (id) ON DELETE CASCADE,
CONSTRAINT ck_bot_versions_state CHECK (state IN ('pending', 'current', 'past')),
CONSTRAINT ck_bot_versions_origin CHECK (origin IN ('assemble', 'reconfigure', 'rollback', 'import')),
CONSTRAINT ck_bot_versions_number CHECK (number >= 1),
CONSTRAINT ck_bot_versions_hand_edits_json CHECK (hand_edits IS NULL OR json_valid(hand_edits)),
CONSTRAINT ck_bot_versions_sha256_json CHECK (sha256 IS NULL OR json_valid(sha256)),
CONSTRAINT ck_bot_versions_config_json CHECK (config IS NULL OR json_valid(config)),
CONSTRAINT ck_bot_versions_conversation_json CHECK (conversation IS NULL OR json_valid(conversation)),
CONSTRAINT ck_bot_versions_provenance_json CHECK (provenance IS NULL OR json_valid(provenance)),
CONSTRAINT ck_bot_versions_files_json CHECK (files IS NULL OR json_valid(files))"""

INDEXES = (
    "CREATE UNIQUE INDEX uq_bot_versions_session ON bot_versions (session_id) WHERE session_id IS NOT NULL",
    "CREATE UNIQUE INDEX uq_bot_versions_current ON bot_versions (bot_id) WHERE state = 'current'",
)
