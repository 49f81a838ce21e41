"""Related history as a section of Markdown; a bot keeps exactly one in a text that people edit too.

The content of records is untrusted. It is shown as text: it cannot mention a user, reference an issue, load an image or
close the marker.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from perdure.errors import Invalid
from perdure.memory.query.further import further_matches
from perdure.memory.query.hosting import Hosting
from perdure.memory.record import JsonObject

BEGIN = "<!-- perdure:memory:begin -->"
END = "<!-- perdure:memory:end -->"
TITLE = "### Memory: related history"

_CALL = "`perdure memory related --limit {limit}` with the same arguments"
_TITLE_WIDTH, _SUMMARY_WIDTH, _PATHS, _LINKS = 160, 300, 8, 3
_BREAK = "\u200b"
"""Inserted as `&#8203;` where a mention, a reference or a URL would begin."""
_HIDDEN = re.compile(r"[\x00-\x20\x7f-\xa0\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]+")
_BEGINS = re.compile(r"[@#!~%$^&](?=[\w\"'/-])|:(?=//)|\bgh-(?=\d)|\bwww(?=\.)", re.IGNORECASE)
_ESCAPES = {ord(char): f"\\{char}" for char in "\\`*_{}[]#!|~$"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
    ord(_BREAK): "&#8203;",
}
_HEX = re.compile(r"[0-9a-f]{7,64}")
_PLAIN_PATH = re.compile(r"[\w./ +,-]+")


def section(
    matches: Sequence[Mapping[str, Any]],
    *,
    truncated: bool = False,
    more: Mapping[str, Any] | None = None,
    hosting: Hosting | None = None,
) -> str:
    """Write the matches of `related` as one section between two hidden markers; an empty text without matches.

    With the host of the repositories, commits and pull requests are links.
    """
    if not matches:
        return ""
    lines = [line for match in matches for line in _item(match, hosting)]
    cut = "There may be more: the search was cut short." if truncated else None
    notes = [note for note in (further_matches(len(matches), more, _CALL), cut) if note]
    return "\n".join([BEGIN, TITLE, "", *lines, *([""] if notes else []), *notes, END])


def apply_section(existing: str, new: str) -> str:
    """Put a section into a text: it replaces the first one, or is appended; other sections are removed.

    An empty section removes all sections. Applying it again changes nothing. Text outside the markers is not changed.
    Of a section that has lost one of its markers, only the other marker and the title are removed, because the rest
    may have been written by a person.

    Raises: Invalid when `new` is not a section.
    """
    if not new:
        return _removed(existing)
    if not (new.startswith(f"{BEGIN}\n") and new.endswith(f"\n{END}")):
        raise Invalid(f"The section must begin with {BEGIN} and end with {END}.")
    lines = existing.split("\n")
    kept, at = _without_sections(lines)
    ending = "\r" if lines[0].endswith("\r") else ""
    written = [f"{line}{ending}" for line in new.split("\n")]
    if at is None:
        return "\n".join([*_before_the_end(kept, ending), *written, ""])
    if at == len(kept):
        written[-1] = written[-1].rstrip("\r")
    return "\n".join([*kept[:at], *written, *kept[at:]])


def _removed(existing: str) -> str:
    """Return a text without its sections, and without the empty line that was added before the last one."""
    kept, at = _without_sections(existing.split("\n"))
    if at is None:
        return existing
    before, after = kept[:at], kept[at:]
    if any(_bare(line) for line in after):
        if before and not _bare(before[-1]) and not _bare(after[0]):  # one empty line between what stays is enough
            after = after[1:]
        return "\n".join([*before, *after])
    while before and not _bare(before[-1]):
        before.pop()
    return "\n".join([*before, ""]) if before else ""


def inline(text: str, width: int = _SUMMARY_WIDTH) -> str:
    """Escape untrusted text: it becomes one line that is shown literally and has no effect."""
    line = _HIDDEN.sub(" ", text).strip()
    cut = line if len(line) <= width else f"{line[: width - 1]}…"
    return _BEGINS.sub(rf"\g<0>{_BREAK}", cut).translate(_ESCAPES)


def _without_sections(lines: Sequence[str]) -> tuple[list[str], int | None]:
    """Return the lines outside of sections, and the index among them of the first section."""
    kept: list[str] = []
    first: int | None = None
    ends = dict(_pairs(lines))
    number = 0
    while number < len(lines):
        line = _bare(lines[number])
        if line not in (BEGIN, END):
            kept.append(lines[number])
        elif first is None:
            first = len(kept)
        if number in ends:
            number = ends[number]
        elif line == BEGIN and _bare("".join(lines[number + 1 : number + 2])) == TITLE:
            number += 1
        number += 1
    return kept, first


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each complete section: an end belongs to the nearest begin before it."""
    begin: int | None = None
    for number, line in enumerate(lines):
        if _bare(line) == BEGIN:
            begin = number
        elif _bare(line) == END and begin is not None:
            yield begin, number
            begin = None


def _bare(line: str) -> str:
    return line.strip(" \t\r")


def _before_the_end(lines: list[str], ending: str) -> list[str]:
    """Return the lines of a text, followed by an empty line, so that a section can be appended."""
    if not any(_bare(line) for line in lines):
        return []
    whole = lines if lines[-1] == "" else [*lines[:-1], lines[-1].rstrip("\r") + ending, ""]
    return [*whole[:-1], *([] if not _bare(whole[-2]) else [ending])]


def _item(match: Mapping[str, Any], hosting: Hosting | None) -> Iterator[str]:
    record: JsonObject = match["record"]
    date = str(record.get("timestamp", ""))[:10]
    words = [inline(str(word), 40) for word in (record.get("type"), date, record.get("repo")) if word]
    title = inline(str(record.get("title") or record.get("summary") or record.get("id") or ""), _TITLE_WIDTH)
    severity = str(record.get("severity") or "unknown")
    first = "" if severity == "unknown" else f"**{inline(severity, 20)}** "
    count = match.get("count") or 1
    often = f" ({count} times, this is the newest)" if count > 1 else ""
    yield f"- {first}{', '.join(words)}: {title}{often}"
    if record.get("title") and record.get("summary"):
        yield f"  - {inline(str(record['summary']))}"
    if changes := [*_commit(record, hosting), *_pull_request(record, hosting)]:
        yield f"  - {', '.join(changes)}"
    if paths := record.get("paths") or []:
        more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        yield f"  - paths: {', '.join(_path(str(path)) for path in paths[:_PATHS])}{more}"
    if why := match.get("why") or []:
        yield f"  - why: {', '.join(_reason(each) for each in why[:_PATHS])}"
    if links := [found for link in (record.get("links") or [])[:_LINKS] if (found := _link(link))]:
        yield f"  - {', '.join(links)}"


def _commit(record: JsonObject, hosting: Hosting | None) -> Iterator[str]:
    sha = record.get("sha")
    if isinstance(sha, str) and sha:
        name = f"`{sha[:12]}`" if _HEX.fullmatch(sha) else inline(sha, 40)
        url = hosting.commit_url(record.get("repo"), sha) if hosting else None
        yield f"commit {_linked(name, url)}"


def _pull_request(record: JsonObject, hosting: Hosting | None) -> Iterator[str]:
    number = record.get("pr_number")
    if type(number) is int:
        url = hosting.pull_request_url(record.get("repo"), number) if hosting else None
        word = hosting.request_word if hosting else "pull request"
        yield f"{word} {_linked(str(number), url)}"


def _linked(name: str, url: str | None) -> str:
    return name if url is None else f"[{name}](<{_without_backlink(url)}>)"


def _without_backlink(url: str) -> str:
    """Return a URL of the same page on GitHub that does not create a "mentioned in" entry there."""
    return re.sub(r"^https?://(www\.)?github\.com(?=/)", "https://redirect.github.com", url, flags=re.IGNORECASE)


def _path(path: str) -> str:
    return f"`{path}`" if _PLAIN_PATH.fullmatch(path) and path == path.strip() else inline(path, _TITLE_WIDTH)


def _reason(why: Mapping[str, Any]) -> str:
    value = str(why.get("value", ""))
    return f"{inline(str(why.get('kind', '')), 20)} {_path(value) if why.get('kind') == 'path' else inline(value, 80)}"


def _link(link: Mapping[str, Any]) -> str | None:
    """Write a link for an http(s) URL; any other URL is written as text."""
    url = str(link.get("url", ""))
    name = inline(str(link.get("title") or link.get("label") or url), 80)
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web or _HIDDEN.search(url):
        return name or None
    return _linked(name, quote(_without_backlink(url), safe=":/?#@!$&*+,;=%~-._"))
