"""The current goal of a flow, and the current step of a function."""

import math
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from perdure.errors import Invalid
from perdure.minds.flow.requests import BRANCH
from perdure.minds.flow.values.values import to_json

if TYPE_CHECKING:
    from perdure.minds.flow.goal import Goal

_MOST_TOKENS = 10**15
_MOST_USD = 1e12
_LONGEST_META_BYTES = 64 * 1024


@dataclass
class CurrentStep:
    """The step that the current function implements; see `current_step`."""

    goal_id: str
    step: str
    """The name of the step in the history, such as `/pay#0`."""
    attempt: int
    """The number of the attempt, from 1."""
    is_check: bool = False
    """Whether the `check` of the step is running."""
    _report: Callable[[Any], None] = field(default=lambda _value: None, repr=False)
    """Publishes the progress of the step to observers."""
    _tokens: int = field(default=0, init=False, repr=False)
    _cost_usd: float = field(default=0.0, init=False, repr=False)
    _meta: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _has_ended: bool = field(default=False, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    @property
    def step_key(self) -> str:
        """A key for systems that accept one: `<goal id>/<step>`, the same for every attempt of the step.

        It stays the same after a crash, in a further attempt (`retry`), in a retry of the goal, after a decision, and
        in the `check` of the step. Another step and a fork have other keys.
        """
        return f"{self.goal_id}/{self.step}"

    @property
    def idempotency_key(self) -> str:
        """A key for one attempt: `<goal id>/<call id>`, for systems that answer a repeated key with an earlier failure.

        It is the same when an attempt is repeated after a crash, and in the `check` of the step. Another attempt and a
        fork have other keys.
        """
        return f"{self.goal_id}/{self.step}.{self.attempt}"

    def usage(self, *, tokens: int = 0, cost_usd: float = 0.0) -> None:
        """Add to the usage of the step. It counts towards the limits of the goal, even if the step fails or times out.

        Raises: Invalid when an amount is not a number from 0, in a check, and after the step has ended.
        """
        _require_amount("tokens", tokens, _MOST_TOKENS, is_whole=True)
        _require_amount("cost_usd", cost_usd, _MOST_USD)
        with self._lock:
            self._require_running()
            _require_amount("the sum of tokens", self._tokens + tokens, _MOST_TOKENS, is_whole=True)
            _require_amount("the sum of cost_usd", self._cost_usd + cost_usd, _MOST_USD)
            self._tokens += tokens
            self._cost_usd += cost_usd

    def record(self, **values: Any) -> None:
        """Store values beside the result of the step. `perdure goal show` displays them; the flow cannot read them.

        A value with the same name as an earlier one replaces it.

        Raises: Invalid when a value is not JSON, when they exceed 64 KiB together, in a check, and after the step has
        ended.
        """
        given = {name: to_json(value, f"{name} of {self.step}") for name, value in values.items()}
        with self._lock:
            self._require_running()
            meta = self._meta | given
            if len(orjson.dumps(meta)) > _LONGEST_META_BYTES:
                raise Invalid(f"The recorded values of {self.step} are larger than {_LONGEST_META_BYTES // 1024} KiB.")
            self._meta = meta

    def progress(self, value: Any) -> None:
        """Publish the progress of the step to observers in this process: a text, a number or other JSON.

        It is not stored. Observers get the newest value; values in quick succession may be skipped.

        Raises: Invalid when the value is not JSON or larger than 64 KiB, in a check, and after the step has ended.
        """
        given = to_json(value, f"The progress of {self.step}")
        if len(orjson.dumps(given)) > _LONGEST_META_BYTES:
            raise Invalid(f"The progress of {self.step} is larger than {_LONGEST_META_BYTES // 1024} KiB.")
        with self._lock:
            self._require_running()
        self._report(given)

    def end(self) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """End the step, and return its usage and its recorded values."""
        with self._lock:
            self._has_ended = True
            used = {"tokens": self._tokens, "cost_usd": self._cost_usd}
            return {name: value for name, value in used.items() if value} or None, self._meta or None

    def _require_running(self) -> None:
        if self.is_check:
            raise Invalid(f"The check of {self.step} cannot record values or usage; only the step can.")
        if self._has_ended:
            raise Invalid(f"{self.step} has ended, and its outcome is recorded; it cannot be changed.")


STEP: ContextVar[CurrentStep | None] = ContextVar("perdure_step", default=None)
"""The step that runs; None in a flow, and outside of both."""


def current_step() -> CurrentStep:
    """Return the step that is running.

    It is available in the function of a step, also on the thread of a sync function, in the `check` of the step, and in
    coroutines that these await; but not on a thread that the function starts itself.

    Raises: Invalid outside of a step.
    """
    step = STEP.get()
    if step is None:
        raise Invalid(
            "current_step() was called outside of a step: only the function and the check of a step have one."
        )
    return step


def current_goal() -> "Goal | None":
    """Return the goal of the flow that is running; None in a step, and outside of a flow."""
    branch = BRANCH.get()
    goal: Goal | None = None if branch is None else getattr(branch.owner, "goal", None)
    return goal


def _require_amount(what: str, given: Any, most: float, *, is_whole: bool = False) -> None:
    """Raises: Invalid."""
    is_number = isinstance(given, int if is_whole else int | float) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given) or not 0 <= given <= most:
        kind = "a whole number" if is_whole else "a number"
        raise Invalid(f"Invalid usage: {what} must be {kind} from 0 to {most:g}, got {given!r}.")
