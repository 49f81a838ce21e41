"""What is recorded of the script that defines a flow: the command that runs it again, without its secrets."""

from dataclasses import replace

import pytest

from perdure.kernel.events import MindSpec
from perdure.minds.flow.scripts import script_call, without_script


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--day", "3", "a b"], ["--day", "3", "a b"]),
        (["--key", "nightly-3", "--max-tokens", "5"], ["--key", "nightly-3", "--max-tokens", "5"]),
        (["--token", "hunter2", "x"], ["--token", "...", "x"]),
        (["--api-key=hunter2", "--SECRET=hunter2"], ["--api-key=...", "--SECRET=..."]),
        (["--db_password", "--day", "3"], ["--db_password", "--day", "3"]),
        (["--password-file", "p.txt"], ["--password-file", "p.txt"]),
        (["--db=postgresql://ada:hunter2@host/shop"], ["--db=postgresql://ada:...@host/shop"]),
        (["token", "lamp"], ["token", "lamp"]),
    ],
)
def test_arguments_are_recorded_without_secrets(given: list[str], kept: list[str]) -> None:
    assert script_call(given)["argv"] == kept


@pytest.mark.parametrize("given", [[], ["a" * 5000], ["\udce9"]], ids=["none", "too long", "not text"])
def test_a_script_is_recorded_without_arguments_that_cannot_be_kept(given: list[str]) -> None:
    assert [*script_call(given)] == ["script"]


def test_the_same_goal_may_be_started_with_other_arguments_of_the_script() -> None:
    spec = MindSpec("flow", flow="f", at="__main__:f", args={"args": [1], "kwargs": {}, "script": "/a/s.py"})
    other = replace(spec, args={"args": [1], "kwargs": {}, "script": "/b/s.py", "argv": ["--day", "3"]})
    assert without_script(spec) == without_script(other)
