"""The answers of the check of a `once` step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from perdure.kernel.tool import Check, KnownOutput

T = TypeVar("T")


@dataclass(frozen=True)
class Happened(Generic[T]):
    """The answer of a check that the step happened, with its result.

    def was_paid(order: str) -> Happened[str] | bool:
        receipt = bank.receipt_of(order)
        return Happened(receipt) if receipt else False
    """

    value: T


def answer_of(answer: object, to_json: Callable[[Any], Any], *, needs_result: bool) -> Check:
    """Return the answer of a check for the kernel; any value but True, False and Happened is `unknown`.

    True is not enough for a step that `needs_result`, because the flow would receive None.

    Raises: Invalid when the value of a Happened cannot be stored.
    """
    if isinstance(answer, Happened):
        return KnownOutput(to_json(answer.value))
    if not isinstance(answer, bool):
        return "unknown"
    if not answer:
        return "not_happened"
    return "lost_result" if needs_result else "happened"
