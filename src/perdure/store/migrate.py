"""Run the chain of migrations on a connection; the adapters decide where, and under which lock."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from perdure import failpoints
from perdure.store.migrations import Chain

log = logging.getLogger(__name__)

_one_at_a_time = threading.Lock()
"""Alembic's `op` and `context` belong to the whole process: two migrations at once would run each other's SQL."""


def run_migrations(connection: sa.Connection, chain: Chain, before_commit: Callable[[int], None]) -> None:
    """Bring the schema to the newest revision, one transaction each.

    `before_commit` gets the revision's number inside its transaction; if it raises, that revision is undone.
    """

    def on_version_apply(*, step: Any, **_: Any) -> None:
        revision = int(step.up_revision_id)
        before_commit(revision)
        log.info("migrated to %04d", revision)
        failpoints.hit("store.migrate.commit.before")

    config = alembic_config(chain)
    config.attributes["connection"] = connection
    config.attributes["on_version_apply"] = on_version_apply
    with _one_at_a_time:
        command.upgrade(config, "head")
    failpoints.hit("store.migrate.commit.after")


def alembic_config(chain: Chain) -> Config:
    """Alembic's configuration, made in code: there is no file to keep in step."""
    config = Config()
    config.set_main_option("script_location", str(chain.folder).replace("%", "%%"))
    return config
