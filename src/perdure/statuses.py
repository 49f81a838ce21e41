"""The statuses of a goal: stored, displayed and final ones."""

from typing import Literal

Status = Literal["open", "waiting", "done", "failed", "cancelled"]
"""The stored status; the lease distinguishes `running` and `interrupted`."""
GoalStatus = Literal["running", "interrupted", "waiting", "done", "failed", "cancelled"]
"""The status that every surface displays."""
StatusWord = Literal[GoalStatus, "open"]
"""A status in a filter; `open` means running or interrupted."""

FINAL: frozenset[Status] = frozenset({"done", "failed", "cancelled"})
"""The statuses of a goal that has ended. Only a failed one can be retried."""
