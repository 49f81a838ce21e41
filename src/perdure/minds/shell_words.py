"""Splits a command line into words like a shell; syntax that only a shell can interpret is rejected."""

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
    """Split a command line; `instead` is the advice how to use a shell.

    Raises: ValueError with a message when a quote is not closed, or the line contains shell syntax.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        problem = f"The command cannot be split into words: {str(error).lower()}."
        raise ValueError(f"{problem} Close the quote, or {instead}.") from error
    found = next((match["shell"] for match in _SCAN.finditer(text.strip()) if match["shell"]), None)
    if found is not None:
        shown = "A line end" if found == "\n" else found
        problem = f"{shown} is shell syntax, and no shell runs this command."
        raise ValueError(f"{problem} Put it in quotes to pass it unchanged, or {instead}.")
    return words
