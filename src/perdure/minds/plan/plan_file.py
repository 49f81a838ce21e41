"""Parses plan files: returns a validated Plan, or raises all problems with their lines."""

from functools import partial
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from perdure.minds.plan import fields as read
from perdure.minds.plan.graph import Draft, check_graph
from perdure.minds.plan.plan import (
    Condition,
    Ending,
    Exec,
    Pause,
    Plan,
    PlanStep,
    Question,
    StepWork,
    UseTool,
)
from perdure.minds.plan.retry_keys import read_retry
from perdure.minds.plan.yaml_text import MAX_BYTES, Fields, Problems, compose, kind_of, line_of
from perdure.minds.retry import NO_RETRY
from perdure.text.strict_yaml import refusal

__all__ = ["Plan", "PlanStep", "parse_plan", "plan_text"]

MAX_STEPS = 1000

WORKS = ("exec", "ask", "wait", "tool")
STEP_KEYS = (
    *("id", *WORKS, "with"),
    *("needs", "effect", "check", "retry", "timeout", "if", "env", "cwd", "shell"),
)
ONLY_FOR = {
    "with": ("tool",),
    "effect": ("exec", "tool"),
    "retry": ("exec", "tool"),
    **dict.fromkeys(("check", "timeout", "env", "cwd", "shell"), ("exec",)),
}
"""Keys that only some kinds of step support; other kinds reject them."""


def plan_text(content: bytes, name: str) -> str:
    """Decode the bytes of a plan file.

    Raises: Invalid when they are not UTF-8.
    """
    if len(content) > MAX_BYTES:
        raise refusal(name, 1, f"The file is larger than {MAX_BYTES // 1024} KiB.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise refusal(name, content.count(b"\n", 0, error.start) + 1, "The file is not UTF-8.") from error


def parse_plan(text: str, name: str, *, is_stored: bool = False) -> Plan:
    """Parse a plan; `name` is the file name in messages. One that is stored with a goal may have keys of older plans.

    Raises: Invalid, with all problems.
    """
    problems = Problems(name)
    top = Fields(compose(text, name), "A plan", ("goal", "steps"), problems)
    for key in ("goal", "steps"):
        top.require(key)
    goal = top.read("goal", read.filled_text, "")
    drafts = _drafts(top.nodes["steps"], problems, is_stored=is_stored) if "steps" in top.nodes else []
    check_graph(drafts, problems)
    problems.refuse()
    return Plan(goal, tuple(step for step, _ in drafts))


def _drafts(node: Node, problems: Problems, *, is_stored: bool) -> list[Draft]:
    if not isinstance(node, SequenceNode) or not node.value:
        found = "an empty list" if isinstance(node, SequenceNode) else kind_of(node)
        problems.add(line_of(node), f"'steps' must be a list of at least one step, found {found}.")
        return []
    if len(node.value) > MAX_STEPS:
        problems.add(line_of(node), f"A plan has at most {MAX_STEPS} steps, found {len(node.value)}.")
        return []
    return [_draft(item, problems, is_stored=is_stored) for item in node.value]


def _draft(node: Node, problems: Problems, *, is_stored: bool) -> Draft:
    fields = Fields(node, _title(node), STEP_KEYS, problems)
    fields.require("id")
    step = PlanStep(
        id=fields.read("id", read.step_id, ""),
        work=_work(fields),
        needs=fields.read("needs", read.distinct_texts, ()),
        effect=fields.read("effect", read.effect, "once"),
        retry=fields.read("retry", partial(read_retry, of=fields, is_stored=is_stored), NO_RETRY),
        condition=fields.read("if", partial(_condition, of=fields), None),
    )
    return step, fields


def _title(node: Node) -> str:
    """Return the name of a step in messages: with its id, even if that is not valid."""
    pairs = node.value if isinstance(node, MappingNode) else []
    ids = [value.value for key, value in pairs if key.value == "id" and isinstance(value, ScalarNode) and value.value]
    return f"Step {ids[0][: read.MAX_ID]!r}" if ids else "A step"


def _inner(node: Node, key: str, known: tuple[str, ...], of: Fields) -> Fields:
    return Fields(node, f"{key!r} of {of.name}", known, of.problems)


def _work(fields: Fields) -> StepWork | Any:
    """Read the work of a step. After a problem, the returned value is not used, because the plan is rejected."""
    given = [key for key in WORKS if key in fields.nodes]
    if not fields.is_readable:
        return None
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        fields.problems.add(fields.line, f"A step has one of exec, ask, wait or tool; this one has {found}.")
        return None
    for key, kinds in ONLY_FOR.items():
        if key in fields.nodes and given[0] not in kinds:
            fields.problems.add(fields.line_of(key), f"{key!r} goes with {' or '.join(kinds)}, not with {given[0]}.")
    match given[0]:
        case "exec":
            return _exec(fields)
        case "ask":
            return fields.read("ask", partial(_question, of=fields), None)
        case "wait":
            return fields.read("wait", read.pause, Pause())
        case _:
            return UseTool(fields.read("tool", read.filled_text, ""), fields.read("with", read.json_object, {}))


def _exec(fields: Fields) -> Exec:
    is_shell = fields.read("shell", read.boolean, default=False)
    return Exec(
        argv=fields.read("exec", partial(read.argv, is_shell=is_shell), ()),
        is_shell=is_shell,
        check=fields.read("check", partial(read.check, is_shell=is_shell), None),
        timeout_s=fields.read("timeout", read.timeout, None),
        env=fields.read("env", read.environment, {}),
        cwd=fields.read("cwd", read.inner_folder, None),
    )


def _question(node: Node, of: Fields) -> Question:
    fields = _inner(node, "ask", ("question", "options"), of)
    fields.require("question")
    return Question(fields.read("question", read.filled_text, ""), fields.read("options", read.options, None))


def _condition(node: Node, of: Fields) -> Condition | None:
    fields = _inner(node, "if", ("step", "is", "answer"), of)
    fields.require("step")
    if fields.is_readable and ("is" in fields.nodes) is ("answer" in fields.nodes):
        found = "both" if "is" in fields.nodes else "neither"
        fields.problems.add(fields.line, f"{fields.what} has one of 'is' or 'answer'; this one has {found}.")
    step = fields.read("step", read.text, "")
    ending: Ending = fields.read("is", read.ending, "done")
    answer = fields.read("answer", read.filled_text, None)
    return Condition(step, ending, answer) if step else None
