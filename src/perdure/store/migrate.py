"""Runs migrations on a connection; the adapters choose the connection and hold the lock."""

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
"""Serializes migrations: `op` and `context` of Alembic are global, so two threads would run each other's SQL."""


def run_migrations(connection: sa.Connection, chain: Chain, before_commit: Callable[[int], None]) -> None:
    """Migrate the schema to the newest revision, with one transaction per revision.

    `before_commit` is called with the number of the revision inside its transaction; if it raises, that revision is
    rolled back.
    """

    def on_version_apply(*, step: Any, **_: Any) -> None:
        revision = int(step.up_revision_id)
        before_commit(revision)
        log.info("migrating to %04d", revision)
        failpoints.hit("store.migrate.commit.before")  # once per revision, before the commit of its transaction

    config = alembic_config(chain)
    config.attributes["connection"] = connection
    config.attributes["on_version_apply"] = on_version_apply
    with _one_at_a_time:
        command.upgrade(config, "head")
    failpoints.hit("store.migrate.commit.after")  # after the commit of the last one


def alembic_config(chain: Chain) -> Config:
    """Return the configuration of Alembic, without a file."""
    config = Config()
    config.set_main_option("script_location", str(chain.folder).replace("%", "%%"))
    return config
