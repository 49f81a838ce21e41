"""The picture of the demo in the README."""

import re
from pathlib import Path

from scripts.draw_demo import COLUMNS, PICTURE, draw

MOST_LINES = 60


def texts(svg: str) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]*)</text>", svg)


def test_what_a_terminal_shows_is_text_and_never_markup() -> None:
    assert texts(draw("$ echo '<b>' & exit\nKilled\n")) == ["$ echo &#x27;&lt;b&gt;&#x27; &amp; exit", "Killed"]


def test_the_picture_loads_nothing_and_shows_the_whole_demo_in_sixty_lines() -> None:
    svg = PICTURE.read_text()
    assert re.findall(r"https?://[^\s\"']+", svg) == ["http://www.w3.org/2000/svg"]
    assert "<script" not in svg
    shown = texts(svg)
    assert any(line.startswith("$ python shop.py") for line in shown)
    assert "Killed" in shown
    assert any("goal retry" in line for line in shown)
    assert len(shown) <= MOST_LINES
    assert max(len(line) for line in shown) <= COLUMNS + len("&quot;") * 4


def test_the_readme_shows_the_picture() -> None:
    assert "(docs/demo.svg)" in (Path(__file__).parent.parent / "README.md").read_text()
