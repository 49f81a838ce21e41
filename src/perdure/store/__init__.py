"""The database: one schema and one chain of migrations for SQLite and PostgreSQL, and the client of both.

May import: the `ports` modules of features, settings, failpoints, errors. All SQL lives here.

The public stores, their ports and the values of these ports are names of this package, each imported at its first use:
`from perdure.store import SqliteStateStore, StateStore, BuilderDraft`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.forge.ports import (
        DRAFT_VERSION,
        BotPurpose,
        BotStore,
        BotSummary,
        BotVersion,
        BuilderDraft,
        BuilderDraftStore,
        BuilderDraftSummary,
        BuilderMemoryEntry,
        BuilderMemoryStore,
        BuilderMode,
        BuilderPhase,
        ChoicePlace,
        DraftPlace,
        Origin,
        PurposeCategory,
        VersionState,
        VersionSummary,
    )
    from perdure.kernel.ports import (
        ALL_GOALS,
        Admit,
        Appended,
        ChangedGoals,
        ChangeListener,
        Changes,
        ClaimedGoal,
        Clock,
        Ended,
        Event,
        ForkedFrom,
        GoalDirectory,
        GoalFilter,
        GoalState,
        GoalStore,
        IdempotencyKeys,
        IdempotentCall,
        Ids,
        Inbox,
        InboxRow,
        Leases,
        MindKind,
        Overview,
        Owned,
        OwnerSilent,
        ParentCall,
        Posted,
        StateStore,
        Summary,
        WaitingFor,
        Worker,
    )
    from perdure.projects.ports import (
        TaskDependencies,
        TaskEdge,
    )
    from perdure.statuses import FINAL, Status
    from perdure.store.builder.bots import SqlBotStore
    from perdure.store.builder.choices import SqlBuilderMemoryStore
    from perdure.store.builder.drafts import SqlBuilderDraftStore
    from perdure.store.client import DatabaseClient
    from perdure.store.goals.memory_state_store import InMemoryStateStore
    from perdure.store.goals.postgres import PostgresStateStore
    from perdure.store.goals.sqlite import SqliteStateStore
    from perdure.store.projects.dependencies import SqlTaskDependencies

__all__ = [
    "ALL_GOALS",
    "DRAFT_VERSION",
    "FINAL",
    "Admit",
    "Appended",
    "BotPurpose",
    "BotStore",
    "BotSummary",
    "BotVersion",
    "BuilderDraft",
    "BuilderDraftStore",
    "BuilderDraftSummary",
    "BuilderMemoryEntry",
    "BuilderMemoryStore",
    "BuilderMode",
    "BuilderPhase",
    "ChangeListener",
    "ChangedGoals",
    "Changes",
    "ChoicePlace",
    "ClaimedGoal",
    "Clock",
    "DatabaseClient",
    "DraftPlace",
    "Ended",
    "Event",
    "ForkedFrom",
    "GoalDirectory",
    "GoalFilter",
    "GoalState",
    "GoalStore",
    "IdempotencyKeys",
    "IdempotentCall",
    "Ids",
    "InMemoryStateStore",
    "Inbox",
    "InboxRow",
    "Leases",
    "MindKind",
    "Origin",
    "Overview",
    "Owned",
    "OwnerSilent",
    "ParentCall",
    "Posted",
    "PostgresStateStore",
    "PurposeCategory",
    "SqlBotStore",
    "SqlBuilderDraftStore",
    "SqlBuilderMemoryStore",
    "SqlTaskDependencies",
    "SqliteStateStore",
    "StateStore",
    "Status",
    "Summary",
    "TaskDependencies",
    "TaskEdge",
    "VersionState",
    "VersionSummary",
    "WaitingFor",
    "Worker",
]

_ADAPTERS = {
    "DatabaseClient": "perdure.store.client",
    "InMemoryStateStore": "perdure.store.goals.memory_state_store",
    "PostgresStateStore": "perdure.store.goals.postgres",
    "SqlBotStore": "perdure.store.builder.bots",
    "SqlBuilderDraftStore": "perdure.store.builder.drafts",
    "SqlBuilderMemoryStore": "perdure.store.builder.choices",
    "SqlTaskDependencies": "perdure.store.projects.dependencies",
    "SqliteStateStore": "perdure.store.goals.sqlite",
}
_PORTS = ("perdure.kernel.ports", "perdure.forge.ports", "perdure.projects.ports", "perdure.statuses")


def _public(name: str) -> Any:
    """Import a public name at its first use, because SQLAlchemy and the drivers are slow to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in [_ADAPTERS[name]] if name in _ADAPTERS else _PORTS:
        found = importlib.import_module(module)
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:
    __getattr__ = _public  # a type checker would accept any name


def __dir__() -> list[str]:
    """List the public names, including those that are not imported yet."""
    return [*__all__]
