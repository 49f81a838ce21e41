"""The vocabulary of projects: modes, statuses, priorities, sizes and types, each with its allowed values."""

from enum import StrEnum


class ProjectMode(StrEnum):
    """Whether a project starts from an idea, or from an existing repository."""

    GENESIS = "genesis"
    EVOLUTION = "evolution"


class ProjectStatus(StrEnum):
    """The status of a project."""

    CREATED = "created"
    INTERVIEWING = "interviewing"
    PLANNING = "planning"
    EXECUTING = "executing"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


class FeatureStatus(StrEnum):
    """The status of a feature or sub-feature; derived from its tasks."""

    BACKLOG = "backlog"
    PLANNING = "planning"
    IN_PROGRESS = "in_progress"
    AI_REVIEW = "ai_review"
    HUMAN_REVIEW = "human_review"
    DONE = "done"


class TaskStatus(StrEnum):
    """The status of a task."""

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
    """The role of an agent."""

    PLANNER = "planner"
    CODER = "coder"
    TESTER = "tester"
    REVIEWER = "reviewer"
    MERGER = "merger"


class AgentStatus(StrEnum):
    """The status of an agent."""

    IDLE = "idle"
    ASSIGNED = "assigned"
    WORKING = "working"
    WAITING = "waiting"
    ERROR = "error"
    TERMINATED = "terminated"


class SessionType(StrEnum):
    """The purpose of a project session."""

    INTERVIEW = "interview"
    PLANNING = "planning"
    EXECUTION = "execution"
    REVIEW = "review"


class SessionStatus(StrEnum):
    """The status of a project session."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"


class Priority(StrEnum):
    """The priority of a feature or requirement (MoSCoW)."""

    MUST = "must"
    SHOULD = "should"
    COULD = "could"
    WONT = "wont"


class TaskSize(StrEnum):
    """The size of a task: an atomic one takes at most 15 minutes, a small one at most 30."""

    ATOMIC = "atomic"
    SMALL = "small"


class MetricType(StrEnum):
    """The measured quantity."""

    TOKEN_USAGE = "token_usage"
    TASK_DURATION = "task_duration"
    QA_ITERATIONS = "qa_iterations"
    COST_USD = "cost_usd"


BUSY_TASK_STATUSES = (TaskStatus.ASSIGNED, TaskStatus.IN_PROGRESS, TaskStatus.QA_LOOP, TaskStatus.MERGING)
"""The statuses of a task in which its agent cannot work on another task."""
