"""Texts that people read have none of the phrases that CONTRIBUTING.md says to avoid.

A collector yields the texts of one source, each with its place; a new source is one more function in COLLECTORS.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure import errors
from perdure.interfaces.api.app import make_routes
from scripts.write_reference import PAGES
from tests.markdown import without_code

ROOT = Path(__file__).parent.parent


class Text(NamedTuple):
    """A text that people read, and where it is: a file and a line."""

    place: str
    text: str


class Phrase(NamedTuple):
    """A phrase to avoid, and what to write instead."""

    text: str
    instead: str

    def is_in(self, text: str) -> bool:
        """Return whether a text has the phrase as whole words, other than after `there`."""
        words = re.escape(self.text).replace("…", r"[a-z]+")
        return re.search(rf"(?<!there )\b{words}\b", text, re.IGNORECASE) is not None


def phrases() -> list[Phrase]:
    """Return the table of CONTRIBUTING.md."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("## Words to avoid\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    return [Phrase(text, instead) for avoided, instead in rows for text in re.findall(r"`([^`]+)`", avoided)]


def documents() -> Iterator[Text]:
    """Yield each paragraph of the documents, without code; generated pages have the texts of the source."""
    files = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - set(PAGES)
    for file in sorted(files):
        line = 1
        for paragraph in re.split(r"(?<=\n)\n", without_code(file.read_text())):
            yield Text(f"{file.relative_to(ROOT)}:{line}", " ".join(re.sub(r"`[^`]*`", "`", paragraph).split()))
            line += paragraph.count("\n") + 1


def messages() -> Iterator[Text]:
    """Yield the texts of the source that users see: arguments of errors and of log calls, help texts, OpenAPI texts."""
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            for shown in _shown_by(node):
                parts = [each.value for each in ast.walk(shown) if isinstance(each, ast.Constant)]
                text = " ".join(" ".join(str(each) for each in parts if isinstance(each, str)).split())
                yield Text(f"{file.relative_to(ROOT)}:{shown.lineno}", re.sub(r"`[^`]*`", "`", text))


_ERRORS = re.compile(r"[A-Z]\w+")
_LOGGED = {"debug", "info", "warning", "error", "exception", "critical"}
_NAMED = {"help", "description", "summary", "detail", "why", "message"}


def _shown_by(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a node that users see as text."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from node.exc.args
    if not isinstance(node, ast.Call):
        return
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    is_error = _ERRORS.fullmatch(name) is not None and hasattr(errors, name)
    if is_error or (name in _LOGGED and isinstance(node.func, ast.Attribute)):
        yield from node.args
    yield from (each.value for each in node.keywords if each.arg in _NAMED)


def prompts() -> Iterator[Text]:
    """Yield the texts that the command line prints: help texts are docstrings of commands; also prompts and reports."""
    for file in sorted((ROOT / "src/perdure/interfaces/cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                text = re.sub(r"`[^`]*`", "`", " ".join(node.value.split()))
                yield Text(f"{file.relative_to(ROOT)}:{node.lineno}", text)


def openapi() -> Iterator[Text]:
    """Yield every summary, description and title of the OpenAPI document, at any depth."""
    for number, (where, text) in enumerate(_described(make_routes().openapi(), ""), start=1):
        yield Text(f"openapi{where}:{number}", re.sub(r"`[^`]*`", "`", " ".join(text.split())))


def _described(part: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a part of the OpenAPI document, each with its path."""
    if isinstance(part, list):
        for number, item in enumerate(part):
            yield from _described(item, f"{where}/{number}")
    if not isinstance(part, Mapping):
        return
    for name, value in part.items():
        if name in ("summary", "description", "title") and isinstance(value, str):
            yield where.replace(":", ""), value
        elif name not in ("example", "examples"):
            yield from _described(value, f"{where}/{name}")


COLLECTORS: list[Callable[[], Iterator[Text]]] = [documents, messages, prompts, openapi]


@pytest.mark.parametrize("collect", COLLECTORS, ids=lambda collect: collect.__name__)
def test_texts_have_no_phrase_to_avoid(collect: Callable[[], Iterator[Text]]) -> None:
    avoided = phrases()
    found = [
        f"{text.place}: {phrase.text!r} → {phrase.instead}"
        for text in collect()
        for phrase in avoided
        if phrase.is_in(text.text)
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("collect", COLLECTORS, ids=lambda collect: collect.__name__)
def test_a_collector_yields_texts_with_their_places(collect: Callable[[], Iterator[Text]]) -> None:
    texts = list(collect())
    assert len(texts) > 100
    assert all(re.fullmatch(r"[^:]+:\d+", text.place) for text in texts)
    assert sum(len(text.text) for text in texts) > 10_000


def test_the_table_of_phrases_is_read() -> None:
    avoided = {phrase.text: phrase.instead for phrase in phrases()}
    assert len(avoided) > 30
    assert avoided["somebody"] == "worker, caller, client, process, user, person"


@pytest.mark.parametrize(
    ("phrase", "text", "is_found"),
    [
        ("is no …", "It is no error.", True),
        ("is no …", "There is no error.", False),
        ("is no …", "It is not an error; its answer is no.", False),
        ("told", "Told to end, it ends.", True),
        ("told", "It folds, and is retold.", False),
    ],
)
def test_a_phrase_is_found_as_whole_words(phrase: str, text: str, is_found: bool) -> None:
    assert Phrase(phrase, "").is_in(text) is is_found
