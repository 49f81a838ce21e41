"""Matches typed text to the options of a question: by a prefix of the label, or by the number."""

from collections.abc import Sequence

from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.prompts.plain import read_number


def match_options(typed: str, labels: Sequence[str]) -> list[int]:
    """Return the indices of the labels that a text names, ignoring case; one index if the text is unambiguous.

    A whole label takes precedence over a prefix, and a prefix over a number.
    """
    text = typed.strip().casefold()
    shown = [one_line(label).strip().casefold() for label in labels]
    if not text:
        return []
    if text in shown:
        return [shown.index(text)]
    prefixed = [number for number, label in enumerate(shown) if label.startswith(text)]
    numbered = read_number(text, len(labels))
    return prefixed or ([] if numbered is None else [numbered])
