"""Every command that a page or a message shows is a command, and its options are options of that command."""

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.interfaces.cli.commands import build

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted([*(ROOT / "docs/how-to").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")])
SOURCES = sorted([*(ROOT / "examples").glob("*.py"), *(ROOT / "src").rglob("*.py")])
IN_BLOCK = re.compile(r"^(?:\$ )?(perdure .+)$")
INLINE = re.compile(r"`(perdure [^`]+)`")
ENDS = {"|", "||", "&", "&&", ";", ">", ">>", "<", "2>", "--"}


def commands_of_page(text: str) -> Iterator[str]:
    """Yield the commands of the code blocks and of the prose of a page."""
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if found := IN_BLOCK.match(line.strip()):
                yield found[1]
    for inline in INLINE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield " ".join(inline.split())


def commands_of_source(text: str) -> Iterator[str]:
    """Yield the commands that messages and docstrings name; what is filled in later is `X`."""
    for inline in INLINE.findall(text):
        if "\n" not in inline:
            yield re.sub(r"\{[^{}]*\}", "X", inline)


def words_of(command: str) -> list[str]:
    """Return the words of a command up to the first operator of the shell, without the marks of what is optional."""
    plain = re.sub(r"\$\([^()]*\)", "X", command)
    words = []
    for word in shlex.split(plain, comments=True):
        if word in ENDS:
            break
        words.append(word.strip("[];)"))
        if word.endswith((";", ")")):
            break
    return words[1:]


def why_not(command: str) -> str | None:
    """Return why a shown command is invalid; None if its words are commands and its options are theirs."""
    found: Any = build()
    words = words_of(command)
    leading = list(itertools.takewhile(lambda word: word.startswith("-"), words))
    words = [*words[len(leading) :], *leading]  # common options may be first
    while words and hasattr(found, "commands") and not words[0].startswith(("-", "…")):
        if words[0] not in found.commands:
            return f"`{command}`: {words[0]} is not a command"
        found = found.commands[words.pop(0)]
    options = {name for each in found.params for name in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in words if re.match("--?[a-z]", word) and word.partition("=")[0] not in options]
    return f"`{command}`: unknown options {unknown}" if unknown else None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    assert [why for command in commands_of_page(page.read_text()) if (why := why_not(command))] == []


def test_the_commands_that_messages_and_docstrings_name_exist_with_their_options() -> None:
    named = [command for source in SOURCES for command in commands_of_source(source.read_text())]
    assert len(named) > 100
    assert [why for command in named if (why := why_not(command))] == []


@pytest.mark.parametrize(
    "command",
    ["perdure gaol list", "perdure goal lst", "perdure goal show ID --outptu x", "perdure run --plann f && true"],
)
def test_a_command_that_does_not_exist_is_found(command: str) -> None:
    assert why_not(command) is not None
