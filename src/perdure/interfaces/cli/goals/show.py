"""`perdure goal show`: where a goal stands, what it returned or why it failed, and its steps."""

import json
import textwrap
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from perdure.app.home.workdirs import is_own_workdir
from perdure.app.wire.goal_detail import policy_line
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer, Table
from perdure.interfaces.cli.completion import complete_steps
from perdure.interfaces.cli.goals.display.hints import caught_failures, failure_lines, next_lines
from perdure.interfaces.cli.goals.display.listing import status_of
from perdure.interfaces.cli.goals.display.timeline import headline, pending_line, timeline
from perdure.interfaces.cli.goals.flags import SeenGoal, filled
from perdure.interfaces.cli.goals.run_ui.outputs import output_of
from perdure.interfaces.cli.output.terminal import columns_of_stdout, cut_to, one_line
from perdure.interfaces.cli.output.times import age, span, whole_moment
from perdure.interfaces.cli.remote.opened import shown_goal
from perdure.kernel.fold import GoalState
from perdure.kernel.ports import Summary

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
            help="Print only the output of a step or call, named as for `goal fork`; `value`: what the goal returned.",
            callback=filled,
            autocompletion=complete_steps,
        ),
    ] = None,
) -> Answer:
    """Show where a goal stands, its steps, its pending posts, and the commands that continue it."""
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
    if damage is not None:  # no command but those that the damage names can continue it
        return Answer(shown.wire(), parts, exit_code=damage.exit_code, fault=damage.detail)
    return Answer(shown.wire(), [*parts, *next_lines(options, seen)])


def child_lines(children: Sequence[GoalView]) -> list[str | Table]:
    """List the children of a goal, the oldest first; nothing where it has none."""
    if not children:
        return []
    now_us = time.time_ns() // 1000
    rows = [[child.id, status_of(child, now_us), one_line(child.text)] for child in children]
    return [Table(("child", "status", "text"), rows)]


def facts(seen: GoalView, state: GoalState, now_us: int) -> list[str]:
    """Return what is known of a goal beside its steps, one fact a line, each after its name."""
    goal, origin, parent = seen.summary, state.begun.forked_from, state.begun.parent
    is_over = seen.is_final
    known = {
        "started": f"{whole_moment(goal.created_us)} ({age(goal.created_us, now_us)})",
        "took" if is_over else "so far": span(goal.created_us, goal.updated_us if is_over else now_us),
        "folder": _folder(goal),
        "key": goal.start_key,
        "tags": ", ".join(goal.tags),
        "bot": goal.bot,
        "queue": goal.queue if goal.queue != "cli" else None,
        "policy": policy_line(state),
        "child of": f"{parent.goal_id} ({parent.call_id})" if parent else None,
        "fork of": f"{origin.goal_id} at event {origin.seq}" if origin else None,
        "value": _value(state),
        state.status: seen.detail,
    }
    shown = {name: one_line(text) for name, text in known.items() if text}
    width = max(map(len, shown)) + 2
    return [_filled(name.ljust(width), text) for name, text in shown.items()]


def _folder(goal: Summary) -> str | None:
    """Return the folder in which a goal runs; a flow of a server runs in the current folder of a process."""
    is_elsewhere = goal.mind == "flow" and goal.workdir is not None and is_own_workdir(goal.workdir)
    return None if is_elsewhere else goal.workdir


def _value(state: GoalState) -> str | None:
    """Return the beginning of what a flow returned; the outputs of steps are printed on demand."""
    ended = state.termination
    if ended is None or ended.value is None or state.begun.mind.kind != "flow":
        return None
    text = ended.value if isinstance(ended.value, str) else json.dumps(ended.value, ensure_ascii=False)
    return cut_to(one_line(text), _MOST_VALUE)


def _filled(name: str, text: str) -> str:
    """Break a fact that is wider than the terminal; elsewhere it is one line."""
    columns = columns_of_stdout()
    if columns is None:
        return name + text
    return textwrap.fill(name + text, columns, subsequent_indent=" " * len(name), break_on_hyphens=False)
