"""Validates the arguments of `@flow` and of the methods of a goal, before anything is recorded."""

import dataclasses
import inspect
import math
from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.calls.children import RESERVED_PREFIX
from perdure.kernel.events import Limits
from perdure.minds.flow.steps.user_errors import described

_EFFECTS = ("pure", "idempotent", "once")
_MOST_S = 4e9
_LONGEST_KEY = 200
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


def require_flow_function(fn: Any) -> None:
    """Check that a function can be a flow.

    Raises: Invalid, with the place of the function and the reason
    """
    wrong = _wrong_with(fn)
    if wrong is not None:
        raise Invalid(f"A flow is an async function that takes a goal first; {described(fn)} {wrong}.")


def _wrong_with(fn: Any) -> str | None:
    if inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn):
        return "has a `yield`, which makes it a generator: return its value instead"
    if inspect.isfunction(fn) and not inspect.iscoroutinefunction(fn):
        return "is not async: write `async def`"
    if not inspect.isroutine(fn) or not inspect.iscoroutinefunction(fn):
        return f"is a {type(fn).__name__}"
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    if first is None or first.kind not in _POSITIONAL:
        return f"takes none: write `async def {fn.__name__}(goal, …)`"
    return None


def require_step_function(fn: Any) -> None:
    """Validate the function of a step.

    Raises: Invalid
    """
    if not callable(fn):
        given = "a coroutine: give the function and its arguments apart" if inspect.iscoroutine(fn) else repr(fn)
        _close_coroutine(fn)
        raise Invalid(f"A step is a function, found {given}.")


def require_step_options(effect: Any, name: Any, step_id: Any, timeout_s: Any, check: Any) -> None:
    """Validate the options of a step.

    Raises: Invalid
    """
    if effect not in _EFFECTS:
        raise Invalid(f"An effect is one of {', '.join(_EFFECTS)}, which {effect!r} is not.")
    for what, given in (("name", name), ("id", step_id)):
        if given is not None and not (isinstance(given, str) and given.strip()):
            raise Invalid(f"The {what} of a step is a string that is not empty, found {given!r}.")
    timeout(timeout_s)
    if check is not None and not callable(check):
        raise Invalid(f"The check of a step is a function, found {check!r}.")


def require_matching_check(called: str, check: Any, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Check that the check of a step accepts the arguments of the step.

    Raises: Invalid, which shows the expected signature.
    """
    shown = getattr(check, "__name__", type(check).__name__)
    wanted = f"A check takes the arguments of its step: def {shown.strip('<>')}{_signature(fn) or '(…)'} -> bool"
    if inspect.isgeneratorfunction(check) or inspect.isasyncgenfunction(check):
        raise Invalid(f"The check {shown} of {called} has a `yield`, which makes it a generator. {wanted}.")
    signature = _signature(check)
    if signature is None:  # a function of C may have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        what = f"The check {shown} of {called} cannot be called with the arguments of the step: {error}"
        raise Invalid(f"{what}. {wanted}.") from None


def _signature(fn: Any) -> inspect.Signature | None:
    """Return the signature of a function without its return type; None if Python does not know it."""
    try:
        return inspect.signature(fn).replace(return_annotation=inspect.Signature.empty)
    except (TypeError, ValueError):
        return None


def require_child_options(key: Any, limits: Any) -> None:
    """Validate the options of a child.

    Raises: Invalid
    """
    if key is not None and not _is_key(key):
        raise Invalid(f"A key is a string of 1 to {_LONGEST_KEY} printable characters, found {key!r}.")
    if key is not None and key.startswith(RESERVED_PREFIX):
        raise Invalid(f"Invalid key {key!r}: keys that begin with {RESERVED_PREFIX!r} are reserved.")
    if limits is None:
        return
    if not isinstance(limits, Limits):
        raise Invalid(f"Invalid limits: expected perdure.Limits(iterations, tokens, usd, seconds), found {limits!r}.")
    for name, value in dataclasses.asdict(limits).items():
        if value is not None and not (_is_number(value) and value > 0):
            raise Invalid(f"Invalid limit {name}: expected a number above 0, found {value!r}.")


def _is_key(given: Any) -> bool:
    return isinstance(given, str) and bool(given.strip()) and len(given) <= _LONGEST_KEY and given.isprintable()


def require_only(call: str, options: Any, allowed: Collection[str]) -> None:
    """Check that only options that a call supports are set.

    Raises: Invalid, which names the first other option.
    """
    for each in dataclasses.fields(options):
        if each.name not in allowed and getattr(options, each.name) != each.default:
            raise Invalid(f"{each.name} is not an option of goal.{call}.")


def timeout(given: Any) -> float | None:
    """Validate a timeout in seconds; None for no timeout.

    Raises: Invalid
    """
    if given is not None and not (_is_number(given) and 0 < given < _MOST_S):
        raise Invalid(f"timeout_s is a number of seconds above 0, found {given!r}.")
    return None if given is None else float(given)


def seconds(given: Any) -> float:
    """Validate the duration of a sleep.

    Raises: Invalid
    """
    if not _is_number(given) or not 0 <= given < _MOST_S:
        raise Invalid(f"A sleep lasts from 0 to 4e9 seconds, not {given!r}.")
    return float(given)


def options(given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Validate the options of a question, if there are any.

    Raises: Invalid
    """
    if given is None:
        return None
    is_list = isinstance(given, Sequence) and not isinstance(given, str | bytes)
    if not is_list or not given or not all(isinstance(each, str) and each for each in given):
        raise Invalid(f'The options of a question are a list of strings, such as ["yes", "no"], found {given!r}.')
    return tuple(given)


def text(what: str, given: Any) -> str:
    """Validate a text that must not be empty.

    Raises: Invalid
    """
    if not isinstance(given, str) or not given.strip():
        raise Invalid(f"{what} must be a string that is not empty, found {given!r}.")
    return given


def awaitables(method: str, given: Sequence[Any]) -> Sequence[Awaitable[Any]]:
    """Validate the arguments of `goal.gather` or `goal.first`.

    Raises: Invalid
    """
    for each in given:
        if not inspect.isawaitable(each):
            for other in given:
                _close_coroutine(other)
            raise Invalid(f"goal.{method} takes what is awaited, such as goal.step(…), one by one; found {each!r}.")
    if not given and method == "first":
        raise Invalid("goal.first takes at least one awaitable.")
    return given


def _close_coroutine(given: Any) -> None:
    """Close a coroutine that will not be awaited, without a warning."""
    if inspect.iscoroutine(given):
        given.close()


def _is_number(given: Any) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
