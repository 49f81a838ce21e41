"""A question with several answers: options that are marked one by one, and words of the person's own."""

from collections.abc import Callable
from typing import Any

from perdure.forge.questions.changing import NOTHING
from perdure.forge.turns import AskQuestion
from perdure.interfaces.cli.prompts.layout import Choice
from perdure.interfaces.cli.prompts.lists import BACK, OTHER

_ALONE = frozenset({"none", NOTHING.id})
"""Options that mean none of the others: choosing one is an answer."""
_MARKED, _OPEN = "[x]", "[ ]"


def read_said(turn: AskQuestion, said: str) -> tuple[list[int], list[str]]:
    """Read an answer to a question with several: the options in it, and the words of the person's own.

    Answers with words of one's own have a line for each part. Labels alone are separated by commas, which may also
    stand inside a label.
    """
    labels = [option.label for option in turn.options]
    if said in labels:
        return [labels.index(said)], []
    if "\n" in said:
        parts = list(dict.fromkeys(part for part in said.split("\n") if part))
        marked = [at for at, label in enumerate(labels) if label in parts]
        return marked, [part for part in parts if part not in labels]
    rest, marked = f", {said}, ", []
    for at, label in enumerate(labels):
        if f", {label}, " in rest:
            rest = rest.replace(f", {label}, ", ", ", 1)
            marked.append(at)
    return (marked, []) if rest == ", " else ([], [said] if said else [])


class Several:
    """What is marked so far."""

    def __init__(self, turn: AskQuestion, said: str | None, hint: Callable[[str], str]) -> None:
        self._turn = turn
        self._hint = hint
        marked, self._own = read_said(turn, said or "")
        self._marked = set(marked)
        self._move()

    def choices(self) -> list[Choice]:
        """Return the list as it is shown now: the options, a way to be done, other words, and back."""
        offered = [
            Choice(self._label(at), option.description, self._hint(option.id))
            for at, option in enumerate(self._turn.options)
        ]
        done = [Choice("Done", self.told())] if self._marked or self._own else []
        other = [OTHER] if self._turn.allow_free_text else []
        return [*offered, *done, *other, BACK]

    def choose(self, at: int) -> bool:
        """Mark an option, or take its mark away; return whether the person is done."""
        if at >= len(self._turn.options):
            return True
        if self._turn.options[at].id in _ALONE:
            self._marked, self._own = {at}, []
            return True
        self._marked ^= {at}
        self._move()
        return False

    def add(self, text: str) -> None:
        """Add words of the person's own; the same words again are taken away."""
        line = " ".join(text.split())
        labels = [option.label for option in self._turn.options]
        if line in labels:
            self._marked ^= {labels.index(line)}
        elif line in self._own:
            self._own.remove(line)
        elif line:
            self._own.append(line)
        self._move()

    def told(self) -> str:
        """Return what is marked, as the person reads it."""
        return ", ".join([*(self._turn.options[at].label for at in sorted(self._marked)), *self._own])

    def said(self) -> str:
        """Return what is marked, a line each, as `read_said` reads it."""
        return "\n".join([*(self._turn.options[at].label for at in sorted(self._marked)), *self._own, ""])

    def answer(self) -> Any:
        """Return the answer in its wire form; with words of the person's own, one line each."""
        if not self._own:
            return {"option_indexes": sorted(self._marked)}
        return {"free_text": self.said().rstrip("\n")}

    def _label(self, at: int) -> str:
        option = self._turn.options[at]
        if option.id in _ALONE:
            return option.label
        return f"{_MARKED if at in self._marked else _OPEN} {option.label}"

    def _move(self) -> None:
        """Point at Done once there is something, so that Enter twice takes one option."""
        self.at = len(self._turn.options) if self._marked or self._own else 0
