"""Which options of a question a typed text names: by the beginning of their label, or by their number."""

from collections.abc import Sequence

from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.prompts.plain import read_number


def match_options(typed: str, labels: Sequence[str]) -> list[int]:
    """Return the indices of the labels that a text names, ignoring case: one index when the text is clear.

    A whole label precedes the beginning of a label, and that precedes a number: it is what the user reads.
    """
    text = typed.strip().casefold()
    shown = [one_line(label).strip().casefold() for label in labels]
    if not text:
        return []
    if text in shown:
        return [shown.index(text)]
    begun = [number for number, label in enumerate(shown) if label.startswith(text)]
    numbered = read_number(text, len(labels))
    return begun or ([] if numbered is None else [numbered])
