"""The documentation as a site: built without a network, every link leads somewhere, and no other host is asked."""

import importlib.util
import itertools
import os
import posixpath
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.markdown import anchors, links, without_code

ROOT = Path(__file__).parent.parent
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

WITHOUT_NETWORK = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise SystemExit(f"The build of the site uses the network: {event} {arguments}")

sys.addaudithook(refuse)
from mkdocs.__main__ import cli
cli()
"""
IN_SCRIPTS = {
    "https://api.github.com/repos/": "asked only where the setting repo_url is a repository of GitHub",
    "https://api.github.com/users/": "the same",
    "https://unpkg.com/mermaid@11/dist/mermaid.min.js": "loaded only where a page has a diagram of mermaid",
    "https://unpkg.com/resize-observer-polyfill": "loaded only by browsers from before 2020, and forbidden",
    "https://bit.ly/2s3ChXG": "the text of a warning",
}
LOADING = {"link": "href", "object": "data", "form": "action"}
"""Tags that load by another attribute than `src`; a link that only names its neighbours loads nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("material") is None:
        pytest.skip("the extra `docs` is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@cache
def tags(page: Path) -> list[tuple[str, dict[str, str]]]:
    """Return the tags of a built page with their attributes."""
    text = re.sub(r"<script>.*?</script>|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    found = re.findall(r"<([a-z]\w*)((?:\s+[\w:-]+(?:=(?:\"[^\"]*\"|[^\s>]+))?)*)\s*/?>", text)
    pairs = r"([\w:-]+)=(?:\"([^\"]*)\"|([^\s>]+))"
    return [(tag, {name: quoted or bare for name, quoted, bare in re.findall(pairs, rest)}) for tag, rest in found]


def pages_of(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def loaded_by(page: Path) -> list[str]:
    """Return what a browser fetches to show a page, as the page names it."""
    found = []
    for tag, given in tags(page):
        if "src" in given:
            found.append(given["src"])
        if "srcset" in given:
            found += [part.split()[0] for part in given["srcset"].split(",")]
        if tag in LOADING and LOADING[tag] in given and given.get("rel") not in ("prev", "next"):
            found.append(given[LOADING[tag]])
        found += re.findall(r"url\(['\"]?([^)'\"]+)", given.get("style", ""))
    return found


def test_the_site_has_a_page_for_each_document(site: Path) -> None:
    built = {path.relative_to(site).as_posix() for path in pages_of(site)}
    documents = {
        path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert documents - built == set()
    assert {
        "changes.html",
        "contributing.html",
        "architecture.html",
        "adr/index.html",
        "examples/saga.py.html",
    } <= built


def test_what_the_pages_load_is_in_the_site(site: Path) -> None:
    for page in pages_of(site):
        loaded = loaded_by(page)
        assert len(loaded) > 3, page
        for target in loaded:
            path = target.partition("?")[0].partition("#")[0]
            is_there = target.startswith("data:") or ("//" not in path and _resolved(site, page, path).is_file())
            assert is_there, f"{page}: {target}"


def _resolved(site: Path, page: Path, target: str) -> Path:
    return site / target.removeprefix("/") if target.startswith("/") else page.parent / target


def test_a_browser_is_instructed_to_load_nothing_from_another_host(site: Path) -> None:
    for page in pages_of(site):
        metas = [given for tag, given in tags(page) if tag == "meta"]
        policies = [given["content"] for given in metas if given.get("http-equiv") == "Content-Security-Policy"]
        assert policies == ["default-src 'self' 'unsafe-inline' data: blob:"], page
        first = page.read_text().index("Content-Security-Policy")
        assert first < page.read_text().index("<link"), "a policy holds for what comes after it"
        assert [given for given in metas if given.get("http-equiv") == "refresh"] == [], page


def test_style_sheets_load_nothing_from_another_host(site: Path) -> None:
    sheets = sorted(site.rglob("*.css"))
    assert len(sheets) >= 3
    for sheet in sheets:
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL)
        assert "@import" not in text
        for target in re.findall(r"url\(([^)]*)\)", text):
            assert target.strip("'\"").startswith(("data:", "#")), f"{sheet}: {target[:80]}"


def test_scripts_name_only_hosts_that_no_page_makes_them_ask(site: Path) -> None:
    named: set[str] = set()
    for script in site.rglob("*.js"):
        if script.parent.name != "lunr" and script.name != "search_index.js":  # no page loads lunr's other languages
            text = re.sub(r"/\*.*?\*/", "", script.read_text(), flags=re.DOTALL)
            named |= set(re.findall(r"https?://[\w./@-]+", text))
    assert named - set(IN_SCRIPTS) == set()
    for page in pages_of(site):
        assert not [given for _, given in tags(page) if "mermaid" in given.get("class", "")], page
        assert 'data-md-component="source"' not in page.read_text(), page


def test_every_link_of_the_site_leads_to_a_page_and_a_heading(site: Path) -> None:
    ids = {page: {given["id"] for _, given in tags(page) if "id" in given} for page in pages_of(site)}
    for page in pages_of(site):
        if page.name == "404.html":
            continue
        targets = {given["href"] for tag, given in tags(page) if tag == "a" and "href" in given}
        assert targets
        for target in targets:
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            there = Path(posixpath.normpath(page.parent / path)) if path else page
            assert there.is_file(), f"{page}: {target}"
            assert not anchor or there.suffix != ".html" or anchor in ids[there], f"{page}: {target}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = page.parent / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there.read_text()), target


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_lists_are_written_so_that_the_site_shows_lists(page: Path) -> None:
    """GitHub shows a list after a line of text, and below an item by two spaces; the site shows a paragraph."""
    lines = without_code(page.read_text()).splitlines()
    for before, line in itertools.pairwise(lines):
        if re.match(r" *(-|\d+\.) ", line):
            assert not before or re.match(r"(#|-|\d+\.| ) *", before), f"an empty line must be before: {line}"
            assert not re.match(r" {1,3}\S", line), f"four spaces must be before: {line}"
