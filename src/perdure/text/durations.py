"""Durations as people write them: 500ms, 0.5s, 90s, 5m, 2h, 1d."""

import re

MAX_DAYS = 36_500
MAX_SECONDS = MAX_DAYS * 86_400
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|[smhd])", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration; None when the text is not one. The caller checks it against `MAX_SECONDS`.

    Whole seconds are an int, so that they are recorded as the same JSON as always.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    seconds = round(float(match[1]) * _SECONDS[match[2]], 6)
    return int(seconds) if seconds.is_integer() else seconds


def read_duration_s(text: str) -> float:
    """Return the seconds of a duration such as 90s.

    Raises: ValueError when it is not one, or is too long.
    """
    seconds = duration_s(text)
    if seconds is None:
        raise ValueError(f"Expected a duration such as 500ms, 10s, 5m, 2h or 1d, found {text[:40]!r}.")
    if seconds > MAX_SECONDS:
        raise ValueError(f"A duration is at most {MAX_DAYS}d, found {text[:40]!r}.")
    return seconds


def read_timeout_s(text: str) -> float:
    """Return the seconds of a duration in which something can happen.

    Raises: ValueError when it is not one, is too long, or is zero.
    """
    seconds = read_duration_s(text)
    if seconds == 0:
        raise ValueError("A timeout must be longer than 0s; leave it out to have none.")
    return seconds
