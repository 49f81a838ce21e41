"""Rows that tests put into a database."""

from collections.abc import Callable
from typing import Any

from perdure.store.transaction import Transaction
from tests.sql import insert


def project(name: str) -> dict[str, Any]:
    """A valid row of `projects`; its id is its name."""
    return {
        "id": name,
        "name": name,
        "mode": "genesis",
        "status": "created",
        "root_path": "/somewhere",
        "created_at": 1,
        "updated_at": 1,
    }


def new_project(name: str) -> Callable[[Transaction], str]:
    """A function for `DatabaseClient.transaction` that stores a project and returns its id."""

    def run(tx: Transaction) -> str:
        tx.execute(insert("projects", project(name)), project(name))
        return name

    return run


def project_names(tx: Transaction) -> list[str]:
    """A function for `DatabaseClient.read` that returns the names of all projects, sorted."""
    return [row[0] for row in tx.execute("SELECT name FROM projects ORDER BY name")]
