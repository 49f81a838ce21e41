"""Draws what `perdure demo` prints as docs/demo.svg: a terminal as an image that loads nothing from elsewhere."""

import subprocess
import sys
from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "demo.svg"
COLUMNS = 80
_CHARACTER, _LINE, _MARGIN = 8.4, 18, 16
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_BACKGROUND, _PLAIN, _PROMPT, _PROSE, _KILL = "#101418", "#d6dde4", "#7ee787", "#8fb8ff", "#ff7b72"


def main() -> None:
    """Run the demo and write the picture."""
    done = subprocess.run([sys.executable, "-m", "perdure", "demo"], capture_output=True, text=True, check=True)
    PICTURE.write_text(draw(done.stdout), encoding="utf-8")


def draw(printed: str) -> str:
    """Return an SVG of lines on a terminal."""
    lines = printed.strip("\n").splitlines()
    width, height = round(COLUMNS * _CHARACTER + 2 * _MARGIN), len(lines) * _LINE + 2 * _MARGIN
    texts = [_text(line, _MARGIN + (number + 1) * _LINE - 5) for number, line in enumerate(lines) if line.strip()]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"',
            f'     viewBox="0 0 {width} {height}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="{_BACKGROUND}"/>',
            f'<g font-family="{_FONT}" font-size="14">',
            *texts,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _text(line: str, y: int) -> str:
    words = line.lstrip()
    x = _MARGIN + (len(line) - len(words)) * _CHARACTER
    length = round(len(words) * _CHARACTER, 1)
    return (
        f'<text x="{x:.1f}" y="{y}" fill="{_colour(line, words)}" textLength="{length}"'
        f' xml:space="preserve">{escape(words)}</text>'
    )


def _colour(line: str, words: str) -> str:
    if words.startswith("$ "):
        return _PROMPT
    if words == "Killed":
        return _KILL
    return _PLAIN if line.startswith(" ") else _PROSE


if __name__ == "__main__":
    main()
