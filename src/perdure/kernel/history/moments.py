"""Moments as people read them."""

from perdure.kernel.events import iso


def moment(us: int) -> str:
    """Write a moment for people."""
    text = iso(us)
    return f"{text[:10]} {text[11:19]} UTC"
