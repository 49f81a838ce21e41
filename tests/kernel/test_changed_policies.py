"""The policy of a goal that a retry or a fork changes: recorded there, and in force from there on."""

import pytest

from perdure.kernel.events import GoalBegun, Limits, MindSpec, PolicySpec, Reopened, Termination, content_of
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import is_retry_as_given, plan_retry
from perdure.kernel.journal import ForkChanges, Journal, JournalDeps
from tests.kernel.test_governance import history
from tests.kernel.world import World

ASK, READ_ONLY = PolicySpec(), PolicySpec("read-only")
FAILED = Termination("failed", "no")


def retried(*policies: PolicySpec | None, first: PolicySpec | None = None) -> GoalState:
    """A goal that failed and was retried with each of some policies."""
    bodies: list[GoalBegun | Termination | Reopened] = [GoalBegun("g", MindSpec("model"), policy=first)]
    for policy in policies:
        bodies += [FAILED, Reopened("person", None, len(bodies) + 1, policy=policy)]
    return fold(history(*bodies))


@pytest.mark.parametrize(
    ("first", "policies", "expected"),
    [
        (None, (), None),
        (READ_ONLY, (None,), READ_ONLY),
        (None, (READ_ONLY,), READ_ONLY),
        (READ_ONLY, (ASK,), ASK),
        (None, (READ_ONLY, None), READ_ONLY),
        (None, (READ_ONLY, ASK, None), ASK),
    ],
)
def test_the_newest_policy_that_was_given_is_in_force(
    first: PolicySpec | None, policies: tuple[PolicySpec | None, ...], expected: PolicySpec | None
) -> None:
    assert retried(*policies, first=first).policy == expected


def test_a_retry_without_a_policy_records_none() -> None:
    failed = fold(history(GoalBegun("g", MindSpec("model")), FAILED))
    assert "policy" not in content_of(plan_retry(failed, by="person"))
    assert content_of(plan_retry(failed, by="person", policy=ASK))["policy"] == {}, "the default replaces another"


@pytest.mark.parametrize("given", [None, ASK, READ_ONLY])
def test_a_key_is_of_a_retry_with_one_policy(given: PolicySpec | None) -> None:
    reopened = Reopened("person", None, 2, policy=given)
    events = history(GoalBegun("g", MindSpec("model")), FAILED, reopened)
    known = ("reopened", content_of(reopened))
    same = [
        policy
        for policy in (None, ASK, READ_ONLY)
        if is_retry_as_given(events, known, reason=None, limits=Limits(), policy=policy)
    ]
    assert same == [given]


@pytest.mark.parametrize(("given", "recorded"), [(None, "read-only"), (PolicySpec(yes=True), "ask, yes"), (ASK, None)])
async def test_a_fork_keeps_the_policy_in_force_or_records_another(
    world: World, given: PolicySpec | None, recorded: str | None
) -> None:
    events = history(GoalBegun("g", MindSpec("model")), FAILED, Reopened("person", None, 2, policy=READ_ONLY))
    deps = JournalDeps(world.store, world.clock, world.ids, world.new_worker())
    fork = fold([*events, *Journal.fork(deps, events, "f", changes=ForkChanges(given))._pending])
    expected = {"read-only": READ_ONLY, "ask, yes": PolicySpec(yes=True), None: None}[recorded]
    assert fork.begun.policy == fork.policy == expected
