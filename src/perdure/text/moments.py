"""Converts timestamps, which are microseconds since 1970, to and from ISO-8601 in UTC."""

from datetime import UTC, datetime


def iso(timestamp_us: int) -> str:
    """Return a timestamp as ISO-8601 in UTC with microseconds and `Z`; out of range, the last possible one."""
    try:
        moment = datetime.fromtimestamp(timestamp_us // 1_000_000, UTC).replace(microsecond=timestamp_us % 1_000_000)
    except (ValueError, OverflowError, OSError):
        moment = datetime.max.replace(tzinfo=UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def iso_or_none(timestamp_us: int | None) -> str | None:
    """Return a timestamp as `iso` does; None for None."""
    return None if timestamp_us is None else iso(timestamp_us)


def moment_us(text: str) -> int:
    """Parse an ISO-8601 time as microseconds since 1970."""
    moment = datetime.fromisoformat(text)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def moment(us: int) -> str:
    """Return a timestamp as text for people."""
    text = iso(us)
    return f"{text[:10]} {text[11:19]} UTC"
