"""JUnit test reports: the tests that failed together become one record, or one for each 200 paths.

A report is untrusted. It is parsed in pieces; one that declares entities, is too large or too deep is rejected before
any part of it is used.
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from perdure.errors import Invalid
from perdure.memory.ingest.checkout import repository_root
from perdure.memory.ingest.report import MOST_PATHS, SourceRecords, identity, shortened
from perdure.memory.normalise import moment
from perdure.memory.record import JsonObject

LARGEST_BYTES = 64 << 20
_DEEPEST = 64
_MOST_TESTS = 100
_CHUNK = 1 << 16
_KEPT_TEXT = 1 << 20
_PLACE = re.compile(r"(?:^|\bFile \"|\(|\bat |\u276f (?:\S+ )?)([\w./\\-]+\.\w{1,8})(?:\", line |:)\d+", re.MULTILINE)
"""A line of a traceback that names a file, as Python, pytest, JavaScript or Vitest print it."""
_INSTALLED = frozenset({"site-packages", "dist-packages", "node_modules", ".venv", "venv", ".tox", ".nox"})
"""Folders of installed code, which is not the cause of a failure."""


@dataclass
class _Case:
    name: str
    classname: str
    file: str
    suite: str = ""
    has_failed: bool = False
    message: str = ""
    text: list[str] = field(default_factory=list)
    size: int = 0
    first_line: str = ""
    files: tuple[str, ...] = ()
    """The files that the failure names."""

    @property
    def title(self) -> str:
        return ".".join(filter(None, (self.classname, self.name)))[:300]

    def close(self) -> None:
        """Keep the first line of the failure's text, and the files of its traceback."""
        text = "".join(self.text)
        self.first_line = shortened((self.message.strip() or text.strip()).partition("\n")[0], 300)
        self.files = tuple(dict.fromkeys(_PLACE.findall(text)))
        self.text.clear()


class _InvalidReport(Exception):
    """The report is not valid, and reading it stops."""


class _Reader:
    """Collects the failed tests of a report while it is parsed."""

    def __init__(self) -> None:
        self.failed: list[_Case] = []
        self.total = 0
        self.moment = ""
        self._open: list[str] = []
        self._case: _Case | None = None
        self._suite = ""
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._reject_entity
        self._parser.ExternalEntityRefHandler = self._reject_entity

    def feed(self, data: bytes, *, is_last: bool = False) -> None:
        """Read the next piece.

        Raises: _InvalidReport; expat.ExpatError.
        """
        self._parser.Parse(data, is_last)

    def _reject_entity(self, *_about: object) -> int:
        raise _InvalidReport("it declares entities, which a test report does not need")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._open.append(name)
        if len(self._open) > _DEEPEST:
            raise _InvalidReport(f"it is nested more than {_DEEPEST} deep")
        match name:
            case "testsuite":
                self.moment = max(self.moment, _moment(attributes.get("timestamp", "")))
                self._suite = attributes.get("file") or attributes.get("name", "")
            case "testcase":
                self.total += 1
                self._case = _Case(
                    attributes.get("name", ""), attributes.get("classname", ""), attributes.get("file", ""), self._suite
                )
            case "failure" | "error" if self._case is not None:
                self._case.has_failed = True
                self._case.message = self._case.message or attributes.get("message", "")

    def _end(self, name: str) -> None:
        self._open.pop()
        if name == "testcase" and self._case is not None:
            if self._case.has_failed:
                self._case.close()
                self.failed.append(self._case)
            self._case = None

    def _text(self, data: str) -> None:
        case = self._case
        if case is not None and self._open[-1] in ("failure", "error") and case.size < _KEPT_TEXT:
            case.size += len(data)
            case.text.append(data[:_KEPT_TEXT])


def junit(
    path: Path, *, root: Path | None = None, repo: str | None = None, sha: str | None = None, pr: int | None = None
) -> SourceRecords:
    """Find which tests failed in a report; no record when none did."""
    collected = SourceRecords()
    reader = _Reader()
    try:
        _read(path, reader)
    except OSError as error:
        collected.skip(f"{path}: cannot be read: {error.strerror}.")
    except (_InvalidReport, expat.ExpatError, ValueError, LookupError) as error:  # the last two: of an odd encoding
        collected.skip(f"{path}: not used: {error}.")
    else:
        if reader.failed:
            about = {"repo": repo, "sha": sha, "pr_number": pr}
            records = _records(reader, root or Path.cwd(), {k: v for k, v in about.items() if v is not None})
            collected.records += records
            if not records[0]["paths"]:
                collected.errors.append(
                    f"{path}: it names no file of the repository, so that no path finds the record."
                )
        elif not reader.total:
            collected.skip(f"{path}: no test case is in it.")
    return collected


def _read(path: Path, reader: _Reader) -> None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise _InvalidReport("it is not a file")
    if status.st_size > LARGEST_BYTES:
        raise _InvalidReport(f"it is larger than {LARGEST_BYTES >> 20} MiB")
    with path.open("rb") as file:
        while data := file.read(_CHUNK):
            reader.feed(data)
    reader.feed(b"", is_last=True)
    reader.moment = reader.moment or moment(status.st_mtime)


def _records(reader: _Reader, root: Path, about: JsonObject) -> list[JsonObject]:
    """Return one record, or one for each `MOST_PATHS` paths, so that every path finds its failed tests."""
    cases = [(case, _paths(case, root)) for case in sorted(reader.failed, key=lambda case: case.title)]
    paths = sorted(set[str]().union(*(found for _, found in cases)))
    if len(paths) <= MOST_PATHS:
        return [_record(reader, reader.failed, paths, about)]
    parts = [paths[start : start + MOST_PATHS] for start in range(0, len(paths), MOST_PATHS)]
    return [
        _record(reader, [case for case, found in cases if not found.isdisjoint(part)], part, about) for part in parts
    ]


def _record(reader: _Reader, cases: Sequence[_Case], paths: list[str], about: JsonObject) -> JsonObject:
    failed = sorted(cases, key=lambda case: case.title)
    names = list(dict.fromkeys(case.title for case in failed if case.title))
    fingerprint = identity("junit", *(paths or names))
    first = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return {
        "id": identity("junit", fingerprint, reader.moment[:10], about.get("repo", ""), about.get("sha", "")),
        "type": "verifier_cluster",
        "timestamp": reader.moment,
        "severity": "high",
        "source": "junit",
        "title": shortened(f"{len(failed)} of {reader.total} tests failed: {first}", 300),
        "summary": shortened("\n".join(f"{case.title}: {case.first_line}" for case in failed[:_MOST_TESTS])),
        "fingerprint": fingerprint,
        "paths": paths,
        "metadata": {"failed": len(failed), "total": reader.total, "tests": names[:_MOST_TESTS]},
        **about,
    }


def _paths(case: _Case, root: Path) -> set[str]:
    """Return the file of a test and those of its traceback; without any, the file that its class may be in."""
    named = [*filter(None, [case.file]), *case.files]
    paths = {path for text in named if (path := _within(text, root))}
    paths |= {path for text in (case.classname, case.suite) if (path := _existing(text, root))}
    return paths or {path for text in _modules(case.classname, root) if (path := _within(text, root))}


def _existing(text: str, root: Path) -> str | None:
    """Return the file that a class or a suite is named after, as JavaScript test runners do, if it exists."""
    base = repository_root(root) or root
    for folder in (root, base):
        if "." in text and os.path.isfile(folder / text):  # noqa: PTH113 (as below)
            return _within(str(folder / text), root)
    return None


def _modules(classname: str, root: Path) -> list[str]:
    parts = classname.split(".")
    names = ["/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1)]
    return [name for name in names if re.fullmatch(r"[\w/-]+\.py", name) and os.path.isfile(root / name)][:1]  # noqa: PTH113 (no name is too long for it)


def _within(text: str, root: Path) -> str | None:
    """Return a path relative to the repository; None for one outside of it and for installed code."""
    base = repository_root(root) or root
    relative = text.strip().replace("\\", "/")
    path = Path(os.path.normpath(root / relative))
    if not os.path.lexists(path) and os.path.lexists(base / relative):  # the tests ran at the root, in another folder
        path = Path(os.path.normpath(base / relative))
    if not path.is_relative_to(base):
        path, base = Path(os.path.realpath(path)), Path(os.path.realpath(base))
    if not path.is_relative_to(base) or path == base:
        return None
    inside = path.relative_to(base)
    return inside.as_posix() if _INSTALLED.isdisjoint(inside.parts) else None


def _moment(text: str) -> str:
    try:
        return moment(text) if text else ""
    except Invalid:
        return ""
