"""Formats times, which are local, and durations for people."""

from datetime import UTC, datetime

_SECOND_US = 1_000_000


def in_words(milliseconds: int) -> str:
    """Return a duration as text: `6 ms`, `3.5 s`, `3m 12s`, `1h 05m`, `2d 03h`."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours < 24 else f"{hours // 24}d {hours % 24:02}h"


def span(from_us: int, until_us: int) -> str:
    """Return the time between two moments as text; zero if the clock was set back between them."""
    return in_words(max(until_us - from_us, 0) // 1000)


def age(moment_us: int, now_us: int) -> str:
    """Return the age of a moment in one unit: `12s ago`, `3m ago`, `5h ago`, `4d ago`."""
    seconds = max(now_us - moment_us, 0) // _SECOND_US
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit} ago"
    return f"{seconds}s ago"


def short_moment(moment_us: int, now_us: int) -> str:
    """Return a moment in at most twelve characters: its age if it was today, else `Nov 16 07:42`, or the date."""
    then, now = _local(moment_us), _local(now_us)
    if then.date() == now.date():
        return age(moment_us, now_us)
    return f"{then:%b %d %H:%M}" if then.year == now.year else f"{then:%Y-%m-%d}"


def deadline_moment(moment_us: int, now_us: int) -> str:
    """Return a deadline in at most twelve characters: `14:05` if it is today, else `Nov 16 14:05`, or the date."""
    then, now = _local(moment_us), _local(now_us)
    if then.date() == now.date():
        return f"{then:%H:%M}"
    return f"{then:%b %d %H:%M}" if then.year == now.year else f"{then:%Y-%m-%d}"


def whole_moment(moment_us: int) -> str:
    """Return a moment with date, time and zone: `2026-11-16 07:42:10 CET`."""
    return f"{_local(moment_us):%Y-%m-%d %H:%M:%S %Z}"


def sortable_moment(moment_us: int) -> str:
    """Return a moment in a form that sorts by time: `2026-11-16 07:42:10`."""
    return f"{_local(moment_us):%Y-%m-%d %H:%M:%S}"


def _local(moment_us: int) -> datetime:
    """Return a moment in local time; a moment outside the calendar becomes its last one."""
    try:
        return datetime.fromtimestamp(moment_us // _SECOND_US).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)
