"""SOUL.md, the personality of a bot: front matter for name, traits and tone; sections for the rest.

Text that looks like the heading of a section is escaped with a backslash, so that any text can be stored.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perdure.bots.documents import read_document
from perdure.bots.fields import Fields

LONGEST_NAME = 120
SECTIONS = ("Personality", "Purpose", "Boundaries")
_HEADING = re.compile(rf"(?P<escapes>\\*)## (?P<section>{'|'.join(SECTIONS)})\s*")


@dataclass(frozen=True, slots=True)
class Soul:
    """The personality of a bot."""

    name: str
    tone: str
    traits: tuple[str, ...]
    personality: str
    purpose: str
    boundaries: tuple[str, ...]
    body: str
    """The whole text after the front matter, with text outside of sections."""


def parse_soul(text: str, name: str) -> Soul:
    """Parse the text of a SOUL.md.

    Raises: Invalid, naming the file.
    """
    document = read_document(text, name)
    fields = Fields(document, name)
    sections = _sections(document.body)
    return Soul(
        name=fields.text("name", LONGEST_NAME),
        tone=fields.text("tone"),
        traits=fields.texts("traits"),
        personality="\n".join(map(_unescape, sections["Personality"])).strip(),
        purpose="\n".join(map(_unescape, sections["Purpose"])).strip(),
        boundaries=tuple(_items(sections["Boundaries"])),
        body=document.body.strip(),
    )


def section_lines(text: str) -> list[str]:
    """Return a text as lines of a section, escaped where necessary."""
    return [f"\\{line}" if _HEADING.fullmatch(line) else line for line in text.split("\n")]


def item_lines(text: str) -> list[str]:
    """Return a text as one item of a Markdown list."""
    first, *rest = text.split("\n")
    return [f"- {first}", *(f"  {line}" if line else "" for line in rest)]


def _sections(body: str) -> dict[str, list[str]]:
    """Return the lines of each section; a repeated section is continued."""
    sections: dict[str, list[str]] = {section: [] for section in SECTIONS}
    lines: list[str] = []
    for line in body.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading and not heading["escapes"]:
            lines = sections[heading["section"]]
        else:
            lines.append(line)
    return sections


def _unescape(line: str) -> str:
    return line[1:] if line.startswith("\\") and _HEADING.fullmatch(line) else line


def _items(lines: Sequence[str]) -> Iterable[str]:
    """Yield the items of a list; a paragraph counts as an item, too."""
    item: list[str] = []
    for line in lines:
        if line[:2] in ("- ", "* ") or (line[:1].strip() and (not item or not item[-1])):
            yield from _unless_empty(item)
            item = [line[2:] if line[:2] in ("- ", "* ") else line]
        elif item:
            item.append(line.removeprefix("  ") if line.strip() else line[2:])
    yield from _unless_empty(item)


def _unless_empty(item: Sequence[str]) -> Iterable[str]:
    if text := "\n".join(item).strip():
        yield text
