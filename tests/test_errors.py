"""The tree of errors, and the public names of the package."""

import errno
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

import perdure
from perdure import errors
from perdure.errors import PerdureError

TABLE = {
    "Invalid": ("invalid", 422, 2),
    "NotFound": ("not_found", 404, 3),
    "Conflict": ("conflict", 409, 4),
    "Denied": ("denied", 403, 1),
    "Waiting": ("waiting", 409, 5),
    "Exhausted": ("exhausted", 429, 6),
    "Damaged": ("damaged", 500, 7),
    "Unavailable": ("unavailable", 503, 8),
}
"""Each leaf with its code, its HTTP status and its exit code."""


OF_GOALS = ("GoalFailed", "GoalCancelled", "GoalWaiting")


def leaf(name: str) -> type[PerdureError]:
    kind: type[PerdureError] = getattr(errors, name)
    return kind


@pytest.mark.parametrize("name", TABLE)
def test_an_error_has_one_code_in_every_language(name: str) -> None:
    kind = leaf(name)
    assert (kind.code, kind.http_status, kind.exit_code) == TABLE[name]


def test_there_are_no_other_errors() -> None:
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == errors.__name__
    }
    assert defined == {"PerdureError", "StepFailed", "KeyTaken", "Over", "NoToken", "InternalError", *OF_GOALS, *TABLE}


def test_a_failed_step_says_by_its_own_code_how() -> None:
    error = errors.StepFailed("timeout", "It took too long.")
    assert (error.code, error.detail, error.exit_code) == ("timeout", "It took too long.", 1)


@dataclass(frozen=True)
class Command:
    """A command that fits a goal."""

    command: str
    why: str


def test_the_text_of_a_failed_goal_has_its_traceback_and_the_next_command() -> None:
    retry = Command("perdure goal retry G", "Retry the failed step.")
    error = errors.GoalFailed(
        "G", "failed", "KeyError: 'x' (shop.py, line 3)", "  shop.py, line 3\n    pay()\n", [retry]
    )
    assert str(error).splitlines() == [
        "G failed: KeyError: 'x' (shop.py, line 3)",
        "  shop.py, line 3",
        "    pay()",
        "Retry the failed step.",
        "  perdure goal retry G",
    ]
    assert error.detail == "KeyError: 'x' (shop.py, line 3)"
    assert error.problem()["code"] == "goal_failed"


def test_the_text_of_an_end_that_was_only_read_says_when_that_was_and_that_nothing_was_run() -> None:
    at, recorded = (
        datetime(2026, 11, 16, 8, 54, 24, tzinfo=UTC),
        "at 2026-11-16 08:54:24 UTC (recorded; nothing was run now)",
    )
    failed = errors.GoalFailed("G", "fatal_error", "KeyError: 'x'", recorded_at=at)
    assert str(failed) == f"G failed (fatal_error) {recorded}: KeyError: 'x'"
    assert str(errors.GoalCancelled("G", "cancelled", recorded_at=at)) == f"G was cancelled {recorded}."


def test_a_cancelled_goal_is_a_failed_one_with_the_exit_code_of_an_interrupt() -> None:
    error = errors.GoalCancelled("G", "cancelled")
    assert isinstance(error, errors.GoalFailed)
    assert (error.exit_code, str(error)) == (130, "G was cancelled.")


@pytest.mark.parametrize(
    ("waiting_for", "given", "exit_code", "said"),
    [
        ("signal", {"signals": ["paid", "sent"]}, 5, "G waits for a signal: paid, sent."),
        (
            "person",
            {"unknown": ["/pay#0"]},
            5,
            "G waits for a decision about /pay#0, whose outcome is unknown.",
        ),
        (
            "timer",
            {"due_at": datetime(2026, 11, 15, tzinfo=UTC)},
            5,
            "G waits for a timer: due at 2026-11-15T00:00:00+00:00.",
        ),
        ("limit", {}, 6, "G waits for a limit to be raised."),
        ("hold", {}, 5, "G waits for its release after a crash loop."),
        ("person", {}, 5, "G waits for a person."),
    ],
)
def test_a_goal_that_waits_says_for_what(waiting_for: str, given: Any, exit_code: int, said: str) -> None:
    error = errors.GoalWaiting("G", waiting_for, **given)
    assert (str(error), error.exit_code, error.code) == (said, exit_code, "waiting")
    assert isinstance(error, errors.Waiting)


def test_every_leaf_hangs_directly_on_the_root() -> None:
    assert {leaf(name).__bases__ for name in TABLE} == {(PerdureError,)}


def test_no_error_of_ours_claims_success() -> None:
    assert all(leaf(name).exit_code > 0 for name in TABLE)


def test_codes_are_unique() -> None:
    assert len({leaf(name).code for name in TABLE} | {PerdureError.code}) == len(TABLE) + 1


@pytest.mark.parametrize("name", TABLE)
def test_a_problem_has_the_fields_that_every_interface_shows(name: str) -> None:
    code, status, _ = TABLE[name]
    problem = leaf(name)("What happened.", errors=["first", "second"]).problem()
    assert problem == {
        "type": f"urn:perdure:error:{code}",
        "title": leaf(name).title,
        "status": status,
        "detail": "What happened.",
        "code": code,
        "errors": [{"detail": "first"}, {"detail": "second"}],
    }


def test_the_root_is_a_plain_failure() -> None:
    error = PerdureError("It failed.")
    assert (error.code, error.exit_code, error.problem()["errors"]) == ("error", 1, [])


def test_a_conflict_shows_the_present_state_where_that_is_known() -> None:
    assert "current" not in errors.Conflict("It is taken.").problem()
    assert errors.Conflict("It is taken.", current={"revision": 2}).problem()["current"] == {"revision": 2}


def test_the_text_of_an_error_is_its_detail() -> None:
    assert str(errors.Conflict("It is taken.", errors=["by me"])) == "It is taken."


@pytest.mark.parametrize("name", ["PerdureError", "KeyTaken", *OF_GOALS, *TABLE])
def test_every_error_is_a_public_name_of_the_package(name: str) -> None:
    assert name in perdure.__all__
    assert getattr(perdure, name) is getattr(errors, name)


@pytest.mark.parametrize("name", perdure.__all__)
def test_every_public_name_is_there(name: str) -> None:
    found = getattr(perdure, name)
    if name in ("Effect", "Status"):
        assert all(isinstance(word, str) for word in get_args(found))
    elif name == "GoalStatus":
        assert get_args(found) == ("running", "interrupted", "waiting", "done", "failed", "cancelled")
    elif name == "BuilderAnswer":
        kinds = [kind.__name__ for kind in get_args(found)]
        assert kinds == ["OptionIndex", "OptionIndexes", "FreeText", "Confirm", "Back"]
    elif name == "BuilderTurn":
        assert len(get_args(get_args(found)[0])) == 4
    else:
        assert found.__name__ == name


def test_public_names_are_sorted_and_come_once() -> None:
    assert perdure.__all__ == sorted(set(perdure.__all__))


@pytest.mark.parametrize("name", ["Nothing", "perdure", "_HOMES_", ""])
def test_a_name_that_is_not_public_is_not_an_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(perdure, name)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *((each, errors.Unavailable) for each in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE)),
        *((each, errors.Unavailable) for each in (errno.ENFILE, errno.ENOMEM, errno.ETIMEDOUT, errno.EBUSY)),
        *((each, errors.Denied) for each in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EINVAL)),
    ],
)
def test_what_runs_out_is_unavailable_and_what_is_forbidden_is_denied(number: int, kind: type[PerdureError]) -> None:
    error = errors.from_os_error("/x cannot be written", OSError(number, "whatever"))
    assert type(error) is kind
    assert error.detail.startswith(f"/x cannot be written: {os.strerror(number)}.")
