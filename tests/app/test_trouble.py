"""Trouble that lasts does not fill the log."""

import logging

import pytest

from perdure.app.outage_log import Trouble


def test_trouble_is_told_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(logging.getLogger("test"), "a look")
    trouble.over()
    for why in ("first", "second", "third"):
        trouble.met(why)
    trouble.over()
    trouble.over()
    trouble.met("again")
    assert [record.message for record in caplog.records] == [
        "a look cannot be done: first",
        "a look can be done again",
        "a look cannot be done: again",
    ]
