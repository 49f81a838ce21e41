"""`perdure run --policy` and `--yes`: what a model may do in a goal, and in one run of it."""

from pathlib import Path
from typing import Any

import pytest

from perdure.kernel.events import ToolCall
from perdure.minds import factory
from perdure.minds.factory import MindWithTools
from tests.app.test_governed_calls import FreeMind
from tests.interfaces.cli.terminal import Terminal

WAITS = 5


@pytest.fixture
def decides(monkeypatch: pytest.MonkeyPatch, ready: Path) -> Any:
    """Let a mind that decides freely run the commands of this process."""
    (ready / "a").write_text("hello")

    def use(tool: str, **arguments: object) -> None:
        call = ToolCall("a.1", "a", tool, arguments, "pure", by="model:test")
        monkeypatch.setitem(factory.KINDS, "command", lambda _request: MindWithTools(FreeMind(call)))

    return use


def test_a_policy_is_recorded_and_judges(perdure: Terminal, decides: Any) -> None:
    decides("read_file", path="a")
    assert perdure.json("run", "--policy", "read-only", "--", "true")["status"] == "done"
    assert perdure("run", "--no-input", "--", "true") == WAITS


def test_a_key_is_of_one_policy(perdure: Terminal, decides: Any) -> None:
    decides("exec", argv=["true"])
    assert perdure("run", "--key", "one", "--no-input", "--", "true") == WAITS
    assert perdure("run", "--key", "one", "--policy", "read-only", "--", "true") == 4
    assert "which has the policy" in perdure.err
    assert perdure.json("run", "--policy", "read-only", "--", "true")["status"] == "done"


@pytest.mark.parametrize(("preset", "message"), [("strict", "known are ask, read-only"), ("full", "needs the sandbox")])
def test_an_unknown_preset_is_refused_before_anything_is_stored(perdure: Terminal, preset: str, message: str) -> None:
    assert perdure("run", "--policy", preset, "--", "true") == 2
    assert message in " ".join(perdure.err.split())
    assert perdure.goals() == []


def test_the_policy_is_shown_and_a_retry_and_a_fork_change_it(perdure: Terminal) -> None:
    assert perdure("run", "--policy", "read-only", "--", "false") == 1
    (goal,) = perdure.goals()
    shown = perdure.json("goal", "show", goal["id"])
    assert shown["policy"] == {"preset": "read-only", "rules": [], "yes": False}
    assert perdure("goal", "show", goal["id"]) == 0
    assert "policy   read-only" in perdure.out
    assert perdure("goal", "retry", goal["id"], "--policy", "ask") == 1
    assert perdure.json("goal", "show", goal["id"])["policy"]["preset"] == "ask"
    fork = perdure.json("goal", "fork", goal["id"], "--at", "1", "--policy", "ask")
    assert perdure.json("goal", "show", fork["id"])["policy"]["preset"] == "ask"
    kept = perdure.json("goal", "fork", goal["id"], "--at", "1")
    assert perdure.json("goal", "show", kept["id"])["policy"]["preset"] == "read-only"
    for command in (("retry", goal["id"]), ("fork", goal["id"], "--at", "1")):
        assert perdure("goal", *command, "--policy", "full") == 2
        assert "needs the sandbox" in " ".join(perdure.err.split())


def test_a_policy_is_for_a_new_goal(perdure: Terminal) -> None:
    assert perdure("run", "--continue", "--policy", "ask") == 2
    assert "--policy applies to a new goal" in perdure.err


def test_yes_approves_what_a_model_wants_also_of_a_goal_that_waits(perdure: Terminal, decides: Any) -> None:
    decides("read_file", path="a")
    assert perdure.json("run", "--yes", "--", "true")["status"] == "done"
    assert perdure("run", "--no-input", "--key", "one", "--", "true") == WAITS
    assert perdure.json("run", "--resume", "key:one", "--yes")["status"] == "done"


@pytest.mark.parametrize(
    ("tool", "arguments"), [("exec", {"argv": ["true"]}), ("write_file", {"path": "b", "content": "text"})]
)
def test_yes_approves_no_program_and_no_changed_file(
    perdure: Terminal, decides: Any, tool: str, arguments: dict[str, object]
) -> None:
    decides(tool, **arguments)
    assert perdure("run", "--yes", "--no-input", "--", "true") == WAITS
    assert not Path("b").exists()
