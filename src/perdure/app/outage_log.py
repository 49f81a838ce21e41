"""Outages in the log: one line when an operation begins to fail, and one when it works again."""

import logging


class OutageLog:
    """Logs the outages of one operation that is repeated, such as a poll."""

    def __init__(self, log: logging.Logger, operation: str) -> None:
        self._log = log
        self._operation = operation
        self._is_failing = False

    def failed(self, why: str) -> None:
        """Log the failure, unless the operation has failed since it last worked."""
        if not self._is_failing:
            self._log.warning("%s failed: %s", self._operation, why)
        self._is_failing = True

    def worked(self) -> None:
        """Log that the operation works again, if it has failed before."""
        if self._is_failing:
            self._log.warning("%s works again", self._operation)
        self._is_failing = False
