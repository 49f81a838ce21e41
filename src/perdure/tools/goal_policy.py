"""The policy of a goal: validated at its start, and constructed from the recorded form for each run."""

from collections.abc import Mapping
from typing import Any, get_args

from perdure.errors import Invalid
from perdure.kernel.events import PolicySpec, RuleSpec
from perdure.kernel.tool import Policy, Verdict
from perdure.text.storable import is_storable
from perdure.tools.policy import ApproveAsked, AskAlways, Rule, Rules

_HARMLESS = (Rule("load_skill", "allow"), Rule("read_result", "allow"), Rule("recall", "allow"))
"""Tools that read only the skills of the bot, earlier results, or the memory that it may recall."""
PRESETS: Mapping[str, tuple[Rule, ...]] = {
    "ask": _HARMLESS,
    "read-only": (*_HARMLESS, Rule("read_file", "allow"), Rule("write_file", "deny"), Rule("exec", "deny")),
}
"""The rules of each preset; a person is asked about calls that no rule matches."""
_NOT_YET = {
    "workspace": "it lets a model change files and run programs in the folder of the goal",
    "full": "it lets a model do everything",
}
"""Presets that need the sandbox, and what they would allow."""
_MOST_RULES = 100
_LONGEST = 1000
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


def policy_of_goal(spec: PolicySpec | None, *, approves_asked: bool = False) -> Policy:
    """Return the policy for the calls of models in one run of a goal.

    With `approves_asked`, calls that the policy would ask about are approved for this run.

    Raises: Invalid when the preset or a rule is unknown.
    """
    spec = spec or PolicySpec()
    policy: Policy = Rules([*_preset(spec.preset), *map(_rule, spec.rules)])
    if approves_asked or spec.yes:
        policy = ApproveAsked(policy)
    return AskAlways(policy)


def read_policy(given: Any) -> PolicySpec | None:
    """Validate a policy, the name of a preset or an object; None stays None.

    Raises: Invalid, with the unknown preset or invalid part of a rule.
    """
    if given is None:
        return None
    parts = _object("policy", {"preset": given} if isinstance(given, str) else given, {"preset", "rules", "yes"})
    preset, rules, yes = parts.get("preset", "ask"), parts.get("rules", ()), parts.get("yes", False)
    _preset(preset)
    if not isinstance(rules, list | tuple) or len(rules) > _MOST_RULES:
        raise Invalid(f"Invalid policy: rules is a list of at most {_MOST_RULES} rules.")
    if not isinstance(yes, bool):
        raise Invalid(f"Invalid policy: yes is true or false, found {yes!r}.")
    return PolicySpec(preset, tuple(_recorded(_rule(rule)) for rule in rules), yes)


def _preset(name: Any) -> tuple[Rule, ...]:
    known = ", ".join(PRESETS)
    if not isinstance(name, str) or name not in {*PRESETS, *_NOT_YET}:
        raise Invalid(f"Unknown policy preset {_shown(name)}; known are {known}.")
    if name in _NOT_YET:
        raise Invalid(
            f"The policy preset {name!r} is not available yet: {_NOT_YET[name]}, which needs the sandbox, and this"
            f" version has none. Available are {known}."
        )
    return PRESETS[name]


def _rule(given: Any) -> Rule:
    parts = _object("rule", given, {"tool", "verdict", "arguments"})
    tool, verdict, arguments = parts.get("tool"), parts.get("verdict"), parts.get("arguments", {})
    if not _is_text(tool):
        raise Invalid(f"Invalid rule: tool is the name of a tool or a pattern, found {_shown(tool)}.")
    if verdict not in _VERDICTS:
        raise Invalid(f"Invalid rule: verdict is one of {', '.join(_VERDICTS)}, found {_shown(verdict)}.")
    if not isinstance(arguments, Mapping) or len(arguments) > _MOST_RULES:
        raise Invalid(f"Invalid rule: arguments is an object of patterns by path, found {_shown(arguments)}.")
    wrong = next((each for pair in arguments.items() for each in pair if not _is_text(each)), None)
    if wrong is not None:
        raise Invalid(f"Invalid rule: a path and its pattern are strings, found {_shown(wrong)}.")
    return Rule(str(tool), verdict, {**arguments})


def _recorded(rule: Rule) -> RuleSpec:
    recorded: RuleSpec = {"tool": rule.tool, "verdict": rule.verdict}
    if rule.arguments:
        recorded["arguments"] = {**rule.arguments}
    return recorded


def _object(what: str, given: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise Invalid(f"Invalid {what}: expected an object of {', '.join(sorted(known))}, found {_shown(given)}.")
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise Invalid(f"Invalid {what}: unknown key {_shown(unknown)}; known are {', '.join(sorted(known))}.")
    return given


def _is_text(given: Any) -> bool:
    return isinstance(given, str) and 0 < len(given) <= _LONGEST and is_storable(given)


def _shown(given: Any) -> str:
    return repr(given)[:80]
