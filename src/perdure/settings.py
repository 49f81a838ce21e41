"""Settings with their origins, and the home: the folder with all data of Perdure.

A flag wins over the environment, the environment over `config.toml` in the home, that over the default.
Files in the current folder are not read: a repository must not configure the program that runs inside it.
"""

import difflib
import json
import os
import pwd
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from perdure.errors import Invalid, from_os_error
from perdure.model_settings import ModelDefaults, ModelTable, read_model_tables, shown_tables
from perdure.setting_definitions import DEFINITIONS, Definition
from perdure.text.strict_json import parse_json

CONFIG_FILE = "config.toml"

GOALS_TABLE = "goals"
MODEL_TABLE = "model"
POLICY_TABLE = "policy"
MODELS_TABLE = "models"
MEMORY_TABLE = "memory"
"""The table of `config.toml` whose mistakes only affect the memory."""

_MOST_DAYS = 36_500
_FLAGS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_SHOWN_OPTIONS = ("host", "port", "user", "dbname", "sslmode")
_MAY_BE_SECRET = re.compile(r"password|^postgres\w*:", re.IGNORECASE)


class NoHome(Invalid):
    """Neither the environment nor the account of the user names a home folder."""


@dataclass(frozen=True)
class Setting:
    """One setting, its value and the origin of the value."""

    name: str
    value: str
    origin: str

    @property
    def shown(self) -> str:
        """The value without passwords."""
        return shown_location(self.value)


@dataclass(frozen=True)
class MemorySettings:
    """The parsed settings of the memory."""

    enabled: bool = True
    retention_days: int = 90
    max_matches: int = 3


@dataclass(frozen=True)
class Settings:
    """All settings, each with its origin; `problems` are mistakes in the table of the memory."""

    entries: tuple[Setting, ...]
    problems: tuple[str, ...] = ()
    model_tables: Mapping[str, ModelTable] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return Path(self._value("home"))

    @property
    def database_url(self) -> str:
        return self._value("database_url")

    @property
    def memory_state_dir(self) -> Path:
        return Path(self._value("memory_state_dir"))

    @property
    def park_after_s(self) -> float:
        """Raises: Invalid when it is not a number of seconds."""
        return _seconds("park_after_s", self._value("park_after_s"))

    @property
    def cancel_grace_s(self) -> float:
        """The time for the cleanup of the flow of a cancelled goal.

        Raises: Invalid when it is not a number of seconds.
        """
        return _seconds("goals.cancel_grace_s", self._value("goals.cancel_grace_s"))

    @property
    def keep_days(self) -> int:
        """The number of days for which finished goals are kept; 0 means forever.

        Raises: Invalid
        """
        entry = self._entry("goals.keep_days")
        days = 0 if entry.value.strip() == "0" else _whole(entry.value, _MOST_DAYS)
        if days is None:
            raise Invalid(_unexpected(entry, f"a whole number of days from 0 (never) to {_MOST_DAYS}"))
        return days

    @property
    def chat_bot(self) -> str:
        """The bot of `perdure chat` when none is named."""
        return self._value("chat.bot").strip()

    @property
    def flows(self) -> tuple[str, ...]:
        """The flows that may be started over the API."""
        return _names(self._entry("flows"))

    @property
    def imports(self) -> tuple[str, ...]:
        """The modules in which flows are searched.

        Raises: Invalid when one is not the name of a module.
        """
        names = _names(entry := self._entry("imports"))
        if not all(part.isidentifier() for name in names for part in name.split(".")):
            raise Invalid(_unexpected(entry, "names of modules separated by commas, such as shop.flows"))
        return names

    @property
    def wake_cli_goals(self) -> bool:
        """Whether a server wakes goals of the command line.

        Raises: Invalid when it is neither true nor false.
        """
        entry = self._entry("wake_cli_goals")
        is_set = _FLAGS.get(entry.value.strip().lower())
        if is_set is None:
            raise Invalid(_unexpected(entry, "true or false"))
        return is_set

    @property
    def memory(self) -> MemorySettings:
        """The settings of the memory.

        Raises: Invalid, naming every invalid setting; only the memory is affected.
        """
        flag, days, matches = (self._entry(f"{MEMORY_TABLE}.{name}") for name in MemorySettings.__dataclass_fields__)
        enabled = _FLAGS.get(flag.value.strip().lower())
        retention_days, max_matches = _whole(days.value, 365), _whole(matches.value, 20)
        problems = list(self.problems)
        if enabled is None:
            problems.append(_unexpected(flag, "true or false"))
        if retention_days is None:
            problems.append(_unexpected(days, "a whole number from 1 to 365"))
        if max_matches is None:
            problems.append(_unexpected(matches, "a whole number from 1 to 20"))
        if enabled is None or retention_days is None or max_matches is None or problems:
            raise Invalid(f"The settings of the memory are invalid: {problems[0]}", errors=problems)
        return MemorySettings(enabled, retention_days, max_matches)

    @property
    def models(self) -> ModelDefaults:
        """The settings of models."""
        default = self._value("model.default").strip() or None
        return ModelDefaults(default, _names(self._entry("model.fallbacks")), self.model_tables)

    @property
    def policy(self) -> Mapping[str, object]:
        """The policy of new goals as it is written: a preset and additional rules."""
        return {
            "preset": self._value("policy.preset").strip(),
            "rules": parse_json(self._value("policy.rules"), "policy.rules"),
        }

    @property
    def bots_dir(self) -> Path:
        return self.home / "bots"

    @property
    def skills_dir(self) -> Path:
        return self.home / "skills"

    @property
    def log_file(self) -> Path:
        return self.home / "logs" / "perdure.log"

    def _value(self, name: str) -> str:
        return self._entry(name).value

    def _entry(self, name: str) -> Setting:
        return next(entry for entry in self.entries if entry.name == name)


def _names(entry: Setting) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in entry.value.split(",") if name.strip()))


def _whole(value: str, largest: int) -> int | None:
    text = value.strip()
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
    return number if 1 <= number <= largest else None


def _unexpected(entry: Setting, expected: str) -> str:
    return f"{entry.name} is {entry.value!r} ({entry.origin}); expected {expected}."


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise Invalid(f"The setting {name} must be a number of seconds, 0 or more, not {value!r}.")
    return seconds


def implied_home() -> Path:
    """Return the home without a flag."""
    return Path(_find_home({}, os.environ).value)


def _find_home(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> Setting:
    home = _find(_definition("home"), flags, environment, {}, lambda: _default_home(environment))
    return Setting("home", str(absolute(home.value)), home.origin)


def load_settings(
    flags: Mapping[str, str | None] | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return every setting with its origin. `config.toml` of the home is read; no file is created.

    Raises: Invalid when `config.toml` cannot be read or names a setting that does not exist.
    """
    flags = flags or {}
    environment = os.environ if environment is None else environment
    home = _find_home(flags, environment)
    path = Path(home.value) / CONFIG_FILE
    content = _read_config(path)
    memory, problems = _memory_values(path, content.pop(MEMORY_TABLE, {}))
    tables = read_model_tables(str(path), content.pop(MODELS_TABLE, {}))
    config = {**_config_values(path, content), **memory}
    entries = [home]
    for definition in DEFINITIONS[1:]:
        entry = _find(definition, flags, environment, config, partial(_home_of, definition, home, environment))
        base = Path(home.value) if entry.origin.startswith("user") else Path()
        value = _as_location(entry.value, base) if _definition(entry.name).is_place else entry.value
        entries.append(Setting(entry.name, value, entry.origin))
    entries += [Setting(name, value, f"user {CONFIG_FILE}") for name, value in shown_tables(tables)]
    settings = Settings(tuple(entries), problems, tables)
    _refuse_nesting(settings)
    return settings


def shown_location(text: str) -> str:
    """Return a path or URL without secrets: of a URL only the user, host, path and harmless options."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return "***" if _MAY_BE_SECRET.search(text) else text
    user_info, at, where = rest.rpartition("@")
    user, colon, _ = user_info.partition(":")
    path, _, options = where.partition("?")
    kept = [option for option in options.split("&") if option.partition("=")[0] in _SHOWN_OPTIONS]
    password = ":***" if colon else ""
    query = f"?{'&'.join(kept)}" if kept else ""
    return f"{scheme}://{user}{password}{at}{path}{query}"


def _definition(name: str) -> Definition:
    return next(definition for definition in DEFINITIONS if definition.name == name)


def _find(
    definition: Definition,
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    config: Mapping[str, str],
    home: Callable[[], Path],
) -> Setting:
    name = definition.name
    if flag := flags.get(name):
        return Setting(name, flag, f"flag {definition.flag}" if definition.flag else "argument")
    for variable in definition.environment:
        if value := environment.get(variable):
            return Setting(name, value, f"environment {variable}")
    if name in config:
        return Setting(name, config[name], f"user {CONFIG_FILE}")
    return Setting(name, definition.default(home()), "default")


def _home_of(definition: Definition, home: Setting, environment: Mapping[str, str]) -> Path:
    """Return the home for a default; without HOME, the memory is in the current folder."""
    is_named = home.origin != "default" or environment.get("HOME")
    return Path(home.value) if is_named or definition.name != "memory_state_dir" else absolute(".perdure")


def _default_home(environment: Mapping[str, str]) -> Path:
    user_home = environment.get("HOME") or _home_of_account()
    if not user_home:
        raise NoHome("No home folder was found for this user. Set PERDURE_HOME.")
    return Path(user_home, ".perdure")


def _home_of_account() -> str | None:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


def absolute(value: str) -> Path:
    """Return an absolute path, with `~` expanded.

    Raises: Invalid when it cannot be a path.
    """
    try:
        return Path(os.path.abspath(Path(value).expanduser()))
    except (RuntimeError, ValueError) as error:
        raise Invalid(f"{value!r} is not a valid path: {error}.") from error


def _as_location(value: str, base: Path) -> str:
    """Return a path as an absolute path; other values are returned unchanged."""
    is_path = "://" not in value and value != ":memory:" and not _MAY_BE_SECRET.search(value)
    if not is_path:
        return value
    return str(absolute(value if value.startswith("~") else str(base / value)))


def _refuse_nesting(settings: Settings) -> None:
    """Reject nested folders: a restore replaces each of them as a whole."""
    state, bots, skills = settings.memory_state_dir, settings.bots_dir, settings.skills_dir
    if settings.home.is_relative_to(state):
        raise Invalid(f"memory_state_dir is {state}, which contains the home {settings.home}. Use a folder of its own.")
    if others := [each for each in (bots, skills) if state.is_relative_to(each) or each.is_relative_to(state)]:
        raise Invalid(f"memory_state_dir is {state}, which overlaps with {others[0]}. Use a folder of its own.")
    for folder in (state, bots, skills):
        if Path(settings.database_url).is_relative_to(folder):
            raise Invalid(f"The database {settings.database_url} lies in {folder}. Give each a folder of its own.")


def _read_config(path: Path) -> dict[str, object]:
    try:
        if path.exists() and not path.is_file():
            raise Invalid(f"{path} cannot be read: it is not a file.")
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise from_os_error(f"{path} cannot be read", error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} is not valid TOML: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{path} is not valid TOML: a number in it is too long, or it is nested too deep.") from error


def _memory_values(path: Path, table: object) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the settings in the table of the memory, and its mistakes."""
    if not isinstance(table, dict):
        return {}, (f"{path}: {MEMORY_TABLE} must be a table: [{MEMORY_TABLE}].",)
    known = list(MemorySettings.__dataclass_fields__)
    values = {
        f"{MEMORY_TABLE}.{key}": str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in table.items()
        if key in known
    }
    unknown = [key for key in table if key not in known]
    return values, tuple(
        f"{path}: there is no setting {f'{MEMORY_TABLE}.{key}'!r}.{_did_you_mean(key, known)}" for key in unknown
    )


def _config_values(path: Path, content: Mapping[str, object]) -> dict[str, str]:
    names = [definition.name for definition in DEFINITIONS if definition.is_in_config]
    known = [name for name in names if not name.startswith(f"{MEMORY_TABLE}.")]
    tables = (GOALS_TABLE, MODEL_TABLE, POLICY_TABLE)
    values = {key: value for key, value in content.items() if key not in tables}
    for name in tables:
        table = content.get(name, {})
        if not isinstance(table, dict):
            raise Invalid(f"{path}: {name} must be a table: [{name}].")
        values |= {f"{name}.{key}": value for key, value in table.items()}
    return {key: _config_value(path, key, value, known) for key, value in values.items()}


def _config_value(path: Path, key: str, value: object, known: list[str]) -> str:
    if key not in known:
        raise Invalid(f"{path}: there is no setting {key!r}.{_did_you_mean(key, [*known, MEMORY_TABLE, MODELS_TABLE])}")
    if isinstance(value, bool) and _definition(key).is_flag:
        return str(value).lower()
    if _definition(key).is_json:
        return _json_array(path, key, value)
    if isinstance(value, list) and _definition(key).is_list and all(isinstance(each, str) for each in value):
        return ",".join(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and not _definition(key).is_place) and not (isinstance(value, str) and value):
        raise Invalid(f"{path}: {key} must be a string that is not empty.")
    return str(value)


def _json_array(path: Path, key: str, value: object) -> str:
    try:
        if isinstance(value, list):
            return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # a date or number that JSON cannot represent
        pass
    raise Invalid(f"{path}: {key} must be tables of strings: [[{key}]].")


def _did_you_mean(key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" Known are: {', '.join(known)}."
