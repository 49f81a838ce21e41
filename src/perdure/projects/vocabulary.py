"""The one vocabulary of projects: every mode, status, priority, size and type, each with its allowed words."""

from enum import StrEnum


class ProjectMode(StrEnum):
    """From an idea, or on an existing repository."""

    GENESIS = "genesis"
    EVOLUTION = "evolution"


class ProjectStatus(StrEnum):
    """Where a project stands."""

    CREATED = "created"
    INTERVIEWING = "interviewing"
    PLANNING = "planning"
    EXECUTING = "executing"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


class FeatureStatus(StrEnum):
    """Where a feature or sub-feature stands; derived from its tasks."""

    BACKLOG = "backlog"
    PLANNING = "planning"
    IN_PROGRESS = "in_progress"
    AI_REVIEW = "ai_review"
    HUMAN_REVIEW = "human_review"
    DONE = "done"


class TaskStatus(StrEnum):
    """Where a task stands."""

    PENDING = "pending"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    IN_PROGRESS = "in_progress"
    QA_LOOP = "qa_loop"
    ESCALATED = "escalated"
    APPROVED = "approved"
    MERGING = "merging"
    COMPLETED = "completed"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


class AgentType(StrEnum):
    """What an agent does."""

    PLANNER = "planner"
    CODER = "coder"
    TESTER = "tester"
    REVIEWER = "reviewer"
    MERGER = "merger"


class AgentStatus(StrEnum):
    """What an agent is busy with."""

    IDLE = "idle"
    ASSIGNED = "assigned"
    WORKING = "working"
    WAITING = "waiting"
    ERROR = "error"
    TERMINATED = "terminated"


class SessionType(StrEnum):
    """What a project session is for."""

    INTERVIEW = "interview"
    PLANNING = "planning"
    EXECUTION = "execution"
    REVIEW = "review"


class SessionStatus(StrEnum):
    """Where a project session stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"


class Priority(StrEnum):
    """How much a feature or requirement matters."""

    MUST = "must"
    SHOULD = "should"
    COULD = "could"
    WONT = "wont"


class TaskSize(StrEnum):
    """An atomic task takes at most 15 minutes, a small one at most 30."""

    ATOMIC = "atomic"
    SMALL = "small"


class MetricType(StrEnum):
    """What is measured."""

    TOKEN_USAGE = "token_usage"
    TASK_DURATION = "task_duration"
    QA_ITERATIONS = "qa_iterations"
    COST_USD = "cost_usd"


BUSY_TASK_STATUSES = (TaskStatus.ASSIGNED, TaskStatus.IN_PROGRESS, TaskStatus.QA_LOOP, TaskStatus.MERGING)
"""While a task is in one of these, its agent works on no other task."""
