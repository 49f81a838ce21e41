"""Moments as text: timestamps are microseconds since 1970, and ISO-8601 in UTC wherever a program reads them."""

from datetime import UTC, datetime


def iso(timestamp_us: int) -> str:
    """Write a moment as ISO-8601, UTC, with microseconds and `Z`; one that no calendar has is the last that it has."""
    try:
        moment = datetime.fromtimestamp(timestamp_us // 1_000_000, UTC).replace(microsecond=timestamp_us % 1_000_000)
    except (ValueError, OverflowError, OSError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_or_none(timestamp_us: int | None) -> str | None:
    """Write a moment as `iso` does; None stays None."""
    return None if timestamp_us is None else iso(timestamp_us)


def moment_us(text: str) -> int:
    """Read an ISO-8601 moment as microseconds since 1970."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def moment(us: int) -> str:
    """Write a moment for people."""
    text = iso(us)
    return f"{text[:10]} {text[11:19]} UTC"
