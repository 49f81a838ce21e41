"""The edge of the command line: how errors are told, and with which exit code."""

import json
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound, PerdureError
from perdure.interfaces.cli.errors import run

WRONG = [
    (["nope"], "No such command 'nope'"),
    (["db", "nope"], "No such command 'nope'"),
    (["--nope"], "No such option: --nope"),
    (["db", "status", "--nope"], "No such option: --nope"),
    (["db", "status", "extra"], "extra"),
    (["db", "restore"], "Missing argument 'SOURCE'"),
    (["db", "restore", "a", "b"], "b"),
    (["db", "status", "--home"], "'--home' requires an argument"),
    (["config", "show", "--origin=yes"], "--origin"),
]


def problem(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_usage_is_one_sentence_that_names_the_mistake(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("perdure: ")
    assert says in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [arguments for arguments, _ in WRONG], ids=" ".join)
def test_wrong_usage_says_where_help_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run(arguments)
    assert capsys.readouterr().err.endswith("--help`.\n")


def test_wrong_usage_makes_no_home(tmp_path: Path) -> None:
    for arguments, _ in WRONG:
        run(arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["nope"], Invalid),
        (["db", "nope"], Invalid),
        (["db", "verify"], NotFound),
        (["db", "restore", "nothing"], NotFound),
        (["db", "backup", "taken", "--home", "used"], Conflict),
        (["db", "restore", "taken"], Invalid),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value.code,
)
def test_an_error_is_a_problem_object_with_json(
    arguments: list[str],
    kind: type[PerdureError],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("mine")
    run(["db", "migrate", "--home", "used"])
    capsys.readouterr()
    assert run([*arguments, "--json"]) == kind.exit_code
    found = problem(capsys)
    assert set(found) == {"type", "title", "status", "detail", "instance", "code", "errors", "meta"}
    assert (found["code"], found["status"]) == (kind.code, kind.http_status)
    assert found["type"] == f"urn:perdure:error:{kind.code}"


def test_every_problem_has_a_request_id_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    run(["nope", "--json"])
    first = problem(capsys)
    run(["nope", "--json"])
    second = problem(capsys)
    assert first["instance"] == f"urn:uuid:{uuid.UUID(first['meta']['request_id'])}"
    assert first["instance"] != second["instance"]


def test_a_problem_says_when_it_happened(capsys: pytest.CaptureFixture[str]) -> None:
    run(["nope", "--json"])
    moment = problem(capsys)["meta"]["timestamp"]
    assert moment.endswith("Z")
    assert datetime.fromisoformat(moment).utcoffset() is not None


def test_a_word_after_two_dashes_is_not_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "restore", "--", "--json"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "--json" in said.err


@pytest.mark.parametrize(
    ("path", "code"), [("perdure.db", 2), ("nothing", 3)], ids=["of what is no backup", "of a missing backup"]
)
def test_an_error_on_purpose_has_no_traceback(
    path: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "perdure.db").write_bytes(b"noise" * 10_000)
    assert run(["db", "restore", str(tmp_path / path)]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("perdure: ")
    assert "Traceback" not in said.err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run([])
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_commands(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([option]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("doctor", "demo", "db", "config"))
