"""What wakes a goal of the command line that sleeps."""

from perdure.app.home.server_mark import is_served
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.shell_hints import exact


def waking_lines(options: Options, goal: GoalView) -> list[str]:
    """Say whether a server will wake a goal that sleeps, and what else would; nothing for any other goal."""
    is_asleep = goal.status == "waiting" and goal.summary.waiting_for == "timer" and goal.summary.queue == "cli"
    if not is_asleep:
        return []
    if is_served(options.settings().home):
        return ["The server that runs on this home resumes it when it is due."]
    all_due, serve = exact(options, "goal", "resume", "--due"), exact(options, "serve")
    return [f"No server runs on this home. `{serve}` would resume it, and so would", f"`{all_due}`."]
