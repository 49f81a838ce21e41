"""Settings: which value wins, where it came from, and what is never shown."""

import os
import pwd
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid, PerdureError
from perdure.files.folders import ensure_folder
from perdure.model_settings import ModelDefaults, ModelPrice, ModelTable
from perdure.setting_definitions import DEFINITIONS
from perdure.settings import (
    MemorySettings,
    Setting,
    Settings,
    load_settings,
    shown_location,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that is there, and empty."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def configure(home: Path, text: str | bytes) -> Path:
    path = home / "config.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def entry(settings: Settings, name: str) -> tuple[str, str]:
    """The value of a setting, and its origin."""
    found = next(entry for entry in settings.entries if entry.name == name)
    return found.value, found.origin


def test_the_flag_wins_over_the_environment(tmp_path: Path) -> None:
    settings = load_settings({"home": str(tmp_path / "a")}, {"PERDURE_HOME": str(tmp_path / "b")})
    assert entry(settings, "home") == (str(tmp_path / "a"), "flag --home")


def test_the_environment_wins_over_the_default(tmp_path: Path) -> None:
    settings = load_settings({}, {"PERDURE_HOME": str(tmp_path / "b"), "HOME": str(tmp_path)})
    assert entry(settings, "home") == (str(tmp_path / "b"), "environment PERDURE_HOME")


def test_without_anything_the_home_is_in_the_users_folder(tmp_path: Path) -> None:
    assert entry(load_settings({}, {"HOME": str(tmp_path)}), "home") == (str(tmp_path / ".perdure"), "default")


@pytest.mark.parametrize("name", ["database_url", "memory_state_dir"])
def test_an_argument_wins_over_everything(name: str, home: Path) -> None:
    configure(home, f'{name} = "/from/config"')
    environment = {"PERDURE_DATABASE_URL": "/from/environment", "MEMORY_STATE_DIR": "/from/environment"}
    settings = load_settings({"home": str(home), name: "/from/argument"}, environment)
    assert entry(settings, name) == ("/from/argument", "argument")


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("database_url", "PERDURE_DATABASE_URL"),
        ("database_url", "DATABASE_PATH"),
        ("memory_state_dir", "MEMORY_STATE_DIR"),
    ],
)
def test_the_environment_wins_over_the_config_file(name: str, variable: str, home: Path) -> None:
    configure(home, f'{name} = "/from/config"')
    settings = load_settings({"home": str(home)}, {variable: "/from/environment"})
    assert entry(settings, name) == ("/from/environment", f"environment {variable}")


@pytest.mark.parametrize("name", ["database_url", "memory_state_dir"])
def test_the_config_file_wins_over_the_default(name: str, home: Path) -> None:
    configure(home, f'{name} = "/from/config"')
    assert entry(load_settings({"home": str(home)}, {}), name) == ("/from/config", "user config.toml")


@pytest.mark.parametrize(("name", "file"), [("database_url", "perdure.db"), ("memory_state_dir", "state")])
def test_by_default_everything_is_in_the_home(name: str, file: str, home: Path) -> None:
    assert entry(load_settings({"home": str(home)}, {}), name) == (str(home / file), "default")


def test_every_setting_has_an_entry(home: Path) -> None:
    settings = load_settings({"home": str(home)}, {})
    assert [entry.name for entry in settings.entries] == [definition.name for definition in DEFINITIONS]


def test_bots_and_the_log_are_in_the_home(home: Path) -> None:
    settings = load_settings({"home": str(home)}, {})
    assert (settings.bots_dir, settings.log_file) == (home / "bots", home / "logs" / "perdure.log")


def test_an_empty_variable_is_as_good_as_none(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PERDURE_HOME": "", "PERDURE_DATABASE_URL": "", "MEMORY_STATE_DIR": ""}
    assert {entry.origin for entry in load_settings({}, environment).entries} == {"default"}


def test_an_empty_flag_is_as_good_as_none(tmp_path: Path) -> None:
    assert load_settings({"home": ""}, {"PERDURE_HOME": str(tmp_path)}).home == tmp_path


def test_an_empty_database_url_leaves_the_word_to_the_database_path(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PERDURE_DATABASE_URL": "", "DATABASE_PATH": "/a.db"}
    assert entry(load_settings({}, environment), "database_url") == ("/a.db", "environment DATABASE_PATH")


def test_the_database_url_comes_before_the_database_path(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PERDURE_DATABASE_URL": "postgresql://host/x", "DATABASE_PATH": "/a.db"}
    settings = load_settings({}, environment)
    assert entry(settings, "database_url") == ("postgresql://host/x", "environment PERDURE_DATABASE_URL")


def test_a_tilde_is_the_users_folder() -> None:
    settings = load_settings({}, {"PERDURE_HOME": "~/h", "DATABASE_PATH": "~/d.db", "MEMORY_STATE_DIR": "~/m"})
    assert settings.home == Path.home() / "h"
    assert settings.database_url == str(Path.home() / "d.db")
    assert settings.memory_state_dir == Path.home() / "m"


def test_the_tilde_of_a_user_who_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid, match="~nobody-of-that-name/h"):
        load_settings({}, {"PERDURE_HOME": "~nobody-of-that-name/h"})
    with pytest.raises(Invalid, match="~nobody-of-that-name/m"):
        load_settings({}, {"HOME": "/somebody", "MEMORY_STATE_DIR": "~nobody-of-that-name/m"})


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}], ids=["absent", "empty"])
def test_without_a_home_in_the_environment_the_account_has_one(environment: dict[str, str]) -> None:
    assert load_settings({}, environment).home == Path(pwd.getpwuid(os.getuid()).pw_dir) / ".perdure"


def test_relative_paths_are_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"home": "h"}, {"DATABASE_PATH": "d.db", "MEMORY_STATE_DIR": "m/../n"})
    assert settings.home == tmp_path / "h"
    assert settings.database_url == str(tmp_path / "d.db")
    assert settings.memory_state_dir == tmp_path / "n"


@pytest.mark.parametrize("url", [":memory:", "sqlite:///a.db", "postgresql://u@h/x", "postgres://h/x?host=/run"])
def test_a_url_stays_as_it_was_written(url: str, tmp_path: Path) -> None:
    assert load_settings({"home": str(tmp_path)}, {"PERDURE_DATABASE_URL": url}).database_url == url


def test_loading_creates_nothing(tmp_path: Path) -> None:
    load_settings({"home": str(tmp_path / "home")}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_is_a_file_has_no_config(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    assert entry(load_settings({"home": str(tmp_path / "home")}, {}), "database_url")[1] == "default"


def test_a_config_file_in_the_current_folder_is_not_read(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repository"
    for folder in (repository, repository / ".perdure"):
        folder.mkdir()
        configure(folder, 'database_url = "/of/somebody/else"')
    monkeypatch.chdir(repository)
    assert entry(load_settings({}, {"PERDURE_HOME": str(home)}), "database_url")[1] == "default"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("database_url = ", "is not valid TOML"),
        ("nonsense", "is not valid TOML"),
        (b"\xff\xfe\x00", "is not valid TOML"),
        ('databse_url = "x"', "there is no setting 'databse_url'. Did you mean 'database_url'?"),
        ('memory_dir = "x"', "there is no setting 'memory_dir'"),
        (
            'zzz = "x"',
            "there is no setting 'zzz'. Known are: database_url, memory_state_dir, park_after_s, flows, imports,"
            " wake_cli_goals, goals.keep_days, goals.cancel_grace_s, model.default, model.fallbacks, chat.bot,"
            " policy.preset, policy.rules, memory, models.",
        ),
        ('home = "/elsewhere"', "there is no setting 'home'"),
        ('[database]\nurl = "x"', "there is no setting 'database'"),
        ("database_url = 3", "database_url must be a string"),
        ("database_url = true", "database_url must be a string"),
        ('memory_state_dir = ["x"]', "memory_state_dir must be a string"),
        ("[database_url]", "database_url must be a string"),
        ('database_url = ""', "database_url must be a string that is not empty"),
    ],
)
def test_a_config_file_that_is_invalid_is_refused_by_name(text: str | bytes, says: str, home: Path) -> None:
    path = configure(home, text)
    with pytest.raises(Invalid) as refused:
        load_settings({"home": str(home)}, {})
    assert str(path) in refused.value.detail
    assert says in refused.value.detail


def test_a_broken_config_file_is_refused_even_if_the_environment_says_it_all(home: Path) -> None:
    configure(home, "database_url = ")
    with pytest.raises(Invalid):
        load_settings({"home": str(home)}, {"DATABASE_PATH": "/a.db", "MEMORY_STATE_DIR": "/m"})


def test_a_folder_in_place_of_the_config_file_is_reported(home: Path) -> None:
    (home / "config.toml").mkdir()
    with pytest.raises(PerdureError, match="cannot be read"):
        load_settings({"home": str(home)}, {})


def test_an_empty_config_file_changes_nothing(home: Path) -> None:
    configure(home, "# nothing yet\n")
    assert entry(load_settings({"home": str(home)}, {}), "database_url")[1] == "default"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://user:hunter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:hunter2@host:5432/x?sslmode=require", "postgresql://user:***@host:5432/x?sslmode=require"),
        ("postgres://:hunter2@host", "postgres://:***@host"),
        ("postgresql+psycopg://user:hunter2@/x?host=/run", "postgresql+psycopg://user:***@/x?host=/run"),
        ("postgresql://us%40er:hunter%402%2F%3A@host/x", "postgresql://us%40er:***@host/x"),
        ("postgresql://user:hun:ter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:hun?ter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:hun/ter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:hun@ter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:hun ter2@host/x", "postgresql://user:***@host/x"),
        ("postgresql://user:@host/x", "postgresql://user:***@host/x"),
        ("postgresql://host/x?password=hunter2", "postgresql://host/x"),
        ("postgresql://host/x?pass%77ord=hunter2&user=u", "postgresql://host/x?user=u"),
        ("postgresql://host/x?sslpassword=hunter2", "postgresql://host/x"),
        ("postgresql://u:hunter2@a:1,b:2/x", "postgresql://u:***@a:1,b:2/x"),
        ("mysql://user:hunter2@host/x", "mysql://user:***@host/x"),
        ("sqlite://user:hunter2@host/x?password=hunter2", "sqlite://user:***@host/x"),
        ("host=h user=u password = hunter2 dbname=x", "***"),
        ("host=h password='hun ter2'", "***"),
        ("postgresql:user:hunter2@h/x", "***"),
        ("postgres:/user:hunter2@h/x", "***"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert Setting("database_url", url, "default").shown == shown


@pytest.mark.parametrize(
    "text",
    [
        "/home/me/.perdure/perdure.db",
        ":memory:",
        "postgresql://user@host:5432/x",
        "postgresql://host/x?host=/run/postgresql&user=u",
        "sqlite:////tmp/a.db",
    ],
)
def test_what_holds_no_password_is_shown_unchanged(text: str) -> None:
    assert shown_location(text) == text


@given(password=st.text(min_size=1), query=st.sampled_from(["", "?sslmode=require", "?host=b&port=1"]))
def test_every_password_is_hidden_whether_it_is_written_well_or_not(password: str, query: str) -> None:
    assert shown_location(f"postgresql://me:{password}@host/x{query}") == f"postgresql://me:***@host/x{query}"


@given(st.text(alphabet="ab:/@?&= \npassword=%", max_size=40))
def test_hiding_twice_hides_no_more_than_once(text: str) -> None:
    once = shown_location(text)
    assert shown_location(once) == once


def test_a_relative_path_in_the_config_file_is_below_the_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, 'database_url = "work.db"\nmemory_state_dir = "~/memories"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somebody")
    settings = load_settings({"home": str(home)}, {})
    assert settings.database_url == str(home / "work.db")
    assert settings.memory_state_dir == Path("/somebody/memories")


@pytest.mark.parametrize("inside", [".", ".."])
def test_a_folder_of_memories_must_not_contain_the_home(home: Path, inside: str) -> None:
    with pytest.raises(Invalid, match="contains the home"):
        load_settings({"home": str(home)}, {"MEMORY_STATE_DIR": str(home / inside)})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_is_private(tmp_path: Path) -> None:
    ensure_folder(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700


def test_a_folder_that_is_there_is_unchanged(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    ensure_folder(tmp_path)
    assert mode(tmp_path) == 0o750


@pytest.mark.parametrize("below", ["", "sub", "sub/folder"])
def test_a_file_in_the_way_of_a_folder_is_refused_and_kept(below: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(Invalid, match="must be a folder"):
        ensure_folder(file / below)
    assert file.read_text() == "mine"


def test_a_link_that_leads_nowhere_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(Invalid, match="must be a folder"):
        ensure_folder(tmp_path / "link")


@pytest.mark.parametrize("text", ["park_after_s = 90", "park_after_s = 90.0", 'park_after_s = "90"'])
def test_a_number_may_be_written_as_one(text: str, home: Path) -> None:
    configure(home, text)
    assert load_settings({"home": str(home)}, {}).park_after_s == 90


@pytest.mark.parametrize("value", ["-1", "soon", "nan", "inf", "1e400"])
def test_a_number_of_seconds_that_is_invalid_is_refused(value: str, home: Path) -> None:
    settings = load_settings({"home": str(home)}, {"PERDURE_PARK_AFTER_S": value})
    with pytest.raises(Invalid, match="park_after_s"):
        assert settings.park_after_s


def test_the_memory_has_settings_of_its_own(home: Path) -> None:
    assert load_settings({"home": str(home)}, {}).memory == MemorySettings(True, 90, 3)
    configure(home, "[memory]\nenabled = false\nretention_days = 365\nmax_matches = 20")
    settings = load_settings({"home": str(home)}, {"MEMORY_MAX_MATCHES": "1"})
    assert settings.memory == MemorySettings(False, 365, 1)
    assert entry(settings, "memory.retention_days") == ("365", "user config.toml")
    assert entry(settings, "memory.max_matches") == ("1", "environment MEMORY_MAX_MATCHES")


@pytest.mark.parametrize(
    ("word", "is_on"), [("on", True), ("YES", True), ("1", True), ("off", False), ("No", False), ("0", False)]
)
def test_a_switch_may_be_written_in_several_ways(word: str, is_on: bool, home: Path) -> None:
    assert load_settings({"home": str(home)}, {"MEMORY_ENABLED": word}).memory.enabled is is_on


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[memory]\nretention = 3", "there is no setting 'memory.retention'. Did you mean 'retention_days'?"),
        ("[memory]\nretention_days = 0", "memory.retention_days is '0' (user config.toml); expected a whole number"),
        ("[memory]\nretention_days = 366", "memory.retention_days is '366'"),
        ("[memory]\nretention_days = 1.5", "memory.retention_days is '1.5'"),
        ("[memory]\nretention_days = []", "memory.retention_days is '[]'"),
        (
            "[memory]\nmax_matches = 21",
            "memory.max_matches is '21' (user config.toml); expected a whole number from 1 to",
        ),
        ('[memory]\nenabled = ""', "memory.enabled is '' (user config.toml); expected true or false"),
        ("memory = 3", "memory must be a table"),
        ("[memory.deeper]\nx = 1", "there is no setting 'memory.deeper'"),
    ],
)
def test_a_mistake_in_the_settings_of_the_memory_breaks_the_memory_only(text: str, says: str, home: Path) -> None:
    configure(home, f'database_url = "/d.db"\n{text}')
    settings = load_settings({"home": str(home)}, {})
    assert settings.database_url == "/d.db"
    with pytest.raises(Invalid) as refused:
        assert settings.memory
    assert says in refused.value.detail


@pytest.mark.parametrize("value", ["-1", "0", "366", "soon", "9" * 5000, "٣", " "])
def test_a_number_of_days_that_is_invalid_is_refused_by_name(value: str, home: Path) -> None:
    settings = load_settings({"home": str(home)}, {"MEMORY_RETENTION_DAYS": value})
    with pytest.raises(Invalid, match="memory.retention_days .*environment MEMORY_RETENTION_DAYS"):
        assert settings.memory


def test_all_mistakes_in_the_settings_of_the_memory_are_reported_at_once(home: Path) -> None:
    configure(home, "[memory]\nenabled = 3\nmax_matches = 0\nwrong = 1")
    with pytest.raises(Invalid) as refused:
        assert load_settings({"home": str(home)}, {}).memory
    assert len(refused.value.errors) == 3


@pytest.mark.parametrize(
    ("text", "is_set"), [("", True), ("wake_cli_goals = false", False), ('wake_cli_goals = "off"', False)]
)
def test_whether_a_server_wakes_goals_of_the_command_line_is_true_or_false(
    home: Path, text: str, *, is_set: bool
) -> None:
    configure(home, text)
    assert load_settings({"home": str(home)}, {}).wake_cli_goals is is_set


def test_a_setting_that_is_neither_true_nor_false_is_refused_by_name(home: Path) -> None:
    configure(home, 'wake_cli_goals = "perhaps"')
    with pytest.raises(Invalid, match=r"wake_cli_goals is 'perhaps' .*expected true or false"):
        _ = load_settings({"home": str(home)}, {}).wake_cli_goals


MODELS = """
[model]
default = "anthropic:claude-sonnet-5"
fallbacks = ["openai:gpt-5.4-mini", "ollama:llama3.2"]

[models."openai-compatible:qwen@http://127.0.0.1:8000/v1"]
context_window = 32768
price = {input = 0.5, output = 1, cache_read = 0.1}
api_key = "secret:LOCAL_KEY"

[models."ollama:llama3.2"]
"""


def test_models_have_a_default_fallbacks_and_tables(home: Path) -> None:
    configure(home, MODELS)
    models = load_settings({"home": str(home)}, {}).models
    assert models.default == "anthropic:claude-sonnet-5"
    assert models.fallbacks == ("openai:gpt-5.4-mini", "ollama:llama3.2")
    table = models.table("openai-compatible:qwen@http://127.0.0.1:8000/v1")
    assert table == ModelTable(32_768, ModelPrice(0.5, 1.0, cache_read=0.1), "LOCAL_KEY")
    assert models.table("ollama:llama3.2") == models.table("openai:unknown") == ModelTable()


def test_without_settings_there_is_no_model(home: Path) -> None:
    assert load_settings({"home": str(home)}, {}).models == ModelDefaults(None, (), {})


def test_the_environment_names_a_model_before_the_config_file(home: Path) -> None:
    configure(home, MODELS)
    environment = {"PERDURE_MODEL": "openai:m", "PERDURE_MODEL_FALLBACKS": "openai:a, openai:b"}
    settings = load_settings({"home": str(home)}, environment)
    assert (settings.models.default, settings.models.fallbacks) == ("openai:m", ("openai:a", "openai:b"))
    assert entry(settings, "model.default") == ("openai:m", "environment PERDURE_MODEL")


def test_the_tables_of_models_are_shown_with_their_origin(home: Path) -> None:
    configure(home, MODELS)
    shown = {each.name: (each.shown, each.origin) for each in load_settings({"home": str(home)}, {}).entries}
    name = 'models."openai-compatible:qwen@http://127.0.0.1:8000/v1"'
    assert shown[f"{name}.context_window"] == ("32768", "user config.toml")
    assert shown[f"{name}.price"] == ("{input = 0.5, output = 1, cache_read = 0.1}", "user config.toml")
    assert shown[f"{name}.api_key"] == ("secret:LOCAL_KEY", "user config.toml")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model = 3", "model must be a table: [model]"),
        ("models = 3", "models must be a table of tables"),
        ('[models]\n"openai:m" = 3', 'models."openai:m" must be a table'),
        ('[models."openai:m"]\nprices = 3', "there is no setting 'prices'. Did you mean 'price'?"),
        ('[models."openai:m"]\ncontext_window = 3', "context_window must be a whole number of tokens from 256"),
        ('[models."openai:m"]\ncontext_window = true', "context_window must be a whole number"),
        ('[models."openai:m"]\nprice = 3', "price must be a table such as {input = 1.25, output = 10.0}"),
        ('[models."openai:m"]\nprice = {input = 3}', "price has no 'output'"),
        ('[models."openai:m"]\nprice = {input = 3, output = -1}', "price.output must be a number of USD"),
        ('[models."openai:m"]\nprice = {input = nan, output = 1}', "price.input must be a number of USD"),
        ('[models."openai:m"]\nprice = {input = 3, output = 1, extra = 1}', "there is no setting 'extra'"),
        ('[models."openai:m"]\napi_key = "sk-canary-5f1d"', "api_key must name a secret, such as secret:LOCAL_KEY"),
        ('[model]\ndefaults = "openai:m"', "there is no setting 'model.defaults'. Did you mean 'model.default'?"),
        ("[model]\nfallbacks = [3]", "model.fallbacks must be a string"),
        ("policy = 3", "policy must be a table"),
        ("[policy]\nyes = true", "there is no setting 'policy.yes'"),
        ("[policy]\nrules = 3", "policy.rules must be tables of strings: [[policy.rules]]"),
        ("[[policy.rules]]\ntool = 2026-01-01", "policy.rules must be tables of strings: [[policy.rules]]"),
    ],
)
def test_a_mistake_in_the_settings_of_models_is_refused_by_name(text: str, says: str, home: Path) -> None:
    configure(home, text)
    with pytest.raises(Invalid) as refused:
        load_settings({"home": str(home)}, {})
    assert says in refused.value.detail
    assert "canary" not in refused.value.detail
