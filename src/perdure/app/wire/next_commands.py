"""The commands that a person can run next on a goal; the same on every surface.

A list has only the summary of each goal, so its commands are generic. With the folded state, they name the steps, calls
and values.
"""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.kernel.calls.cancellation import is_cancelled_by_flow
from perdure.kernel.calls.children import open_children
from perdure.kernel.calls.cleanup import is_cleaning_up
from perdure.kernel.calls.decisions import missed_deadlines, timed_out
from perdure.kernel.events import Ask, LimitName, Reopened, ToolCall, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.reopening import NotRetried, plan_retry
from perdure.kernel.history.repetition import (
    NO_CHILDREN,
    ChildEffects,
    cleanup_steps,
    name_unresolved,
    unresolved_after,
)
from perdure.kernel.history.step_names import is_timer
from perdure.kernel.limits import reached
from perdure.kernel.recovery import WITHOUT_RESULT
from perdure.kernel.summary import Summary
from perdure.minds.flow.scripts import is_of_script, run_again, script_command
from perdure.text.moments import moment, moment_us

if TYPE_CHECKING:
    from perdure.app.wire.resources import goals as wire_goals

LIMIT_FLAGS: dict[LimitName, str] = {
    "iterations": "--max-iterations",
    "tokens": "--max-tokens",
    "usd": "--budget",
    "seconds": "--timeout",
}
_SKIP = "Skip the call if its effect exists: the call then counts as done."
DECISIONS = {
    "skip": f"{_SKIP} Add --value JSON to set its output.",
    "retry": "Retry the call if it had no effect: it is run again.",
    "abort": "Abort: the goal ends as failed.",
}
"""The decisions on an unknown outcome, the least invasive first."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command line and its purpose."""

    command: str
    why: str

    def wire(self) -> "wire_goals.NextCommand":
        """Return its JSON form."""
        found: wire_goals.NextCommand = {"command": self.command, "why": self.why}
        return found


def next_commands(
    goal: Summary,
    state: GoalState | None = None,
    *,
    is_running: bool = False,
    now_us: int | None = None,
    children: ChildEffects | None = None,
) -> Sequence[NextCommand]:
    """Return the next commands of a goal, the most useful first; empty for a goal that needs none.

    A state that does not match the summary is not used. `children` has the effects of its children, if known.
    """
    known = state if state is not None and state.head.seq == goal.last_seq else None
    now_us = time.time_ns() // 1000 if now_us is None else now_us
    match goal.status:
        case "done":
            return ()
        case "failed":
            return (_retry(goal),) if known is None else tuple(_after_failure(goal, known, children))
        case "cancelled":
            return tuple(_after_cancel(goal, known, children))
        case _:
            return tuple(_unfinished(goal, known, is_running=is_running, now_us=now_us))


def with_home(commands: Sequence[NextCommand], home: Path | str | None) -> Sequence[NextCommand]:
    """Return commands with the option for a home; unchanged without one."""
    return (
        commands
        if home is None
        else tuple(replace(each, command=at_home(each.command, str(home))) for each in commands)
    )


def at_home(command: str, home: str) -> str:
    """Return a command with `--home`, if it is one of Perdure's."""
    program, *words = shlex.split(command)
    if program != "perdure":
        return command
    end = words.index("--") if "--" in words else len(words)
    return _perdure(*words[:end], "--home", home, *words[end:])


def _unfinished(goal: Summary, state: GoalState | None, *, is_running: bool, now_us: int) -> Iterator[NextCommand]:
    if state is not None and goal.waiting_for != "hold":
        missed = missed_deadlines(state, now_us)
        for name, call in state.open_calls.items():
            if call.seq > state.cancel_seq and name not in missed:  # a flow that cleans up cancels its earlier waits
                yield from _settling(goal, state, call, is_running=is_running)
    if is_running:
        yield NextCommand(_perdure("goal", "watch", goal.goal_id), "Follow it while it runs.")
    elif goal.status == "waiting":
        yield from _waiting(goal, state, now_us)
    elif goal.queue != "server":  # the server resumes its own goals
        yield _resume(goal, state, _why_interrupted(goal, state))
    if state is not None and is_cleaning_up(state):
        yield NextCommand(_perdure("goal", "cancel", goal.goal_id, "--now"), "End it without the rest of its cleanup.")


def _why_interrupted(goal: Summary, state: GoalState | None) -> str:
    if state is not None and is_cleaning_up(state):
        return "It is cancelled, but its flow has not cleaned up. Resume it where its code is available."
    app = goal.queue.removeprefix("app.")
    if app != goal.queue:
        return f"Resume it here. The application {app!r} resumes it by itself when it runs."
    return "Run the fork." if is_new_fork(goal) else "Resume it where it stopped."


def is_new_fork(goal: Summary) -> bool:
    """Return whether a goal is a fork that has not run yet: its own history is the event of the fork."""
    return goal.forked_from is not None and goal.last_seq == goal.forked_from.seq + 1


def _waiting(goal: Summary, state: GoalState | None, now_us: int) -> Iterator[NextCommand]:
    """Yield the commands of a waiting goal that do not settle a call."""
    if state is not None and state.reached_limit is not None:
        yield _raise_limit(goal, state, state.reached_limit)
    due_us = goal.due_us if state is None else min(state.timers().values(), default=None)
    is_late = goal.waiting_for in ("person", "signal") and _is_overdue(due_us, now_us)
    match "overdue" if is_late else goal.waiting_for:
        case "hold":
            yield _resume(goal, state, _why_held(goal, state))
        case "timer" | "overdue":
            yield _wake(goal, state, now_us)
        case "child":
            yield from _of_children(goal, state)
        case "limit" if state is None:
            yield _show(goal, "It has reached a limit. Show which one, and the command that raises it.")
        case "message" | "model":
            yield from _of_model(goal, state, now_us)
        case waits_for:
            yield from _of_waiting(goal, state, waits_for)


def _of_waiting(goal: Summary, state: GoalState | None, waits_for: str | None) -> Iterator[NextCommand]:
    if state is None:
        yield _show(goal, f"It waits for a {waits_for}. Show what it waits for, and the commands for that.")
    elif waits_for in ("person", "signal") and is_of_script(state.begun.mind):
        yield _run_script(goal, state, "Then resume the goal.")


def _of_model(goal: Summary, state: GoalState | None, now_us: int) -> Iterator[NextCommand]:
    """Yield the command that continues a conversation; or the one that fixes a model, and that asks it again."""
    if goal.waiting_for == "message":
        yield NextCommand(_perdure("chat", "--resume", goal.goal_id), "Continue the conversation.")
        return
    failure = None if state is None else state.conversation.failure
    why = "It waits for its model."
    if failure is not None and failure.next:
        yield NextCommand(failure.next, failure.message)
    elif failure is not None:
        why = f"{failure.message.rstrip('.')}."
    is_early = goal.due_us is not None and not _is_overdue(goal.due_us, now_us)
    again = f"The provider asks to wait until {moment(goal.due_us or 0)}." if is_early else "Ask the model again."
    yield _resume(goal, state, f"{why} {again}")
    if state is not None:
        resume = _perdure("goal", "resume", goal.goal_id, "--model", "NAME")
        yield NextCommand(resume, "Or continue with another model.")


def _of_children(goal: Summary, state: GoalState | None) -> Iterator[NextCommand]:
    """Yield the commands that show the awaited children."""
    children = {} if state is None else open_children(state)
    if not children:
        yield _show(goal, "It waits for a child. Show which one, and what that waits for.")
    for child_id, call in children.items():
        why = f"It waits for its child {child_id} ({call.call.step})."
        yield NextCommand(_perdure("goal", "show", child_id), f"{why} Show what that waits for.")


def _settling(goal: Summary, state: GoalState, call: CallState, *, is_running: bool) -> Iterator[NextCommand]:
    """Yield the commands that settle an open call; for goals of the command line, they also resume the goal."""
    about, goal_id = call.call, goal.goal_id
    is_resumed_here = goal.queue == "cli" and not is_running and not is_of_script(state.begun.mind)
    resume = ("--resume",) if is_resumed_here else ()
    if isinstance(about, Ask):
        options = "" if about.options is None else f" ({', '.join(about.options)})"
        named = (about.call_id,) if _asks_several(state) else ()
        command = _perdure("goal", "answer", goal_id, *named, "ANSWER", *resume)
        yield NextCommand(command, f"{about.step} asks: {about.question}{options}{_until(about)}")
    elif isinstance(about, Wait) and about.signal is not None:
        words = (about.signal, "JSON", *resume)
        if about.signal.startswith("-"):
            words = (*resume, "--", about.signal, "JSON")
        command = _perdure("goal", "signal", goal_id, *words)
        why = f"{about.step} waits for the signal {about.signal}{_until(about)}."
        yield NextCommand(command, f"{why} Omit JSON to send null.")
    elif call.unknown is not None:
        cause = f"The outcome of {about.call_id} is unknown. {call.unknown.why} "
        for decision, meaning in DECISIONS.items():
            value, said = _value_of_skip(call) if decision == "skip" else ((), meaning)
            command = _perdure("goal", "decide", goal_id, about.call_id, decision, *value, *resume)
            yield NextCommand(command, f"{cause}{said}")
            cause = ""
    elif call.awaits_approval:
        for verb, meaning in (("approve", "needs approval: it is run"), ("deny", "needs approval: it is not run")):
            yield NextCommand(_perdure("goal", verb, goal_id, about.call_id, *resume), f"{about.call_id} {meaning}.")


def _value_of_skip(call: CallState) -> tuple[Sequence[str], str]:
    """Return the option for the result of a skipped step, if it needs one, and the explanation of `skip`."""
    returns = call.call.returns if isinstance(call.call, ToolCall) else None
    if returns is not None:
        return ("--value", "JSON"), f"{_SKIP} Replace JSON by its result, which is of type {returns}."
    if call.unknown is not None and WITHOUT_RESULT in call.unknown.why:
        return ("--value", "JSON"), f"{_SKIP} Replace JSON by its result."
    return (), DECISIONS["skip"]


def _until(about: Ask | Wait) -> str:
    return "" if about.until is None else f", until {moment(moment_us(about.until))}"


def _asks_several(state: GoalState) -> bool:
    return sum(isinstance(call.call, Ask) for call in state.open_calls.values()) > 1


def _resume(goal: Summary, state: GoalState | None, why: str) -> NextCommand:
    if state is not None and is_of_script(state.begun.mind):
        return _run_script(goal, state, why)
    return NextCommand(_perdure("goal", "resume", goal.goal_id), why)


def _run_script(goal: Summary, state: GoalState, why: str) -> NextCommand:
    """Return the command that runs the script of a flow; if it is unknown, explain what to run."""
    command = script_command(state.begun)
    if command is None:
        return NextCommand(_perdure("goal", "show", state.goal_id), f"{why} To continue, {run_again(state.begun)}.")
    return NextCommand(command, f"{why} Its flow is defined in this script{_how_script_finds(goal)}.")


def _how_script_finds(goal: Summary) -> str:
    """Return a clause about a goal that its script does not find when it is run again; empty for all others.

    The start key finds a goal; an application finds its own goals, and a parent its children.
    """
    call = f"call `await p.goals.resume({goal.goal_id!r})` in the script"
    if goal.forked_from is not None:
        return f", which finds a goal by its start key. To resume this fork, {call}"
    if goal.start_key is None and goal.queue == "cli" and goal.parent is None:
        return (
            f". The goal has no start key, so running the script again starts a new goal. To resume this goal, {call}"
        )
    return ""


def _why_held(goal: Summary, state: GoalState | None) -> str:
    hold = state.hold if state is not None else None
    deaths = goal.deaths if hold is None else hold.deaths
    where = ""
    if hold is not None:
        where = f", the last in {', '.join(hold.steps)}" if hold.steps else ", the last while no step was running"
    return f"It is on hold: {deaths} workers in a row died{where}. Resume it when the cause is fixed."


def _wake(goal: Summary, state: GoalState | None, now_us: int) -> NextCommand:
    due_us = goal.due_us if state is None else min(state.timers().values(), default=goal.due_us)
    is_overdue = _is_overdue(due_us, now_us)
    slept = _slept(goal, due_us, is_overdue=is_overdue)
    missed = {} if state is None else missed_deadlines(state, now_us)
    if missed:
        slept = " ".join(f"{said}." for said in dict.fromkeys(map(timed_out, missed.values())))
    app = goal.queue.removeprefix("app.")
    if app != goal.queue and is_overdue:  # then no process of the application runs
        return _resume(goal, state, f"{slept} Resume it here, or start the application {app!r}, which resumes it.")
    if goal.queue != "cli":
        owner = "the server" if goal.queue == "server" else f"the application {app!r} (or `perdure goal resume --due`)"
        return NextCommand(_perdure("goal", "watch", goal.goal_id), f"{slept} Follow it: {owner} resumes it.")
    return _resume(goal, state, f"{slept} Resume it{'' if is_overdue else ' then'}.")


def _slept(goal: Summary, due_us: int | None, *, is_overdue: bool) -> str:
    """Return a sentence about the time until which a goal sleeps, or has slept or waited."""
    at = "an unknown time" if due_us is None else moment(due_us)
    if not is_overdue:
        return f"It sleeps until {at}."
    did = "slept" if goal.waiting_for == "timer" else f"waited for a {goal.waiting_for}"
    return f"It {did} until {at} and is overdue."


def _is_overdue(due_us: int | None, now_us: int) -> bool:
    return due_us is not None and due_us <= now_us


def _raise_limit(goal: Summary, state: GoalState, name: LimitName) -> NextCommand:
    """Return the command that raises a limit; for the flow of a script, the call that does so in the script."""
    used = getattr(state.used, name)
    more = max(2 * used, 2 * (getattr(state.limits, name) or 0))
    value = f"{more:g}" if name == "usd" else str(max(round(more), 1))
    how = "is reached" if reached(state.limits, state.used) == name else "is too low for the next request to the model"
    why = f"Its limit of {name} {how} ({used:g} used)."
    if is_of_script(state.begun.mind):
        raised = f"await p.goals.resume({goal.goal_id!r}, limits=Limits({name}={value}))"
        command = script_command(state.begun) or _perdure("goal", "show", state.goal_id)
        return NextCommand(command, f"{why} `{raised}` in the script that defines its flow raises it and resumes it.")
    command = _perdure("goal", "resume", state.goal_id, LIMIT_FLAGS[name], f"{value}s" if name == "seconds" else value)
    return NextCommand(command, f"{why} Raise it and resume.")


def _retry(goal: Summary, why: str = "Retry what failed, when the cause is fixed.") -> NextCommand:
    return NextCommand(_perdure("goal", "retry", goal.goal_id), why)


def _why_retried(state: GoalState, planned: Reopened) -> str:
    """Return a description of a retry: the steps that it calls again, and those that wait for a decision."""
    again_from = (state.calls[call_id] for call_id in planned.again)
    repeated = [call for call in again_from if not is_timer(call.call.step)]
    late = [call.call.step for call in repeated if not isinstance(call.call, ToolCall) and _has_passed(call)]
    again = [each.call.step for each in repeated if not (is_cancelled_by_flow(each) or each.call.step in late)]
    cancelled = [call.call.step for call in repeated if is_cancelled_by_flow(call) and not call.is_child]
    children = [call.call.step for call in repeated if is_cancelled_by_flow(call) and call.is_child]
    unknown = [state.calls[call_id].call.step for call_id in planned.unknown]
    said = []
    if again:
        steps = "steps" if len(again) > 1 else "step"
        said.append(f"Retry the failed {steps} {', '.join(again)} when the cause is fixed.")
    if late:
        begins = "It also begins" if again else "Run the flow again. It begins"
        said.append(f"{begins} {', '.join(late)} again, because the deadline had passed.")
    if cancelled:
        begins = "It also calls" if said else "Run the flow again when the bug is fixed. It calls"
        said.append(f"{begins} {', '.join(cancelled)} again, which the flow had cancelled before it failed.")
    if children:
        begins = "It also continues" if said else "Run the flow again when the bug is fixed. It continues"
        said.append(f"{begins} {', '.join(children)}, a child that the flow had cancelled before it failed.")
    if unknown:
        begins = "The goal then waits" if repeated else "Reopen the goal, which then waits"
        said.append(f"{begins} for a decision about {', '.join(unknown)}, whose effect may exist.")
    if not said and state.begun.mind.kind == "flow":
        return "Run the flow again over its recorded steps, when the bug is fixed."
    return " ".join(said) or "Retry what failed, when the cause is fixed."


def _has_passed(call: CallState) -> bool:
    return call.decision is not None and call.decision.decision == "elapsed"


def is_continued_by_fork(state: GoalState) -> bool:
    """Return whether a goal can only be continued by a fork: it was cancelled, or its failure cannot be retried."""
    if state.status != "failed":
        return state.status == "cancelled"
    try:
        plan_retry(state, by="person")
    except NotRetried:
        return True
    return False


def _after_failure(goal: Summary, state: GoalState, children: ChildEffects | None) -> Iterator[NextCommand]:
    try:
        planned = plan_retry(state, by="person")
    except NotRetried as error:
        if error.before is not None:
            yield _fork_before(state, error.before, error.what, children)
        return
    yield _retry(goal, _why_retried(state, planned))
    if is_of_script(state.begun.mind):
        yield _run_script(goal, state, "Then run the goal.")


def _after_cancel(goal: Summary, state: GoalState | None, children: ChildEffects | None) -> Iterator[NextCommand]:
    """Yield a fork before the first step that the cancel interrupted, else after the last step.

    Nothing follows a goal that has cleaned up: a fork would not undo the steps of its cleanup.
    """
    if state is None:
        yield _show(goal, "Show its steps. A cancelled goal continues only as a fork.")
    elif not cleanup_steps(state):
        yield _fork_of_cancelled(state, children)


def _fork_of_cancelled(state: GoalState, children: ChildEffects | None) -> NextCommand:
    if state.cancel is not None and not _cut_off(state):
        command = _perdure("goal", "fork", state.goal_id, "--at", str(state.cancel_seq - 1))
        return NextCommand(command, "Continue as a new goal from where it was cancelled.")
    for call in _cut_off(state) if state.cancel is not None else state.calls.values():
        if call.is_open or is_cancelled_by_flow(call):
            why = f"Continue as a new goal before {call.call.step}, which was interrupted."
            return _fork_before(state, call.call.step, why, children)
    last = next(reversed(state.calls.values()), None)
    if last is None:
        return NextCommand(_perdure("goal", "fork", state.goal_id, "--at", "1"), "Begin again as a new goal.")
    command = _perdure("goal", "fork", state.goal_id, "--after", last.call.step)
    return NextCommand(command, f"Continue as a new goal after {last.call.step}, the last step.")


def _fork_before(state: GoalState, step: str, why: str, children: ChildEffects | None) -> NextCommand:
    """Return a fork before a step that accepts the repetition of steps that may have happened.

    If the effects of restarted children are unknown, the fork command itself checks them.
    """
    first = next(call for call in state.calls.values() if call.call.step == step)
    known = NO_CHILDREN if children is None else children
    at_risk = {call.call.step: call for call in unresolved_after(state, first.seq - 1, known)}
    repeats = [word for each in at_risk for word in ("--repeat", each)]
    command = _perdure("goal", "fork", state.goal_id, "--before", step, *repeats)
    said = ", ".join(name_unresolved(call, known) for call in at_risk.values())
    if at_risk:
        why = f"{why} The fork would repeat {said}, whose effect may exist. Check that first, outside Perdure."
    return NextCommand(command, why)


def _cut_off(state: GoalState) -> list[CallState]:
    """Return the calls that were open when a goal with cleanup was cancelled."""
    begun = [call for call in state.calls.values() if call.seq < state.cancel_seq]
    return [call for call in begun if call.ended_seq is None or call.ended_seq > state.cancel_seq]


def _show(goal: Summary, why: str) -> NextCommand:
    return NextCommand(_perdure("goal", "show", goal.goal_id), why)


def _perdure(*words: str) -> str:
    return shlex.join(["perdure", *words])
