"""Which failed steps of a flow an exception comes from."""

from collections.abc import Iterator, Sequence

from perdure.errors import StepFailed

_OTHERS = "__perdure_failed_steps__"
_MOST = 10_000
"""How many exceptions of one chain or group are looked at."""


def failed_steps(error: BaseException) -> tuple[str, ...]:
    """Return the names of the failed steps that led to an exception, the nearest first.

    Looked at are the exception, its causes and contexts, the members of its groups, and the steps that failed beside it
    in a `gather`. A failure that the flow caught and lived with is in none of them.
    """
    return tuple(dict.fromkeys(step for each in _related(error) for step in _tags(each)))


def tag_with_others(failures: Sequence[BaseException]) -> BaseException:
    """Return the first of the exceptions that ended the lines of a gather, which knows the failed steps of all."""
    first, *others = failures
    steps = [step for other in others for step in failed_steps(other)]
    if steps:
        setattr(first, _OTHERS, (*getattr(first, _OTHERS, ()), *steps))
    return first


def _related(error: BaseException) -> Iterator[BaseException]:
    """Give an exception and those it came from, each once: chains may be circles."""
    waiting, seen = [error], {id(error)}
    while waiting and len(seen) <= _MOST:
        each = waiting.pop(0)
        yield each
        members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for related in (*members, each.__cause__, each.__context__):
            if related is not None and id(related) not in seen:
                seen.add(id(related))
                waiting.append(related)


def _tags(error: BaseException) -> Iterator[str]:
    if isinstance(error, StepFailed) and error.step is not None:
        yield error.step
    yield from getattr(error, _OTHERS, ())
