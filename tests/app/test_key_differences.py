"""The error for a used key names the first difference, with both values."""

import pytest

from perdure.app.goals.arguments.differences import difference_of_policies, difference_of_tasks
from perdure.kernel.events import GoalBegun, MindSpec, PolicySpec, RuleSpec

MODEL = MindSpec("model", model="openai:a")
ALLOW: RuleSpec = {"tool": "exec", "verdict": "allow"}
DENY: RuleSpec = {"tool": "exec", "verdict": "deny"}


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ((MODEL, "ada"), (MODEL, "bob"), "which has the bot ada, and not the bot bob"),
        ((MODEL, None), (MODEL, "bob"), "which has no bot, and not the bot bob"),
        (
            (MODEL, None),
            (MindSpec("model", model="openai:b"), None),
            "which has the model openai:a, and not the model openai:b",
        ),
        (
            (MODEL, None),
            (MindSpec("model", model="openai:a", chat=True), None),
            "which is a task, and not a conversation",
        ),
        (
            (MODEL, None),
            (MindSpec("model", model="openai:a", options={"fallbacks": ["openai:b"]}), None),
            "which has the options None of its model, and not {'fallbacks': ['openai:b']}",
        ),
        (
            (MindSpec("command", shell=True), None),
            (MindSpec("command"), None),
            "which is run by a shell, and not without one",
        ),
        ((MODEL, "ada"), (MODEL, "ada"), None),
    ],
)
def test_the_difference_of_two_tasks_has_both_values(
    was: tuple[MindSpec, str | None], now: tuple[MindSpec, str | None], said: str | None
) -> None:
    begun = GoalBegun("hello", was[0], bot=was[1])
    assert difference_of_tasks(begun, "hello", now[0], now[1], has_name=False) == said


def test_another_text_for_the_same_model_is_the_difference() -> None:
    found = difference_of_tasks(GoalBegun("hello", MODEL), "goodbye", MODEL, None, has_name=False)
    assert found == "which is 'hello', and not 'goodbye'"


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        (PolicySpec(), PolicySpec("read-only"), "which has the policy 'ask', and not 'read-only'"),
        (PolicySpec(), PolicySpec(yes=True), "whose policy has yes = False, and not True"),
        (
            PolicySpec(rules=(ALLOW, ALLOW)),
            PolicySpec(rules=(ALLOW, DENY)),
            f"whose policy has {ALLOW} as rule 2, and not {DENY}",
        ),
        (PolicySpec(rules=(ALLOW,)), PolicySpec(), f"whose policy has {ALLOW} as rule 1, and not nothing"),
    ],
)
def test_the_difference_of_two_policies_has_both_values(was: PolicySpec, now: PolicySpec, said: str) -> None:
    assert difference_of_policies(was, now) == said
