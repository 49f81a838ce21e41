"""The first difference between a goal and another one that was started with the same key."""

from itertools import zip_longest
from typing import Any

from perdure.kernel.events import GoalBegun, MindSpec, PolicySpec
from perdure.minds.flow.registry import is_own_name
from perdure.minds.flow.scripts import without_script

_SHOWN = 100


def difference_of_policies(was: PolicySpec, now: PolicySpec) -> str:
    """Return a clause with the first difference between two policies that are not equal."""
    if was.preset != now.preset:
        return f"which has the policy {was.preset!r}, and not {now.preset!r}"
    if was.yes != now.yes:
        return f"whose policy has yes = {was.yes}, and not {now.yes}"
    number, (old, new) = _first_other(was.rules, now.rules)
    return f"whose policy has {_rule(old)} as rule {number}, and not {_rule(new)}"


def difference_of_tasks(begun: GoalBegun, text: str, mind: MindSpec, bot: str | None, *, has_name: bool) -> str | None:
    """Return a clause with the first difference between a goal and a new one; None if they are the same task."""
    now, was = without_script(mind), without_script(begun.mind)
    if was.kind != now.kind:
        return f"which is a {was.kind}, {_shown(begun.text)}, and not a {now.kind}"
    if now.kind == "flow":
        return _difference_of_flows(was, now, has_name=has_name)
    if was.plan != now.plan:
        return f"which has another plan: {_first_other_line(was.plan or '', now.plan or '')}"
    difference = _difference_of_models(begun.bot, was, bot, now) if now.kind == "model" else None
    if difference is None and begun.text != text:
        then, new = _shown_beside(begun.text, text)
        return f"which is {then}, and not {new}"
    if difference is None and was != now:
        return "which is run by a shell, and not without one" if was.shell else "which is run without a shell"
    return difference


def _difference_of_models(was_bot: str | None, was: MindSpec, bot: str | None, now: MindSpec) -> str | None:
    if was_bot != bot:
        return f"which has {_named('bot', was_bot)}, and not {_named('bot', bot)}"
    if bool(was.chat) != bool(now.chat):
        return f"which is {_chat_or_task(was)}, and not {_chat_or_task(now)}"
    if was.model != now.model:
        return f"which has {_named('model', was.model)}, and not {_named('model', now.model)}"
    if was != now:
        return f"which has the options {_shown(was.options)} of its model, and not {_shown(now.options)}"
    return None


def _named(what: str, name: str | None) -> str:
    return f"no {what}" if name is None else f"the {what} {name}"


def _chat_or_task(mind: MindSpec) -> str:
    return "a conversation" if mind.chat else "a task"


def _rule(rule: Any) -> str:
    return "nothing" if rule is None else _shown(rule)


def _first_other(was: Any, now: Any) -> tuple[int, tuple[Any, Any]]:
    """Return the number and the two values of the first difference; None stands for a missing value."""
    return next(pair for pair in enumerate(zip_longest(was, now), 1) if pair[1][0] != pair[1][1])


def _difference_of_flows(was: MindSpec, now: MindSpec, *, has_name: bool) -> str | None:
    """Return the differences between two goals of flows.

    Their texts do not count: a name may have been added since, and a set is shown in any order.
    """
    if not _is_same_flow(was, now, has_name=has_name):
        return f"which is the flow {_flow_shown(was)}, and not {_flow_shown(now)}"
    if was.args != now.args:
        before, after = _shown_beside(_called_with(was), _called_with(now))
        return f"which has the arguments {before}, and not {after}"
    return None


def _is_same_flow(was: MindSpec, now: MindSpec, *, has_name: bool) -> bool:
    """Return whether two goals have the same flow: by its own name, else by its path.

    Adding or removing the name of a flow does not change its identity at the same path.
    """
    if was.at is None or now.at is None:
        return was.at == now.at
    is_named_alike = was.flow == now.flow and has_name
    return is_named_alike or (was.at == now.at and not (has_name and is_own_name(was.at, was.flow)))


def _flow_shown(mind: MindSpec) -> str:
    return f"{mind.flow} ({mind.at})" if mind.at is not None and is_own_name(mind.at, mind.flow) else str(mind.at)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _shown_beside(was: object, now: object) -> tuple[str, str]:
    """Return two values; if one is too long, both are cut to the place where they differ."""
    texts = repr(was), repr(now)
    if max(map(len, texts)) <= _SHOWN:
        return texts
    pairs = enumerate(zip_longest(*texts))
    differs_at = next((place for place, (one, other) in pairs if one != other), 0)
    begin = max(0, differs_at - _SHOWN // 2)
    return _cut(texts[0], begin), _cut(texts[1], begin)


def _cut(text: str, begin: int) -> str:
    """Return a part of a text, with marks where it is cut."""
    end = begin + _SHOWN
    before = "…" if begin else ""
    after = "…" if end < len(text) else ""
    return f"{before}{text[begin:end]}{after}"


def _called_with(mind: MindSpec) -> object:
    arguments = mind.args or {}
    return arguments.get("kwargs") or arguments.get("args")


def _first_other_line(was: str, new: str) -> str:
    """Describe the first line in which two texts differ."""
    line, (old_line, new_line) = _first_other(was.split("\n"), new.split("\n"))
    then, now = _shown_beside(old_line, new_line)
    if old_line is None or new_line is None:
        then, now = ("missing" if text is None else _shown(text) for text in (old_line, new_line))
    return f"line {line} was {then}, and is {now} now"
