"""Rules for calls of models. They are a safety net; only a sandbox can limit what a program does.

A rule that allows matches narrowly: every character counts, and it must name every argument. A rule that asks or denies
matches widely, so that another spelling does not evade it.
"""

import posixpath
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from perdure.kernel.events import ToolCall
from perdure.kernel.tool import Judgement, Policy, Verdict


@dataclass(frozen=True, slots=True)
class Rule:
    """A verdict on calls of a tool whose arguments match shell-style patterns at dotted paths (`argv.0`)."""

    tool: str
    verdict: Verdict
    arguments: Mapping[str, str] = field(default_factory=dict)

    def is_about(self, call: ToolCall) -> bool:
        paths = [(path.split("."), pattern) for path, pattern in self.arguments.items()]
        if self.verdict == "allow":
            return fnmatchcase(call.tool, self.tool) and (not paths or _is_named(call.arguments, paths))
        return _fits_widely(call.tool, self.tool) and all(_is_touched(call.arguments, *each) for each in paths)


@dataclass(frozen=True, slots=True)
class Rules:
    """Applies the strictest rule that matches a call: deny, ask or allow. Without a match, a person is asked."""

    rules: Sequence[Rule]

    def judge(self, call: ToolCall) -> Judgement:
        """See Policy.judge."""
        try:
            found = {rule.verdict for rule in self.rules if rule.is_about(call)}
        except RecursionError:  # nested too deep to check completely
            return Judgement("ask")
        if "deny" in found:
            return Judgement("deny")
        return Judgement("allow" if found == {"allow"} else "ask")


@dataclass(frozen=True, slots=True)
class ApproveAsked:
    """Approves calls that another policy would ask about, as a person decided in advance; denials stay."""

    policy: Policy

    def judge(self, call: ToolCall) -> Judgement:
        """See Policy.judge."""
        judgement = self.policy.judge(call)
        return Judgement("allow", by="yes") if judgement.verdict == "ask" else judgement


ASKED_ALWAYS = frozenset({"exec", "write_file"})
"""Tools whose calls always need a person, until there is a sandbox and changes of files can be undone."""


@dataclass(frozen=True, slots=True)
class AskAlways:
    """Asks a person about calls of some tools that another policy allows; denials stay."""

    policy: Policy
    tools: frozenset[str] = ASKED_ALWAYS

    def judge(self, call: ToolCall) -> Judgement:
        """See Policy.judge."""
        judgement = self.policy.judge(call)
        return Judgement("ask") if judgement.verdict == "allow" and call.tool in self.tools else judgement


def _is_named(value: Any, paths: Sequence[tuple[list[str], str]]) -> bool:
    """Return whether a value matches all paths, and every key has a path; a list may have more items."""
    items, whole = _items(value), [pattern for path, pattern in paths if not path]
    heads = {path[0] for path, _ in paths if path}
    unnamed = [] if whole or isinstance(value, list) else [item for key, item in items.items() if key not in heads]
    return (
        all(_fits(leaf, pattern) for pattern in whole for leaf in _leaves(value))
        and all(item is None or item is False for item in unnamed)
        and heads <= items.keys()
        and all(
            _is_named(items[head], [(path[1:], each) for path, each in paths if path[:1] == [head]]) for head in heads
        )
    )


def _is_touched(value: Any, path: list[str], pattern: str) -> bool:
    """Return whether any value at or below a path matches a pattern."""
    for key in path:
        value = _items(value).get(key, [])
    return any(_fits_widely(leaf, pattern) for leaf in _leaves(value))


def _fits(text: str, pattern: str) -> bool:
    """Return whether a text matches a pattern; a wildcard does not match `..`, which would leave the folder."""
    return fnmatchcase(text, pattern) and (pattern in {"*", text} or ".." not in text.split("/"))


def _fits_widely(text: str, pattern: str) -> bool:
    folded, wanted = (unicodedata.normalize("NFKC", each).casefold() for each in (text, pattern))
    return any(fnmatchcase(each, wanted) for each in (folded, posixpath.basename(folded), posixpath.normpath(folded)))


def _items(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {str(at): item for at, item in enumerate(value)}
    return {**value} if isinstance(value, Mapping) else {}


def _leaves(value: Any) -> list[str]:
    if isinstance(value, Mapping | list):
        return [leaf for item in _items(value).values() for leaf in _leaves(item)]
    return [str(value).lower() if value is None or isinstance(value, bool) else str(value)]
