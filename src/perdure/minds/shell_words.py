"""A command line split into words as a shell would, without one; what only a shell can do is refused, not passed on."""

import re
import shlex

_SCAN = re.compile(
    r"""
    \\. | '[^']*' | "(?:\\.|[^"\\])*"                                    # escaped or quoted: a word like any other
    | (?P<shell> [|<>;&`\n] | \$(?:[({] | [A-Za-z_][A-Za-z0-9_]* | [0-9?$!#@*-]) )
    """,
    re.DOTALL | re.VERBOSE,
)


def split_words(text: str, instead: str) -> list[str]:
    """Split a command line; `instead` says how else to have a shell.

    Raises: ValueError with a sentence when a quote is left open, or something stands there for a shell to do.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        problem = f"The command cannot be split into words: {str(error).lower()}."
        raise ValueError(f"{problem} Close the quote, or {instead}.") from error
    found = next((match["shell"] for match in _SCAN.finditer(text.strip()) if match["shell"]), None)
    if found is not None:
        shown = "A line's end" if found == "\n" else found
        problem = f"{shown} is for a shell to understand, and no shell runs this."
        raise ValueError(f"{problem} Put it in quotes to pass it on as it is, or {instead}.")
    return words
