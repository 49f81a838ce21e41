"""What the tests of the documents read of Markdown: prose, headings, links."""

import re
from collections import Counter
from collections.abc import Iterator

_CODE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_INLINE_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAMED_LINK = re.compile(r"^\[[^\]]+\]: (\S+)$", re.MULTILINE)


def without_code(text: str) -> str:
    """Return the text with an empty line for each line of a code block."""
    return _CODE.sub(lambda block: "\n" * block[0].count("\n"), text)


def links(text: str) -> list[str]:
    """Return the targets of all links and images."""
    prose = re.sub(r"`[^`\n]*`", "", without_code(text))
    return _INLINE_LINK.findall(prose) + _NAMED_LINK.findall(prose)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, as GitHub makes them."""
    return set(_anchors(text))


def _anchors(text: str) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for heading in re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        yield f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
        seen[anchor] += 1
