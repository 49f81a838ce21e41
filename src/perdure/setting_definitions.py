"""The definitions of all settings: names, flags, environment variables, help texts and defaults."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

DATABASE_FILE = "perdure.db"


@dataclass(frozen=True)
class Definition:
    """The definition of a setting."""

    name: str
    flag: str | None
    environment: tuple[str, ...]
    is_in_config: bool
    help: str
    default: Callable[[Path], str]
    is_place: bool = True
    """Whether the value is a path or a URL, which is made absolute."""
    is_flag: bool = False
    """Whether the value is true or false, which TOML writes without quotes."""
    is_list: bool = False
    """Whether the value is a list of names separated by commas, which TOML may write as an array of texts."""
    is_json: bool = False
    """Whether the value is a JSON array, which TOML writes as an array of tables."""


DEFINITIONS = (
    Definition(
        name="home",
        flag="--home",
        environment=("PERDURE_HOME",),
        is_in_config=False,
        help="The folder with all data of Perdure.",
        default=str,
    ),
    Definition(
        name="database_url",
        flag=None,
        environment=("PERDURE_DATABASE_URL", "DATABASE_PATH"),
        is_in_config=True,
        help="The database: a PostgreSQL URL, or a SQLite file.",
        default=lambda home: str(home / DATABASE_FILE),
    ),
    Definition(
        name="memory_state_dir",
        flag=None,
        environment=("MEMORY_STATE_DIR",),
        is_in_config=True,
        help="The folder of the memory log.",
        default=lambda home: str(home / "state"),
    ),
    Definition(
        name="park_after_s",
        flag=None,
        environment=("PERDURE_PARK_AFTER_S",),
        is_in_config=True,
        help="Release goals that sleep longer than this many seconds; they resume when due.",
        default=lambda _home: "60",
        is_place=False,
    ),
    Definition(
        name="flows",
        flag=None,
        environment=("PERDURE_FLOWS",),
        is_in_config=True,
        help="The flows that may be started over the API: module:function or names, separated by commas.",
        default=lambda _home: "",
        is_place=False,
        is_list=True,
    ),
    Definition(
        name="imports",
        flag="--import",
        environment=("PERDURE_IMPORTS",),
        is_in_config=True,
        help="Modules that define flows, separated by commas, in which goals find flows whose code was moved.",
        default=lambda _home: "",
        is_place=False,
        is_list=True,
    ),
    Definition(
        name="wake_cli_goals",
        flag=None,
        environment=("PERDURE_WAKE_CLI_GOALS",),
        is_in_config=True,
        help="Whether `perdure serve` wakes goals of the command line whose timer is due: true or false.",
        default=lambda _home: "true",
        is_place=False,
        is_flag=True,
    ),
    Definition(
        name="goals.keep_days",
        flag=None,
        environment=("PERDURE_GOALS_KEEP_DAYS",),
        is_in_config=True,
        help="A server deletes finished goals without forks this many days after their last event: 0 (never) to 36500.",
        default=lambda _home: "0",
        is_place=False,
    ),
    Definition(
        name="goals.cancel_grace_s",
        flag=None,
        environment=("PERDURE_GOALS_CANCEL_GRACE_S",),
        is_in_config=True,
        help="Seconds that the flow of a cancelled goal may clean up with @flow(cleanup=True) before the goal ends.",
        default=lambda _home: "60",
        is_place=False,
    ),
    Definition(
        name="model.default",
        flag=None,
        environment=("PERDURE_MODEL",),
        is_in_config=True,
        help="The default model of goals, as provider:name; without it, goals for a model are rejected.",
        default=lambda _home: "",
        is_place=False,
    ),
    Definition(
        name="model.fallbacks",
        flag=None,
        environment=("PERDURE_MODEL_FALLBACKS",),
        is_in_config=True,
        help="The models to try, in this order, when the model of a goal does not respond.",
        default=lambda _home: "",
        is_place=False,
        is_list=True,
    ),
    Definition(
        name="chat.bot",
        flag=None,
        environment=("PERDURE_CHAT_BOT",),
        is_in_config=True,
        help="The bot of `perdure chat` when none is named; `assistant` is the built-in one.",
        default=lambda _home: "assistant",
        is_place=False,
    ),
    Definition(
        name="policy.preset",
        flag=None,
        environment=("PERDURE_POLICY",),
        is_in_config=True,
        help="The policy preset of new goals, which sets what a model may do without asking: ask or read-only.",
        default=lambda _home: "ask",
        is_place=False,
    ),
    Definition(
        name="policy.rules",
        flag=None,
        environment=(),
        is_in_config=True,
        help="Rules in addition to the preset: tables [[policy.rules]] with tool, verdict and arguments.",
        default=lambda _home: "[]",
        is_place=False,
        is_json=True,
    ),
    Definition(
        name="memory.enabled",
        flag=None,
        environment=("MEMORY_ENABLED",),
        is_in_config=True,
        help="Whether the memory adds and finds records: true or false.",
        default=lambda _home: "true",
        is_place=False,
    ),
    Definition(
        name="memory.retention_days",
        flag=None,
        environment=("MEMORY_RETENTION_DAYS",),
        is_in_config=True,
        help="Days for which a record counts as related history and is kept by compaction, 1 to 365.",
        default=lambda _home: "90",
        is_place=False,
    ),
    Definition(
        name="memory.max_matches",
        flag=None,
        environment=("MEMORY_MAX_MATCHES",),
        is_in_config=True,
        help="Maximum number of related records that are shown, 1 to 20.",
        default=lambda _home: "3",
        is_place=False,
    ),
)
