"""An outage that lasts does not fill the log."""

import logging

import pytest

from perdure.app.outage_log import OutageLog


def test_an_outage_is_logged_when_it_begins_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    outages = OutageLog(logging.getLogger("test"), "polling")
    outages.worked()
    for why in ("first", "second", "third"):
        outages.failed(why)
    outages.worked()
    outages.worked()
    outages.failed("again")
    assert [record.message for record in caplog.records] == [
        "polling failed: first",
        "polling works again",
        "polling failed: again",
    ]
