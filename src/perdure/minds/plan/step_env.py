"""The outputs of needed steps as environment variables of a step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from perdure.minds.plan.plan import LEFT_OUT

OUT_BYTES = 32 * 1024
"""The maximum size of one output."""
ALL_OUT_BYTES = 512 * 1024
"""The maximum size of all outputs: half of the strictest system limit for arguments and environment."""
_ENTRY_BYTES = 16
"""The overhead of a variable in addition to its name and text."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An output as an environment variable."""

    name: str
    text: str
    size: int


def variable(name: str, output: Any) -> Variable:
    """Return an output as a variable, shortened if necessary."""
    text = shortened(as_text(output))
    return Variable(name, text, len(name) + len(text.encode()) + _ENTRY_BYTES)


def fit_variables(outputs: Sequence[Variable]) -> Mapping[str, str]:
    """Return the outputs that fit the total limit, in order; LEFT_OUT has the names of the omitted ones."""
    if sum([each.size for each in outputs]) <= ALL_OUT_BYTES:
        return {each.name: each.text for each in outputs}
    kept: dict[str, str] = {}
    left_out: list[str] = []
    room = ALL_OUT_BYTES
    for each in outputs:
        if each.size > room:
            left_out.append(each.name)
        else:
            room -= each.size
            kept[each.name] = each.text
    return kept | {LEFT_OUT: shortened(" ".join(left_out))}


def as_text(output: Any) -> str:
    """Return the standard output of a step, or another output as JSON."""
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
    """Shorten a text at a character boundary, and remove NUL, which no variable can contain."""
    kept = text.replace("\0", "")
    return kept if len(kept) * 4 <= OUT_BYTES else kept.encode()[:OUT_BYTES].decode(errors="ignore")
