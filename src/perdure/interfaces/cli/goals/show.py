"""`perdure goal show`: the status of a goal, its result or failure, and its steps."""

import textwrap
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from perdure.app.goals.values import GoalState, Summary
from perdure.app.home.workdirs import is_own_workdir
from perdure.app.wire.goal_detail import policy_line
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.model_steps import model_steps
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult, Table
from perdure.interfaces.cli.completion import complete_steps
from perdure.interfaces.cli.goals.display.hints import caught_failures, failure_lines, next_lines
from perdure.interfaces.cli.goals.display.listing import status_of
from perdure.interfaces.cli.goals.display.timeline import headline, pending_line, timeline
from perdure.interfaces.cli.goals.flags import SeenGoal, require_id
from perdure.interfaces.cli.goals.run_ui.outputs import output_of
from perdure.interfaces.cli.output.terminal import columns_of_stdout, cut_to, one_line, value_text
from perdure.interfaces.cli.output.times import age, span, whole_moment
from perdure.interfaces.cli.remote.opened import shown_goal

_MOST_VALUE = 200


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "show", server=True)(show)


async def show(
    options: Options,
    *,
    goal: SeenGoal,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="STEP",
            help="Print only the output of this step or call, or with `value` the result of the goal.",
            callback=require_id,
            autocompletion=complete_steps,
        ),
    ] = None,
) -> CommandResult:
    """Show the status of a goal, its steps, the requests that are not applied yet, and the next commands."""
    if output is not None:
        return await output_of(options, goal, output)
    shown, damage = await shown_goal(options, goal)
    seen, state = shown.goal, shown.state
    now_us = time.time_ns() // 1000
    parts: list[str | Table] = [headline(seen), one_line(state.begun.text), *facts(seen, state, now_us)]
    is_over = state.termination is not None
    parts += [*failure_lines(seen.error), timeline(state, now_us=now_us if seen.is_running else None)]
    parts += child_lines(shown.children)
    parts += caught_failures(state)
    parts += [pending_line(row, is_over=is_over) for row in shown.pending]
    if damage is not None:  # the message about the damage has the next commands
        return CommandResult(shown.wire(), parts, exit_code=damage.exit_code, fault=damage.detail)
    return CommandResult(shown.wire(), [*parts, *next_lines(options, seen)])


def child_lines(children: Sequence[GoalView]) -> list[str | Table]:
    """Return a table of the children of a goal, oldest first; empty if it has none."""
    if not children:
        return []
    now_us = time.time_ns() // 1000
    rows = [[child.id, status_of(child, now_us), one_line(child.text)] for child in children]
    return [Table(("child", "status", "text"), rows)]


def facts(seen: GoalView, state: GoalState, now_us: int) -> list[str]:
    """Return facts about a goal, one a line, each after its name."""
    goal, origin, parent = seen.summary, state.begun.forked_from, state.begun.parent
    time_name, until_us = ("took", goal.updated_us) if seen.is_final else ("so far", now_us)
    queue = goal.queue if goal.queue != "cli" else None
    child_of = f"{parent.goal_id} ({parent.call_id})" if parent else None
    fork_of = f"{origin.goal_id} at event {origin.seq}" if origin else None
    known = {
        "started": f"{whole_moment(goal.created_us)} ({age(goal.created_us, now_us)})",
        time_name: span(goal.created_us, until_us),
        "folder": _folder(goal),
        "key": goal.start_key,
        "tags": ", ".join(goal.tags),
        "bot": goal.bot,
        "model": _model(state),
        "queue": queue,
        "policy": policy_line(state),
        "child of": child_of,
        "fork of": fork_of,
        "value": _value(state),
        state.status: seen.detail,
    }
    shown = {name: one_line(text) for name, text in known.items() if text}
    width = max(map(len, shown)) + 2
    return [_filled(name.ljust(width), text) for name, text in shown.items()]


def _model(state: GoalState) -> str | None:
    """Return the model of a goal, with what it has used so far."""
    prompt, used = state.conversation.prompt, state.used
    name = state.begun.mind.model if prompt is None else prompt.model
    if name is None or not used.tokens:
        return name
    is_known = all(step["cost_usd"] is not None for step in model_steps(state) if step["input_tokens"] is not None)
    return f"{name}, {used.tokens:,} tokens, {f'${used.usd:.4f}' if is_known else 'cost unknown'}"


def _folder(goal: Summary) -> str | None:
    """Return the folder in which a goal runs; a flow of a server runs in the current folder of a process."""
    is_elsewhere = goal.mind == "flow" and goal.workdir is not None and is_own_workdir(goal.workdir)
    return None if is_elsewhere else goal.workdir


def _value(state: GoalState) -> str | None:
    """Return the result of a flow, truncated; `--output` prints it in full."""
    ended = state.termination
    if ended is None or ended.value is None or state.begun.mind.kind not in ("flow", "model"):
        return None
    text = value_text(ended.value)
    return cut_to(one_line(text), _MOST_VALUE)


def _filled(name: str, text: str) -> str:
    """Return a fact, broken into lines if it is wider than the terminal."""
    columns = columns_of_stdout()
    if columns is None:
        return name + text
    return textwrap.fill(name + text, columns, subsequent_indent=" " * len(name), break_on_hyphens=False)
