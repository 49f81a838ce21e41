"""Checks the relations between steps: unique names, existing needs, no cycles, conditions only on needs."""

from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from perdure.minds.plan.plan import Condition, PlanStep, Question
from perdure.minds.plan.yaml_text import Fields, Problems, did_you_mean, line_of

Draft = tuple[PlanStep, Fields]
"""A step with its place in the file."""


class Graph:
    """Checked steps and their dependencies."""

    def __init__(self, steps: Sequence[PlanStep]) -> None:
        self.steps = {step.id: step for step in steps}
        self.positions = {step.id: at for at, step in enumerate(steps)}
        self.dependants: dict[str, list[PlanStep]] = {step.id: [] for step in steps}
        for step in steps:
            for need in step.needs:
                self.dependants[need].append(step)

    def all_needs(self, name: str) -> list[str]:
        """Return the direct and indirect needs of a step, each once, the nearest first."""
        found, ahead = {name}, [name]
        for step in ahead:
            for need in self.steps[step].needs:
                if need not in found:
                    found.add(need)
                    ahead.append(need)
        return ahead[1:]


def check_graph(drafts: Sequence[Draft], problems: Problems) -> None:
    """Add all problems in the relations between steps."""
    named = [(step, fields) for step, fields in drafts if step.id]
    _check_names(named, problems)
    known = {step.id: step for step, _ in named}
    for step, fields in named:
        _check_needs(step, fields, known, problems)
        _check_condition(step, fields, known, problems)
    _check_cycles(named, problems)


def _check_names(drafts: Sequence[Draft], problems: Problems) -> None:
    by_id: dict[str, int] = {}
    by_out: dict[str, str] = {}
    for step, fields in drafts:
        line = fields.line_of("id")
        if step.id in by_id:
            problems.add(line, f"There are two steps {step.id!r}; the other is on line {by_id[step.id]}.")
        elif step.out_name in by_out:
            problems.add(line, f"Steps {by_out[step.out_name]!r} and {step.id!r} would both set {step.out_name}.")
        by_id.setdefault(step.id, line)
        by_out.setdefault(step.out_name, step.id)


def _check_needs(step: PlanStep, fields: Fields, known: Mapping[str, PlanStep], problems: Problems) -> None:
    if not step.needs:
        return
    for need, node in zip(step.needs, fields.nodes["needs"].value, strict=True):
        if need not in known:
            hint = did_you_mean(need, [*known])
            problems.add(line_of(node), f"Step {step.id!r} needs {need!r}, which is not a step{hint}")


def _check_condition(step: PlanStep, fields: Fields, known: Mapping[str, PlanStep], problems: Problems) -> None:
    condition = step.condition
    if condition is None:
        return
    if condition.step in step.needs:
        _check_answer(step, condition, fields, known, problems)
        return
    if condition.step in known:
        sentence = f"The if of step {step.id!r} refers to {condition.step!r}; add that to its needs."
    else:
        sentence = f"The if of step {step.id!r} refers to {condition.step!r}, which is not a step"
        sentence += did_you_mean(condition.step, [*known])
    problems.add(fields.line_of("if"), sentence)


def _check_answer(
    step: PlanStep, condition: Condition, fields: Fields, known: Mapping[str, PlanStep], problems: Problems
) -> None:
    """Report an `if` on an answer that is not an option; a step that could not be read is not checked."""
    work = known[condition.step].work if condition.step in known else None
    if condition.answer is None or work is None:
        return
    refers = f"The if of step {step.id!r} refers to the answer"
    if not isinstance(work, Question):
        problems.add(fields.line_of("if"), f"{refers} to {condition.step!r}, which is not a question; use 'is'.")
    elif work.options is not None and condition.answer not in work.options:
        known_answers = ", ".join(work.options)
        sentence = f"{refers} {condition.answer!r}; {condition.step!r} has the options {known_answers}."
        problems.add(fields.line_of("if"), sentence)


def _check_cycles(drafts: Sequence[Draft], problems: Problems) -> None:
    lines = {step.id: fields.line_of("needs") for step, fields in drafts}
    needs = {step.id: step.needs for step, _ in drafts}
    while True:
        try:
            TopologicalSorter(needs).prepare()
        except CycleError as error:
            cycle = [*reversed(error.args[1][1:])]
        else:
            return
        first = min(range(len(cycle)), key=lambda at: lines[cycle[at]])
        circle = [*cycle[first:], *cycle[: first + 1]]
        problems.add(lines[circle[0]], f"Steps need each other in a circle: {' needs '.join(circle)}.")
        needs = {step: tuple(need for need in of if need not in cycle) for step, of in needs.items()}
