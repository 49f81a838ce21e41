"""The arguments of a step as its history has them: themselves or, of a pure step, which has no intent, their digest."""

from collections.abc import Mapping
from typing import Any

import orjson

from perdure.kernel.events import Effect
from perdure.minds.flow.values.values import digest

_EMPTY: dict[str, Any] = {"args": [], "kwargs": {}}


def recorded_arguments(given: Mapping[str, Any], effect: Effect) -> dict[str, Any]:
    """Return what is recorded of the arguments of a step, which are JSON already: what is empty is left out."""
    recorded = dict(given)
    if effect == "pure":
        recorded["digest"] = digest(given)
    if not recorded["args"]:
        del recorded["args"]
    if not recorded["kwargs"]:
        del recorded["kwargs"]
    return recorded


def are_same_arguments(wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Tell whether a step is called with the arguments that its history has.

    They are compared as text: 1, 1.0 and true are equal in Python, and are not the same arguments. Older histories have
    the digest beside the arguments.
    """
    if "digest" in recorded:
        known = wanted.get("digest") or digest({**_EMPTY, **wanted})
        return bool(known == recorded["digest"])
    if "digest" in wanted:
        wanted = {name: each for name, each in wanted.items() if name != "digest"}
    return orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS) == orjson.dumps(recorded, option=orjson.OPT_SORT_KEYS)
