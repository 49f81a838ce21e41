"""A question with several answers: options that are marked one by one, and free text."""

from collections.abc import Callable
from typing import Any

from perdure.app.builder.values import NOTHING, AskQuestion
from perdure.interfaces.cli.prompts.layout import Choice
from perdure.interfaces.cli.prompts.lists import BACK, OTHER

_EXCLUSIVE = frozenset({"none", NOTHING.id})
"""Options that exclude all others: choosing one completes the answer."""
_MARKED, _OPEN = "[x]", "[ ]"


def read_stored_answer(turn: AskQuestion, stored: str) -> tuple[list[int], list[str]]:
    """Return the marked options and the free texts of a stored answer.

    An answer with free text has one line for each part. Labels alone are separated by commas, and a label may itself
    contain a comma, so each label is removed from the text; if something remains, the whole text is free text.
    """
    labels = [option.label for option in turn.options]
    if stored in labels:
        return [labels.index(stored)], []
    if "\n" in stored:
        parts = list(dict.fromkeys(part for part in stored.split("\n") if part))
        marked = [at for at, label in enumerate(labels) if label in parts]
        return marked, [part for part in parts if part not in labels]
    rest, marked = f", {stored}, ", []
    for at, label in enumerate(labels):
        if f", {label}, " in rest:
            rest = rest.replace(f", {label}, ", ", ", 1)
            marked.append(at)
    if rest == ", ":
        return marked, []
    return [], [stored] if stored else []


class MultipleChoice:
    """The options and free texts that are marked so far."""

    def __init__(self, turn: AskQuestion, stored: str | None, hint: Callable[[str], str]) -> None:
        self._turn = turn
        self._hint = hint
        marked, self._own = read_stored_answer(turn, stored or "")
        self._marked = set(marked)
        self._select_default()

    def choices(self) -> list[Choice]:
        """Return the list as it is shown now: the options, own words, Done if anything is marked, Other and Back."""
        offered = [
            Choice(self._label(at), option.description, self._hint(option.id))
            for at, option in enumerate(self._turn.options)
        ]
        offered += [Choice(f"{_MARKED} {text}", "your own words") for text in self._own]
        done = [Choice("Done", self.summary())] if self._marked or self._own else []
        other = [OTHER] if self._turn.allow_free_text else []
        return [*offered, *done, *other, BACK]

    def choose(self, at: int) -> bool:
        """Mark or unmark an option; return whether the answer is complete."""
        own_at = at - len(self._turn.options)
        if own_at >= len(self._own):
            return True
        if own_at >= 0:
            del self._own[own_at]
            self._select_default()
            return False
        if self._turn.options[at].id in _EXCLUSIVE:
            self._marked, self._own = {at}, []
            return True
        self._marked ^= {at}
        self._select_default()
        return False

    def add(self, text: str) -> None:
        """Add free text; the same text again removes it."""
        line = " ".join(text.split())
        labels = [option.label for option in self._turn.options]
        if line in labels:
            self._marked ^= {labels.index(line)}
        elif line in self._own:
            self._own.remove(line)
        elif line:
            self._own.append(line)
        self._select_default()

    def summary(self) -> str:
        """Return the marked labels and free texts, separated by commas."""
        return ", ".join([*(self._turn.options[at].label for at in sorted(self._marked)), *self._own])

    def stored_text(self) -> str:
        """Return the marked labels and free texts, one a line, as `read_stored_answer` reads them."""
        return "\n".join([*(self._turn.options[at].label for at in sorted(self._marked)), *self._own, ""])

    def answer(self) -> Any:
        """Return the answer in its wire form; with free text, one line for each part."""
        if not self._own:
            return {"option_indexes": sorted(self._marked)}
        return {"free_text": self.stored_text().rstrip("\n")}

    def _label(self, at: int) -> str:
        option = self._turn.options[at]
        if option.id in _EXCLUSIVE:
            return option.label
        return f"{_MARKED if at in self._marked else _OPEN} {option.label}"

    def _select_default(self) -> None:
        """Preselect Done once something is marked, so that Enter twice answers with one option."""
        self.at = len(self._turn.options) + len(self._own) if self._marked or self._own else 0
