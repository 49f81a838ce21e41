"""Hooks of mkdocs: pages of the site that are files outside of `docs/`, and links to them.

Each page of the site comes from one file of the repository. Links between files are written as GitHub follows them, so
that a page reads the same there; here each is resolved as a path in the repository and then replaced by the path of the
page that comes from it. A link to a file that has no page stays as it is, and `mkdocs build --strict` reports it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(([^)#\s:]+)(#[^)\s]*)?\)")
DOCUMENTS = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
LANGUAGES = {".py": "python", ".sh": "sh", ".yml": "yaml"}


def sources() -> dict[str, str]:
    """Return the page of each file that has one, by the path of the file in the repository."""
    documents = {f"docs/{path.relative_to(ROOT / 'docs').as_posix()}" for path in (ROOT / "docs").rglob("*.*")}
    pages = {path: path.removeprefix("docs/") for path in documents} | DOCUMENTS | {"docs/adr": "adr/index.md"}
    return pages | {example: f"{example}.md" for example in _examples()}


def _examples() -> list[str]:
    paths = (ROOT / "examples").rglob("*.*")
    return sorted(path.relative_to(ROOT).as_posix() for path in paths if path.suffix in LANGUAGES)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose files are outside of `docs/`, and the list of decisions."""
    for source, page in DOCUMENTS.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for example in _examples():
        text = (ROOT / example).read_text(encoding="utf-8")
        language = LANGUAGES[Path(example).suffix]
        content = f"# {Path(example).name}\n\n`{example}`\n\n```{language}\n{text}```\n"
        files.append(File.generated(config, f"{example}.md", content=content))
    files.append(File.generated(config, "adr/index.md", content=_decisions()))
    return files


def _decisions() -> str:
    titles = [(path.name, path.read_text(encoding="utf-8").partition("\n")[0]) for path in _adrs()]
    lines = [f"- [{title.removeprefix('# ')}]({name})" for name, title in titles]
    return "\n".join(["# Decisions", "", "Each page has the context, the decision and what it costs.", "", *lines, ""])


def _adrs() -> list[Path]:
    return sorted((ROOT / "docs" / "adr").glob("*.md"))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Replace links to files of the repository by links to their pages."""
    pages = sources()
    path = page.file.src_uri
    source = next((source for source, of in pages.items() if of == path), f"docs/{path}")

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        if target not in pages:
            return link[0]
        there = posixpath.relpath(pages[target], posixpath.dirname(path) or ".")
        return f"]({there}{link[2] or ''})"

    return LINK.sub(replaced, markdown)
