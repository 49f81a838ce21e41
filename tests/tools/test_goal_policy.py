"""The policy of a goal: what is accepted, what is recorded of it, and what it decides."""

from typing import Any

import pytest

from perdure.errors import Invalid
from perdure.kernel.events import PolicySpec, ToolCall
from perdure.kernel.tool import Verdict
from perdure.tools.goal_policy import policy_of_goal, read_policy

ALLOW_ALL = {"rules": [{"tool": "*", "verdict": "allow"}]}
DENY_WRITES = {"rules": [{"tool": "write_file", "verdict": "deny"}], "yes": True}


def judged(given: Any, tool: str, *, yes: bool = False) -> Verdict:
    policy = policy_of_goal(read_policy(given), approves_asked=yes)
    return policy.judge(ToolCall("a.1", "a", tool, {}, "once")).verdict


@pytest.mark.parametrize(
    ("given", "tool", "verdict"),
    [
        (None, "read_file", "ask"),
        ("ask", "read_file", "ask"),
        ("read-only", "read_file", "allow"),
        ("read-only", "write_file", "deny"),
        ("read-only", "exec", "deny"),
        ("read-only", "mail", "ask"),
        ({"preset": "read-only", "yes": True}, "exec", "deny"),
        (ALLOW_ALL, "mail", "allow"),
        ({"yes": True}, "mail", "allow"),
        (DENY_WRITES, "write_file", "deny"),
    ],
)
def test_a_policy_decides_by_its_preset_and_its_rules(given: Any, tool: str, verdict: Verdict) -> None:
    assert judged(given, tool) == verdict


@pytest.mark.parametrize("tool", ["exec", "write_file"])
@pytest.mark.parametrize("given", [None, "ask", ALLOW_ALL, {"yes": True}, ALLOW_ALL | {"yes": True}])
@pytest.mark.parametrize("yes", [False, True])
def test_a_program_and_a_changed_file_are_always_asked_about(given: Any, tool: str, *, yes: bool) -> None:
    assert judged(given, tool, yes=yes) == "ask"


@pytest.mark.parametrize("given", ["ask", {}, {"preset": "ask", "rules": [], "yes": False}])
def test_the_default_can_be_given(given: Any) -> None:
    assert read_policy(given) == PolicySpec()
    assert read_policy(None) is None


def test_a_rule_is_recorded_without_what_it_does_not_say() -> None:
    given = {"rules": [{"tool": "read_file", "verdict": "allow", "arguments": {}}]}
    assert read_policy(given) == PolicySpec(rules=({"tool": "read_file", "verdict": "allow"},))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("strict", "Unknown policy preset 'strict'; known are ask, read-only"),
        ("workspace", "'workspace' is not available yet: .*needs the sandbox"),
        ("full", "'full' is not available yet: .*needs the sandbox"),
        ({"preset": 1}, "Unknown policy preset 1"),
        ({"presets": "ask"}, "unknown key 'presets'; known are preset, rules, yes"),
        (3, "expected an object of preset, rules, yes, found 3"),
        ({"yes": "true"}, "yes is true or false"),
        ({"rules": {}}, "rules is a list"),
        ({"rules": [{"tool": "a", "verdict": "ask"}] * 101}, "at most 100"),
        ({"rules": ["exec"]}, "Invalid rule: expected an object"),
        ({"rules": [{"tool": "a", "verdict": "perhaps"}]}, "verdict is one of allow, ask, deny, found 'perhaps'"),
        ({"rules": [{"tool": "", "verdict": "ask"}]}, "tool is the name of a tool"),
        ({"rules": [{"tool": "a", "verdict": "ask", "when": 1}]}, "unknown key 'when'"),
        ({"rules": [{"tool": "a", "verdict": "ask", "arguments": {"argv.0": 1}}]}, "its pattern are strings, found 1"),
    ],
)
def test_what_is_unknown_is_refused(given: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        read_policy(given)


def test_a_recorded_preset_that_this_version_lacks_is_refused_when_the_goal_runs() -> None:
    with pytest.raises(Invalid, match="needs the sandbox"):
        policy_of_goal(PolicySpec("workspace"))
