"""Perdure: a home for AI agents that cannot lose their work."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure import sync as sync
    from perdure import testing as testing
    from perdure.app import Perdure
    from perdure.app.goals.handle import GoalHandle
    from perdure.app.goals.options import GoalOptions
    from perdure.app.wire.goal_view import GoalResult, GoalView
    from perdure.bots.bot import Bot
    from perdure.errors import (
        Conflict,
        Damaged,
        Denied,
        Exhausted,
        GoalCancelled,
        GoalFailed,
        GoalWaiting,
        Invalid,
        KeyTaken,
        NotFound,
        PerdureError,
        StepFailed,
        Unavailable,
        Waiting,
    )
    from perdure.forge.answers import BuilderAnswer
    from perdure.forge.assembly.assembly import AssemblyResult
    from perdure.forge.config import BuilderConfig
    from perdure.forge.turns import BuilderTurn
    from perdure.kernel.events import Effect, Event, Limits
    from perdure.kernel.history.compare import Parted
    from perdure.kernel.history.replay import Replayed
    from perdure.memory.append import append_record
    from perdure.memory.log.reading import iter_records, read_records
    from perdure.memory.paths import get_memory_state_dir
    from perdure.memory.record import MemoryRecord
    from perdure.minds.flow.current import CurrentStep, current_goal, current_step
    from perdure.minds.flow.flow import Flow, flow
    from perdure.minds.flow.goal import CallOptions, First, Goal
    from perdure.minds.flow.steps.checks import Happened
    from perdure.minds.retry import Retry
    from perdure.statuses import GoalStatus, Status
    from perdure.store.client import DatabaseClient

__version__ = "0.1.0"

__all__ = [
    "AssemblyResult",
    "Bot",
    "BuilderAnswer",
    "BuilderConfig",
    "BuilderTurn",
    "CallOptions",
    "Conflict",
    "CurrentStep",
    "Damaged",
    "DatabaseClient",
    "Denied",
    "Effect",
    "Event",
    "Exhausted",
    "First",
    "Flow",
    "Goal",
    "GoalCancelled",
    "GoalFailed",
    "GoalHandle",
    "GoalOptions",
    "GoalResult",
    "GoalStatus",
    "GoalView",
    "GoalWaiting",
    "Happened",
    "Invalid",
    "KeyTaken",
    "Limits",
    "MemoryRecord",
    "NotFound",
    "Parted",
    "Perdure",
    "PerdureError",
    "Replayed",
    "Retry",
    "Status",
    "StepFailed",
    "Unavailable",
    "Waiting",
    "append_record",
    "current_goal",
    "current_step",
    "flow",
    "get_memory_state_dir",
    "iter_records",
    "read_records",
]

_MODULES = ("sync", "testing")
_HOMES = {
    "AssemblyResult": "perdure.forge.assembly.assembly",
    "Bot": "perdure.bots.bot",
    "BuilderAnswer": "perdure.forge.answers",
    "BuilderConfig": "perdure.forge.config",
    "BuilderTurn": "perdure.forge.turns",
    "DatabaseClient": "perdure.store.client",
    "Effect": "perdure.kernel.events",
    "Event": "perdure.kernel.events",
    "Flow": "perdure.minds.flow.flow",
    "CallOptions": "perdure.minds.flow.goal",
    "First": "perdure.minds.flow.goal",
    "Goal": "perdure.minds.flow.goal",
    "GoalHandle": "perdure.app.goals.handle",
    "GoalOptions": "perdure.app.goals.options",
    "GoalResult": "perdure.app.wire.goal_view",
    "GoalStatus": "perdure.statuses",
    "GoalView": "perdure.app.wire.goal_view",
    "Limits": "perdure.kernel.events",
    "Parted": "perdure.kernel.history.compare",
    "Perdure": "perdure.app",
    "Replayed": "perdure.kernel.history.replay",
    "Status": "perdure.statuses",
    "MemoryRecord": "perdure.memory.record",
    "append_record": "perdure.memory.append",
    "flow": "perdure.minds.flow.flow",
    "CurrentStep": "perdure.minds.flow.current",
    "Happened": "perdure.minds.flow.steps.checks",
    "Retry": "perdure.minds.retry",
    "current_goal": "perdure.minds.flow.current",
    "current_step": "perdure.minds.flow.current",
    "get_memory_state_dir": "perdure.memory.paths",
    "iter_records": "perdure.memory.log.reading",
    "read_records": "perdure.memory.log.reading",
}


def _public(name: str) -> Any:
    """Import a public name at its first use, so that `import perdure` is fast."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "perdure.errors")), name)


if not TYPE_CHECKING:
    __getattr__ = _public  # a type checker would accept any name


def __dir__() -> list[str]:
    """List the public names, also those that were not imported yet."""
    return [*__all__]
