"""Trouble that lasts is logged when it begins and when it is over, however often it is met in between."""

import logging


class Trouble:
    """One thing that a chore does again and again, and that may fail for a while."""

    def __init__(self, log: logging.Logger, chore: str) -> None:
        self._log = log
        self._chore = chore
        self._is_met = False

    def met(self, why: str) -> None:
        """Say that it has failed, unless that was said already."""
        if not self._is_met:
            self._log.warning("%s cannot be done: %s", self._chore, why)
        self._is_met = True

    def over(self) -> None:
        """Say that it works again, if it did not."""
        if self._is_met:
            self._log.warning("%s can be done again", self._chore)
        self._is_met = False
