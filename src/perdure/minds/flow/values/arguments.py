"""The recorded form of the arguments of a step: their JSON, and for a pure step, which has no intent, a digest."""

from collections.abc import Mapping
from typing import Any

import orjson

from perdure.kernel.events import Effect
from perdure.minds.flow.values.values import digest

_EMPTY: dict[str, Any] = {"args": [], "kwargs": {}}


def recorded_arguments(given: Mapping[str, Any], effect: Effect) -> dict[str, Any]:
    """Return the recorded form of arguments, which are already JSON; empty parts are omitted."""
    recorded = dict(given)
    if effect == "pure":
        recorded["digest"] = digest(given)
    if not recorded["args"]:
        del recorded["args"]
    if not recorded["kwargs"]:
        del recorded["kwargs"]
    return recorded


def are_same_arguments(wanted: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Return whether a step is called with the recorded arguments.

    They are compared as text, because 1, 1.0 and true are equal in Python but are different arguments. Older histories
    have a digest beside the arguments.
    """
    if "digest" in recorded:
        known = wanted.get("digest") or digest({**_EMPTY, **wanted})
        return bool(known == recorded["digest"])
    if "digest" in wanted:
        wanted = {name: each for name, each in wanted.items() if name != "digest"}
    return orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS) == orjson.dumps(recorded, option=orjson.OPT_SORT_KEYS)
