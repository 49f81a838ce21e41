"""The failed steps of a flow that an exception comes from.

Exceptions may have classes of users, so only attributes that Python itself has set are read; see tracebacks. The steps
are a tag in the dict of the exception, not a public attribute, which a subclass might define.
"""

from collections.abc import Iterable, Iterator, Sequence

from perdure.minds.flow.steps.tracebacks import attribute_of, members_of

_TAG = "__perdure_failed_steps__"
_MOST = 10_000
"""The maximum number of exceptions that are searched."""


def failed_steps(error: BaseException) -> tuple[str, ...]:
    """Return the names of the failed steps that led to an exception, the nearest first.

    The search covers the exception, its causes and contexts, the members of its groups, and the steps that failed
    beside it in a `gather`. A failure that the flow caught and handled is in none of them.
    """
    return tuple(dict.fromkeys(step for each in _related(error) for step in _tags(each)))


def tag_with_steps(error: BaseException, steps: Iterable[str]) -> None:
    """Tag an exception with the failed steps that it comes from."""
    dict.__setitem__(attribute_of(error, "__dict__"), _TAG, (*_tags(error), *steps))


def tag_with_others(failures: Sequence[BaseException]) -> BaseException:
    """Return the first of the exceptions that ended the lines of a gather, tagged with the failed steps of all."""
    first, *others = failures
    tag_with_steps(first, [step for other in others for step in failed_steps(other)])
    return first


def _related(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those it came from, each once; chains may have cycles."""
    waiting, seen = [error], {id(error)}
    while waiting and len(seen) <= _MOST:
        each = waiting.pop(0)
        yield each
        for related in (*members_of(each), attribute_of(each, "__cause__"), attribute_of(each, "__context__")):
            if related is not None and id(related) not in seen:
                seen.add(id(related))
                waiting.append(related)


def _tags(error: BaseException) -> Iterator[str]:
    tags = dict.get(attribute_of(error, "__dict__"), _TAG)
    return (tag for tag in tags if type(tag) is str) if type(tags) is tuple else iter(())
