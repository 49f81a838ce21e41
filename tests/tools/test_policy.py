"""What may be done without asking."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.kernel.events import ToolCall
from perdure.kernel.tool import Judgement, Policy, Verdict
from perdure.tools.policy import ApproveAsked, Rule, Rules

GIT = Rule("exec", "allow", {"argv.0": "git"})
STATUS = Rule("exec", "allow", {"argv.0": "git", "argv.1": "status"})
NOTES = Rule("read_file", "allow", {"path": "notes/*"})
NO_RM = Rule("exec", "deny", {"argv.0": "rm"})
NO_SECRETS = Rule("read_file", "deny", {"path": "secret/*"})
NO_PUSH = Rule("exec", "ask", {"argv": "push"})


def judged(rules: list[Rule], arguments: Any, tool: str = "exec") -> Verdict:
    return Rules(rules).judge(ToolCall("c1", "a", tool, arguments, "once")).verdict


@pytest.mark.parametrize(
    ("path", "judgement"),
    [("b", Judgement("allow", by="yes")), ("secret/b", Judgement("deny", by="policy"))],
)
def test_yes_approves_what_is_asked_but_changes_no_denial(path: str, judgement: Judgement) -> None:
    policy: Policy = ApproveAsked(Rules([NO_SECRETS]))
    assert policy.judge(ToolCall("c1", "a", "read_file", {"path": path}, "once")) == judgement


def test_what_no_rule_is_about_is_asked() -> None:
    policy: Policy = Rules([])
    assert policy.judge(ToolCall("c1", "a", "exec", {"argv": ["git"]}, "once")) == Judgement("ask")
    assert judged([GIT], {"argv": ["git"]}, tool="other") == "ask"


@pytest.mark.parametrize(
    ("rules", "arguments", "verdict"),
    [
        ([GIT], {"argv": ["git"]}, "allow"),
        ([GIT], {"argv": ["git", "push"]}, "allow"),
        ([STATUS], {"argv": ["git", "status", "-s"]}, "allow"),
        ([STATUS], {"argv": ["git"]}, "ask"),
        ([STATUS], {"argv": ["git", "push"]}, "ask"),
        ([GIT, NO_PUSH], {"argv": ["git", "-C", ".", "push"]}, "ask"),
        ([GIT, NO_PUSH], {"argv": ["git", "status"]}, "allow"),
        ([Rule("*", "allow"), NO_RM], {"argv": ["rm"]}, "deny"),
        ([NO_RM, Rule("*", "allow")], {"argv": ["ls"]}, "allow"),
        ([Rule("exec", "allow", {"argv": "*"})], {"argv": ["a", "b"]}, "allow"),
        ([Rule("exec", "allow", {"argv": "g*", "argv.0": "git"})], {"argv": ["git", "gc"]}, "allow"),
        ([Rule("exec", "allow", {"argv": "g*", "argv.0": "git"})], {"argv": ["git", "push"]}, "ask"),
        ([Rule("exec", "allow", {"argv.0": "git", "timeout_s": "*"})], {"argv": ["git"], "timeout_s": 5}, "allow"),
        ([Rule("exec", "allow", {"argv.0": "ls", "shell": "true"})], {"argv": ["ls"], "shell": True}, "allow"),
        ([Rule("exec", "deny", {"shell": "true"})], {"argv": ["ls"], "shell": True}, "deny"),
    ],
)
def test_the_strictest_rule_that_is_about_a_call_decides(
    rules: list[Rule], arguments: dict[str, Any], verdict: Verdict
) -> None:
    assert judged(rules, arguments) == verdict


@pytest.mark.parametrize(
    "arguments",
    [
        {"argv": ["git; rm -rf ."], "shell": True},
        {"argv": ["git"], "shell": True},
        {"argv": ["git"], "env": {"PATH": "."}},
        {"argv": ["git"], "env": {}},
        {"argv": ["git"], "check": ["rm"]},
        {"argv": ["git"], "cwd": "evil"},
        {"argv": ["/tmp/evil/git"]},
        {"argv": ["./git"]},
        {"argv": ["GIT"]},
        {"argv": ["\uff47\uff49\uff54"]},
        {"argv": ["git\u200b"]},
        {"argv": ["git "]},
        {"argv": "git"},
        {"argv": {"0": "git", "1": "x"}},
        {"argv": []},
        {},
        [],
        None,
    ],
    ids=repr,
)
def test_what_a_rule_does_not_name_is_not_allowed_by_it(arguments: Any) -> None:
    assert judged([GIT], arguments) == "ask"


def test_what_is_nested_too_deep_to_be_looked_at_is_asked() -> None:
    deep: Any = "git"
    for _ in range(5000):
        deep = [deep]
    assert judged([Rule("exec", "allow", {"argv": "git"})], {"argv": deep}) == "ask"


def test_what_is_switched_off_needs_no_name() -> None:
    assert judged([GIT], {"argv": ["git"], "shell": False, "check": None}) == "allow"


def test_in_an_object_only_the_keys_that_are_named_are_allowed() -> None:
    rule = Rule("exec", "allow", {"argv.0": "git", "env.LANG": "*"})
    assert judged([rule], {"argv": ["git"], "env": {"LANG": "C"}}) == "allow"
    assert judged([rule], {"argv": ["git"], "env": {"LANG": "C", "LD_PRELOAD": "evil"}}) == "ask"


@pytest.mark.parametrize("program", ["rm", "/bin/rm", "RM", "./rm", "../../bin/rm", "\uff52\uff4d"])
def test_another_spelling_does_not_evade_a_denial(program: str) -> None:
    assert judged([Rule("*", "allow"), NO_RM], {"argv": [program, "x"]}) == "deny"


@pytest.mark.parametrize("path", ["secret/a", "./secret/a", "x/../secret/a", "secret//a", "SECRET/a"])
def test_another_way_to_a_file_does_not_evade_a_denial(path: str) -> None:
    assert judged([Rule("*", "allow"), NO_SECRETS], {"path": path}, tool="read_file") == "deny"


@pytest.mark.parametrize(("path", "verdict"), [("notes/a", "allow"), ("notes/../secret", "ask"), ("a/notes/b", "ask")])
def test_a_wildcard_does_not_climb_out_of_its_folder(path: str, verdict: Verdict) -> None:
    assert judged([NOTES], {"path": path}, tool="read_file") == verdict


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["git", "rm", "push", "*"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["argv", "shell", "env", "0"]), inner),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.sampled_from(["argv", "shell", "env", "path"]), JSON)
PATTERNS = st.dictionaries(
    st.sampled_from(["argv", "argv.0", "argv.1", "shell", "env.0", "path"]), st.sampled_from(["git", "rm", "*", "g*"])
)
RULES = st.builds(Rule, st.sampled_from(["exec", "*", "x"]), st.sampled_from(["allow", "ask", "deny"]), PATTERNS)


@given(st.lists(RULES, max_size=6), ARGUMENTS, st.randoms())
def test_the_order_of_rules_does_not_matter(rules: list[Rule], arguments: dict[str, Any], chance: Any) -> None:
    shuffled = [*rules]
    chance.shuffle(shuffled)
    assert judged(rules, arguments) == judged(shuffled, arguments)


@given(st.lists(RULES, max_size=6), RULES, ARGUMENTS)
def test_only_a_rule_that_allows_can_make_a_verdict_milder(
    rules: list[Rule], more: Rule, arguments: dict[str, Any]
) -> None:
    order = ["allow", "ask", "deny"]
    before, after = judged(rules, arguments), judged([*rules, more], arguments)
    if more.verdict != "allow":
        assert order.index(after) >= order.index(before)
    assert before != "deny" or after == "deny"


@given(PATTERNS, ARGUMENTS)
def test_what_a_rule_would_allow_it_would_also_deny(patterns: dict[str, str], arguments: dict[str, Any]) -> None:
    if judged([Rule("exec", "allow", patterns)], arguments) == "allow" and all(map(bool, arguments.values())):
        assert judged([Rule("exec", "deny", patterns)], arguments) == "deny"


@given(PATTERNS.filter(bool), ARGUMENTS)
def test_a_shell_is_allowed_only_by_a_rule_that_names_it(patterns: dict[str, str], arguments: dict[str, Any]) -> None:
    patterns.pop("shell", None)
    if patterns:
        assert judged([Rule("exec", "allow", patterns)], {**arguments, "shell": True}) == "ask"
