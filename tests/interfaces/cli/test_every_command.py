"""What holds for every command, found by walking the tree: a new command is covered without being named here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from perdure.errors import PerdureError
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.commands import build
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.shell_hints import RUN_FLOWS

Path_ = tuple[str, ...]


def leaves(node: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every command of a tree, with the words that call it."""
    inner = getattr(node, "commands", None)
    if inner is None:
        yield path, node
        return
    for name, child in inner.items():
        yield from leaves(child, (*path, name))


ENDLESS: dict[Path_, Path_] = {("serve",): ("--host", "192.0.2.1")}
"""What keeps a command from going on for ever."""
COMMANDS = dict(leaves(build()))
LONG: set[Path_] = {("demo",)}
"""What takes seconds is run a few times, and not here: see test_program.py and test_wheel.py."""


@pytest.fixture(params=COMMANDS, ids=" ".join)
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path_:
    """Each command in turn, in a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    found: Path_ = request.param
    return found


@pytest.fixture(params=[path for path in COMMANDS if path not in LONG], ids=" ".join)
def called(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path_:
    """Each command that is called here, in a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    found: Path_ = request.param
    return found


def call(path: Path_) -> list[str]:
    """The command with a value, though not a useful one, for each argument that it must have."""
    needed = [parameter for parameter in COMMANDS[path].params if parameter.required]
    return [*path, *(f"no-{parameter.name}" for parameter in needed), *ENDLESS.get(path, ())]


def one_object(text: str) -> dict[str, Any]:
    """The one JSON object that a text consists of."""
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_the_tree_holds_the_commands_of_today() -> None:
    assert {("doctor",), ("demo",), ("config", "show"), ("db", "migrate"), ("db", "restore")} < set(COMMANDS)


@pytest.mark.parametrize("option", ["--json", "--home", "--verbose", "--debug", "--no-input"])
def test_every_command_has_the_common_options(option: str, path: Path_) -> None:
    assert option in {name for parameter in COMMANDS[path].params for name in parameter.opts}


def test_every_command_and_option_explains_itself(path: Path_) -> None:
    found = COMMANDS[path]
    assert found.help
    assert all(parameter.help for parameter in found.params)


def test_every_command_has_help(path: Path_, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    assert f"perdure {' '.join(path)} " in capsys.readouterr().out


def test_json_is_one_object_and_nothing_else(called: Path_, capsys: pytest.CaptureFixture[str]) -> None:
    run([*call(called), "--json", "--no-input"])
    said = capsys.readouterr()
    assert one_object(said.out)
    assert said.err == ""


@pytest.mark.usefixtures("ready")
def test_json_is_one_object_on_a_home_in_use(called: Path_, capsys: pytest.CaptureFixture[str]) -> None:
    run([*call(called), "--json", "--no-input"])
    said = capsys.readouterr()
    assert one_object(said.out)
    assert said.err == ""


def test_json_is_one_object_when_the_home_is_a_file(
    called: Path_, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").write_text("mine")
    run([*call(called), "--json"])
    assert one_object(capsys.readouterr().out)
    assert (tmp_path / "home").read_text() == "mine"


def test_json_is_one_object_when_the_settings_are_broken(
    called: Path_, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("nonsense")
    run([*call(called), "--json"])
    assert one_object(capsys.readouterr().out)


def test_without_json_a_command_speaks_to_a_person(called: Path_, capsys: pytest.CaptureFixture[str]) -> None:
    code = run([*call(called), "--no-input"])
    said = capsys.readouterr()
    assert said.err.startswith("perdure: ") if code else said.out or said.err
    assert not said.out.startswith("{")


def test_a_home_named_by_the_flag_is_the_only_one_touched(called: Path_, tmp_path: Path) -> None:
    run([*call(called), "--home", str(tmp_path / "mine")])
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "user").exists()


def test_a_wrong_option_is_refused_by_every_command(path: Path_, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*call(path), "--no-such-option"]) == 2
    said = capsys.readouterr()
    assert "--no-such-option" in said.err
    assert said.out == ""


def own_tree(seen: list[object]) -> typer.Typer:
    """A tree of one command, which remembers what it was given."""

    async def look(options: Options, *, name: str, exit_code: int = 0) -> CommandResult:
        """Look."""
        seen.extend([options, name])
        return CommandResult({"name": name}, [f"Hello {name}."], exit_code)

    app = typer.Typer()
    command(app, "look")(look)
    return app


def test_a_function_becomes_a_command_that_gets_the_common_options(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[object] = []
    own_tree(seen)(args=["me", "--home", "h", "--no-input", "--debug"], standalone_mode=False)
    assert seen == [Options(json=False, home="h", verbose=False, debug=True, no_input=True), "me"]
    assert capsys.readouterr().out == "Hello me.\n"


def test_the_exit_code_of_an_answer_is_that_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert own_tree([])(args=["me", "--exit-code", "5", "--json"], standalone_mode=False) == 5
    assert one_object(capsys.readouterr().out) == {"name": "me"}


def test_an_error_leaves_a_command_unchanged() -> None:
    async def fail(_options: Options) -> CommandResult:
        """Fail."""
        raise PerdureError("as told")

    app = typer.Typer()
    command(app, "fail")(fail)
    with pytest.raises(PerdureError, match="as told"):
        app(args=[], standalone_mode=False)


def test_the_commands_that_import_modules_are_known_to_printed_commands() -> None:
    assert {
        path for path, leaf in COMMANDS.items() if any("--import" in each.opts for each in leaf.params)
    } == RUN_FLOWS
