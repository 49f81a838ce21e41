"""The tables of Forge: drafts, choices, and bots with all their versions."""

from typing import get_args

import sqlalchemy as sa

from perdure.forge.ports import BuilderMode, BuilderPhase, Origin, VersionState
from perdure.store.schema.parts import check, column, id_column, index_where, json_check, one_of, table
from perdure.store.schema.types import Integer, Json, Micros, Slug, Text

builder_drafts = table(  # the state last: SQLite reads a row from its beginning
    "builder_drafts",
    sa.Column("session_id", Text, primary_key=True, nullable=False),
    column("schema_version", Integer, "1"),
    column("revision", Integer, "1"),
    column("initial_description", Text),
    column("phase", Text),
    column("mode", Text),
    column("question_count", Integer, "0"),
    column("created_at", Micros),
    column("updated_at", Micros),
    column("state_json", Text),
    one_of("phase", BuilderPhase),
    one_of("mode", BuilderMode),
    check("schema_version", "schema_version >= 1"),
    check("revision", "revision >= 1"),
    check("question_count", "question_count >= 0"),
    sa.Index("idx_builder_drafts_updated", "updated_at", "session_id"),
)

builder_memory = table(
    "builder_memory",
    id_column(),
    column("purpose_category", Text),
    column("initial_description", Text),
    column("chosen_tone", Text, optional=True),
    column("chosen_model", Text, optional=True),
    column("chosen_skills", Json, "'[]'"),
    column("bot_slug", Text, optional=True),
    column("created_at", Micros),
    *json_check("chosen_skills"),
    sa.Index("idx_builder_memory_category", "purpose_category", "created_at", "id"),
    sa.Index("idx_builder_memory_created", "created_at", "id"),
)

bots = table(
    "bots",
    id_column(),
    column("slug", Slug),
    column("name", Text),
    column("category", Text),
    column("session_id", Text, optional=True),
    column("created_at", Micros),
    column("updated_at", Micros),
    sa.UniqueConstraint("slug"),
    check("slug", "slug <> ''"),
)
index_where(bots.c.session_id.is_not(None), "uq_bots_session", bots.c.session_id, unique=True)

bot_versions = table(
    "bot_versions",
    sa.Column("bot_id", Text, sa.ForeignKey("bots.id", ondelete="CASCADE"), primary_key=True, nullable=False),
    sa.Column("number", Integer, primary_key=True, autoincrement=False, nullable=False),
    column("state", Text),
    column("origin", Text),
    column("name", Text),
    column("category", Text),
    column("session_id", Text, optional=True),
    column("created_at", Micros),
    column("hand_edits", Json, "'[]'"),
    column("sha256", Json),
    column("config", Json),
    column("conversation", Json),
    column("provenance", Json),
    column("files", Json),
    one_of("state", get_args(VersionState)),
    one_of("origin", get_args(Origin)),
    check("number", "number >= 1"),
    *json_check("hand_edits"),
    *json_check("sha256"),
    *json_check("config"),
    *json_check("conversation"),
    *json_check("provenance"),
    *json_check("files"),
)
index_where(bot_versions.c.session_id.is_not(None), "uq_bot_versions_session", bot_versions.c.session_id, unique=True)
index_where(
    bot_versions.c.state == sa.literal_column("'current'"),
    "uq_bot_versions_current",
    bot_versions.c.bot_id,
    unique=True,
)
