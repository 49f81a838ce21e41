"""Scripts: chooses the answer to a request, and reads scripts from a file."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args

from perdure.errors import Invalid, from_os_error
from perdure.testing.model_server.answers import Finish, ScriptedAnswer, ScriptedCall, ScriptedUsage
from perdure.testing.model_server.incoming import IncomingRequest
from perdure.text.strict_json import SYNTAX, parse_json

Order = Literal["requests", "turns"]

_EXHAUSTED = ScriptedAnswer(status=400, message="The script has no answer left for this request.")


class Script:
    """A list of answers.

    With the order `requests`, each answer is used once. An answer whose `match` is in the last user message comes
    first, then the first unused one without a `match`.

    With the order `turns`, the answer depends on the request alone, so that a request that is sent again, after a
    kill for example, gets the same answer again: it is the one at the position of the turns that the request already
    contains (all of them, or for answers with `match` those since the last user message). A fault counts as no turn:
    it is given once, before the answer that follows it.

    A script that `repeats` gives its last answer again when no other is left: of those that match, if any do.
    """

    def __init__(
        self, answers: Sequence[ScriptedAnswer] = (), *, order: Order = "requests", repeats: bool = False
    ) -> None:
        self._answers = list(answers)
        self._order = order
        self._repeats = repeats
        self._given: set[int] = set()
        self._lock = threading.Lock()

    def add(self, *answers: ScriptedAnswer) -> None:
        """Append answers."""
        with self._lock:
            self._answers += answers

    @property
    def left(self) -> int:
        """The number of unused answers."""
        return len(self._answers) - len(self._given)

    def choose(self, request: IncomingRequest) -> ScriptedAnswer:
        """Return the answer for a request; an error with status 400 when there is none."""
        with self._lock:
            matching = [
                index for index, each in enumerate(self._answers) if each.match and each.match in request.last_user
            ]
            others = [index for index, each in enumerate(self._answers) if not each.match]
            if self._order == "requests":
                chosen = self._next(matching) or self._next(others)
            else:
                chosen = self._at(matching, request.turns_since_user) or self._at(others, request.turns)
            if chosen is None and self._repeats:
                chosen = self._last(matching) or self._last(others)
            if chosen is None:
                return _EXHAUSTED
            self._given.add(chosen[0])
            return chosen[1]

    def _next(self, indexes: Sequence[int]) -> tuple[int, ScriptedAnswer] | None:
        return next(((index, self._answers[index]) for index in indexes if index not in self._given), None)

    def _last(self, indexes: Sequence[int]) -> tuple[int, ScriptedAnswer] | None:
        return next(
            ((each, self._answers[each]) for each in reversed(indexes) if self._answers[each].is_complete), None
        )

    def _at(self, indexes: Sequence[int], turn: int) -> tuple[int, ScriptedAnswer] | None:
        turns = 0
        for index in indexes:
            answer = self._answers[index]
            if turns == turn and (answer.is_complete or index not in self._given):
                return index, answer
            turns += answer.is_complete
        return None


def read_script(path: Path, *, repeats: bool = False) -> Script:
    """Read a script from a JSON file: a list of answers, or an object with `order` and `answers`.

    Raises: Invalid, naming what is wrong.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise from_os_error(f"The script {path} cannot be read", error) from error
    value = parse_json(content, f"The script {path}", SYNTAX)
    script = value if isinstance(value, Mapping) else {"answers": value}
    order, answers = script.get("order", "requests"), script.get("answers")
    if order not in get_args(Order):
        raise Invalid(f"{path}: order must be one of {', '.join(get_args(Order))}; found {order!r}.")
    if not isinstance(answers, list):
        raise Invalid(f"{path}: expected a list of answers, or an object with `answers`.")
    found = [_answer(each, f"{path}: answer {number}") for number, each in enumerate(answers, 1)]
    return Script(found, order=order, repeats=repeats)


_KEYS = {field.name for field in fields(ScriptedAnswer)} - {"raw_bytes"}


def _answer(value: Any, where: str) -> ScriptedAnswer:
    if not isinstance(value, Mapping):
        raise Invalid(f"{where} must be an object; found {type(value).__name__}.")
    if unknown := sorted(set(value) - _KEYS):
        raise Invalid(f"{where} has the unknown key {unknown[0]!r}. Known are: {', '.join(sorted(_KEYS))}.")
    if value.get("finish", "stop") not in get_args(Finish):
        raise Invalid(f"{where}: finish must be one of {', '.join(get_args(Finish))}; found {value['finish']!r}.")
    try:
        calls = tuple(ScriptedCall(**call) for call in value.get("calls", ()))
        usage = ScriptedUsage(**value["usage"]) if value.get("usage") is not None else None
    except TypeError as error:
        raise Invalid(f"{where}: {error}.") from error
    return ScriptedAnswer(**{**value, "calls": calls, "usage": usage})
