"""What a step gets to see of the steps that it needs: their outputs, as variables of the environment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from perdure.minds.plan.plan import LEFT_OUT

OUT_BYTES = 32 * 1024
"""The most that one output may have."""
ALL_OUT_BYTES = 512 * 1024
"""The most that all may have: half of what the strictest system lets through, arguments and the rest included."""
_ENTRY_BYTES = 16
"""What a variable costs beside its name and its text."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An output as a later step sees it."""

    name: str
    text: str
    size: int


def variable(name: str, output: Any) -> Variable:
    """Make a variable of an output, so far as it fits."""
    text = shortened(as_text(output))
    return Variable(name, text, len(name) + len(text.encode()) + _ENTRY_BYTES)


def handed(outputs: Sequence[Variable]) -> Mapping[str, str]:
    """Return as many as fit, each whole or not at all, the first given first; a variable names those left out."""
    if sum([each.size for each in outputs]) <= ALL_OUT_BYTES:
        return {each.name: each.text for each in outputs}
    given: dict[str, str] = {}
    left_out: list[str] = []
    room = ALL_OUT_BYTES
    for each in outputs:
        if each.size > room:
            left_out.append(each.name)
        else:
            room -= each.size
            given[each.name] = each.text
    return given | {LEFT_OUT: shortened(" ".join(left_out))}


def as_text(output: Any) -> str:
    """Return what a step printed, or else its output as JSON."""
    match output:
        case {"stdout": str(stdout)}:
            return stdout
        case str():
            return output
        case None:
            return ""
        case _:
            return orjson.dumps(output).decode()


def shortened(text: str) -> str:
    """Cut a text to what fits, between two characters; no variable can hold a NUL, so these go."""
    kept = text.replace("\0", "")
    return kept if len(kept) * 4 <= OUT_BYTES else kept.encode()[:OUT_BYTES].decode(errors="ignore")
