"""Which options a typed text names."""

import pytest

from perdure.interfaces.cli.prompts.matching import match_options


@pytest.mark.parametrize(
    ("typed", "labels", "expected"),
    [
        ("NO", ["yes", "no"], [1]),
        ("2", ["yes", "no"], [1]),
        ("3", ["yes", "no"], []),
        ("d", ["delete", "deny"], [0, 1]),
        ("del", ["delete all", "del"], [1]),
        ("1", ["2 days", "1 day"], [1]),
        (" ", ["yes", ""], []),
    ],
)
def test_a_text_names_the_options_that_begin_with_it_or_the_one_with_its_number(
    typed: str, labels: list[str], expected: list[int]
) -> None:
    assert match_options(typed, labels) == expected
