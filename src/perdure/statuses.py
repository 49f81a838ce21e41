"""The statuses of a goal: as they are stored, as they are shown, and which of them are final."""

from typing import Literal

Status = Literal["open", "waiting", "done", "failed", "cancelled"]
"""As it is stored; `running` and `interrupted` are told apart by the lease when it is read."""
GoalStatus = Literal["running", "interrupted", "waiting", "done", "failed", "cancelled"]
"""As it is shown on every surface."""
StatusWord = Literal[GoalStatus, "open"]
"""What goals are chosen by; `open` is running or interrupted."""

FINAL: frozenset[Status] = frozenset({"done", "failed", "cancelled"})
"""The statuses of a goal that has ended. Only a failed one can be retried."""
