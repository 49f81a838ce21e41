"""The program as a person starts it: a process of its own, with real pipes, terminals and signals."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import __version__

SLOW_TO_IMPORT = {"alembic", "fastapi", "psycopg", "pydantic", "rich", "sqlalchemy", "typer"}
ESCAPE = "\x1b"
FORCES_COLOUR = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


def perdure(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m perdure` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "perdure", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home that the program will use; it is not there yet."""
    return tmp_path / "home"


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_one_line(option: str) -> None:
    done = perdure(option)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"perdure {__version__}\n", "")


def test_the_version_is_reported_without_importing_anything_slow() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "perdure", "--version"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "perdure.interfaces.cli" in imported
    assert {name.partition(".")[0] for name in imported} & SLOW_TO_IMPORT == set()


def test_the_help_of_all_commands_imports_no_database_and_no_wizard() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "perdure", "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "perdure.interfaces.cli.errors" in imported
    assert imported & {"sqlalchemy", "pydantic", "questionary", "prompt_toolkit", "perdure.app.builder.forge"} == set()


def test_the_token_is_shown_without_importing_the_server_or_the_database(home: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "perdure", "token", "show"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert told.stdout.strip() == (home / "token").read_text().strip()
    assert "perdure.app.access.token" in imported
    slow = (SLOW_TO_IMPORT - {"typer"}) | {"starlette", "uvicorn", "perdure.interfaces.api"}
    assert imported & slow == set()


def test_the_script_and_the_module_are_the_same_program() -> None:
    script = Path(sys.executable).parent / "perdure"
    told = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == perdure("--version").stdout


def test_a_new_home_is_made_looked_at_backed_up_and_restored(home: Path, tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar.gz"
    for arguments in (
        ["db", "migrate"],
        ["db", "verify"],
        ["db", "backup", str(archive)],
        ["db", "restore", str(archive), "--replace"],
        ["doctor"],
    ):
        done = perdure(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    assert (home / "perdure.db").is_file()


def test_an_error_ends_the_process_with_its_exit_code(home: Path) -> None:
    done = perdure("db", "verify")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"perdure: No database at {home / 'perdure.db'}.")


def test_verbose_speaks_on_standard_error_only(home: Path) -> None:
    done = perdure("db", "tables", "--verbose", "--json")
    assert done.returncode == 0
    assert "projects" in json.loads(done.stdout)["tables"]
    assert "perdure.store.sql: SELECT" in done.stderr
    assert "perdure.store.sql: SELECT" in (home / "logs" / "perdure.log").read_text()


def test_verbose_shows_no_password() -> None:
    done = perdure("db", "status", "-v", PERDURE_DATABASE_URL="postgresql://user:hunter2@127.0.0.1:1/x")
    assert done.returncode == 8
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [["db", "tables"], ["db", "tables", "--json"], ["--help"], ["demo"]], ids=" ".join
)
def test_a_reader_who_has_gone_gets_no_traceback(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # as a person has it: written at the end
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "perdure", *arguments], stdout=writing, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_reader_who_wants_one_byte_gets_it() -> None:
    line = f"{sys.executable} -m perdure db tables | head -c1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("t", "")


@pytest.mark.parametrize("arguments", [["db", "tables"], ["doctor"], ["--help"], ["nope"]], ids=" ".join)
def test_what_is_not_a_terminal_gets_no_escape_codes(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", *FORCES_COLOUR):
        monkeypatch.delenv(name, raising=False)
    done = perdure(*arguments, TERM="xterm-256color")
    assert done.stdout + done.stderr
    assert ESCAPE not in done.stdout + done.stderr


def on_a_terminal(*arguments: str) -> str:
    """What the program writes on a terminal."""
    ours, its = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", *arguments],
        env={**os.environ, "TERM": "xterm-256color"},
        stdin=its,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    seen = b""
    try:
        while some := os.read(ours, 65536):
            seen += some
    except OSError:
        pass  # Linux says so when the last writer has gone
    finally:
        os.close(ours)
        program.wait(60)
    return seen.decode()


def test_a_terminal_gets_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    assert COLOUR.search(on_a_terminal("doctor"))


def test_a_terminal_gets_no_colours_when_the_person_wants_none() -> None:
    said = on_a_terminal("doctor")
    assert "python" in said
    assert not COLOUR.search(said)


@pytest.fixture
def broken_installation(tmp_path: Path) -> str:
    """Where to look for packages first: there, one that we need fails in an unheard-of way."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "alembic.py").write_text("raise ArithmeticError('a broken package')\n")
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def test_a_mistake_of_ours_is_one_sentence(broken_installation: str) -> None:
    done = perdure("db", "migrate", PYTHONPATH=broken_installation)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "perdure: Something went wrong inside Perdure (ArithmeticError). --debug shows where.\n"


def test_a_mistake_of_ours_is_a_problem_object_with_json(broken_installation: str) -> None:
    done = perdure("db", "migrate", "--json", PYTHONPATH=broken_installation)
    assert (done.returncode, done.stderr) == (1, "")
    problem = json.loads(done.stdout)
    assert (problem["code"], problem["status"]) == ("internal", 500)


def test_debug_shows_where_a_mistake_of_ours_is(broken_installation: str) -> None:
    done = perdure("db", "migrate", "--debug", PYTHONPATH=broken_installation)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "ArithmeticError: a broken package" in done.stderr


def test_the_log_keeps_where_a_mistake_of_ours_is(broken_installation: str, home: Path) -> None:
    perdure("db", "migrate", PYTHONPATH=broken_installation)
    assert "ArithmeticError: a broken package" in (home / "logs" / "perdure.log").read_text()


def test_a_mistake_of_ours_leaves_no_half_made_database(broken_installation: str, home: Path) -> None:
    perdure("db", "migrate", PYTHONPATH=broken_installation)
    assert {path.name for path in home.iterdir()} <= {"logs", "perdure.db.lock"}
    assert perdure("db", "migrate").returncode == 0


def test_a_pipe_in_place_of_the_settings_does_not_hang(home: Path) -> None:
    home.mkdir()
    os.mkfifo(home / "config.toml")
    done = perdure("config", "show")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the demo keeps what it needs for a while."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def test_the_demo_kills_resumes_decides_and_retries_in_sixty_lines(place: Path, home: Path, tmp_path: Path) -> None:
    done = perdure("demo", "--home", str(tmp_path / "mine"), TMPDIR=str(place))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 80
    assert re.search(r"\$ kill -9 \d+ .*charged ann.*\n  Killed\n", done.stdout)
    _, _, ledger = done.stdout.partition("$ cat ledger.txt\n")
    assert ledger.startswith("  reserved ann\n  charged ann\n  shipped ann\n\n"), "each effect is there once"
    for decision in ("skip", "retry", "abort"):
        assert re.search(rf"perdure goal decide \S+ command.1 {decision} --resume\n", done.stdout)
    assert re.search(r"\$ perdure goal retry \S+\n  lamp,9.99\n", done.stdout)
    assert done.stdout.count("How should it speak?") == 2, "asked, killed, and asked again"
    assert "Ada is ready after 7 questions" in done.stdout
    assert "  The check found the charge in the ledger, so the step was not run again.\n" in done.stdout
    assert str(place) not in done.stdout
    assert list(place.iterdir()) == []
    assert not any(folder.exists() for folder in (home, tmp_path / "mine", tmp_path / "user")), "no log either"


def test_the_demo_tells_a_program_what_the_kill_left_and_what_became_of_it(place: Path, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("nonsense")
    elsewhere = "postgresql://user:hunter2@127.0.0.1:1/x"
    done = perdure("demo", "--json", TMPDIR=str(place), PERDURE_DATABASE_URL=elsewhere)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["killed"]["ledger"] == {"reserved ann": 1, "charged ann": 1, "shipped ann": 1}
    assert (told["unknown"]["paid"], told["unknown"]["exit_codes"]) == (1, [5, 0])
    assert (told["retried"]["fetched"], told["retried"]["exit_codes"]) == (1, [1, 0])
    assert {told[scene]["status"] for scene in ("killed", "unknown", "retried")} == {"done"}
    assert (told["forge"]["asked_again"], told["forge"]["bot"]) == ("How should it speak?", "ada")
    assert list(place.iterdir()) == []
    assert [path.name for path in home.iterdir()] == ["config.toml"]


LISTS = """
import sys
from perdure.interfaces.cli.errors import run
needless = {"rich", "alembic", "sqlalchemy", "pydantic", "questionary", "tomlkit", "perdure.app.builder.forge"}
needless |= {"perdure.interfaces.cli.home.db", "perdure.interfaces.cli.goals.run_ui.live"}
for noun in ("goal", "draft", "bot", "skill"):  # the skills are files that begin with YAML
    assert run([noun, "list", "--json"]) == 0
    found = (needless if noun == "skill" else {*needless, "yaml"}) & set(sys.modules)
    assert not found, (noun, found)
    print("--")
"""


def test_lists_import_nothing_that_they_do_not_need(home: Path) -> None:
    perdure("db", "migrate")
    told = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    goals, drafts, bots, skills = (json.loads(printed) for printed in told.stdout.split("--\n")[:-1])
    assert (goals, drafts, bots, [*skills]) == ({"goals": []}, {"drafts": []}, {"bots": []}, ["skills"])
    assert home.exists()
