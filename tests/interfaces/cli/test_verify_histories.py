"""`perdure db verify` and `perdure doctor` on histories, one of which was changed by one byte."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_damaged import edit

CHANGE = "UPDATE events SET payload = replace(payload, 'true', 'trUe') WHERE seq = 1"


@pytest.fixture
def goal(ready: Path, perdure: Terminal) -> str:  # noqa: ARG001 (the home that it is in)
    assert perdure("run", "true") == 0
    return perdure.newest()


def test_verify_names_a_history_that_was_changed(perdure: Terminal, goal: str) -> None:
    assert perdure("db", "verify") == 0
    edit(CHANGE)
    assert perdure("db", "verify", "--json") == 7
    found = json.loads(perdure.out)
    assert (found["ok"], found["problems"]) == (
        False,
        [f"Event 1 of {goal} is not what was written: its hash does not fit."],
    )


def test_doctor_checks_a_sample_and_says_what_checks_all(perdure: Terminal, goal: str) -> None:
    found = {check["name"]: check for check in perdure.json("doctor")["checks"]}
    assert "a sample of 1 of 1 histories is unchanged, `perdure db verify` checks all" in found["database"]["detail"]
    edit(CHANGE)
    assert perdure("doctor") == 7
    assert f"Event 1 of {goal} is not what was written" in " ".join(perdure.out.split())
