"""Registers functions of tests as flows, for as long as the process of the tests lives."""

from collections.abc import Callable
from typing import Any

from perdure.minds.flow.flow import Flow

_REGISTERED: list[Flow[Any, Any]] = []
"""A flow that nothing refers to is forgotten by the process, and a goal of it cannot be resumed."""


def path_of(fn: Callable[..., Any], *, cleanup: bool = False) -> str:
    """Register a function as a flow, and return the path by which a goal names it."""
    made: Flow[Any, Any] = Flow(fn, cleanup=cleanup)
    _REGISTERED.append(made)
    return made.path
