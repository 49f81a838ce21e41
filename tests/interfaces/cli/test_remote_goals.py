"""`perdure run` and `perdure goal` with a server: each command once, and the same object as with the home."""

import asyncio
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest

from perdure import Goal, GoalWaiting, Perdure, current_step, flow
from perdure.client import Client
from perdure.interfaces.cli.errors import run
from tests.interfaces.cli.on_terminal import CTRL_C, Start
from tests.interfaces.cli.remote import Both, until
from tests.interfaces.cli.terminal import Terminal
from tests.waiting import WaitsFor, waiting_goal

ASKS = """
goal: publish
steps:
  - {id: fetch, exec: "echo fetched"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, exec: "sh -c 'echo sent $PERDURE_OUT_SURE'", needs: [sure]}
"""


def goal_of(both: Both, *arguments: str) -> dict[str, Any]:
    """The goal of a run at the server."""
    found: dict[str, Any] = both.remote_json("run", *arguments)
    return found


def asking(both: Both) -> str:
    """A goal of the server that asks."""
    Path("plan.yaml").write_text(ASKS)
    return str(goal_of(both, "--plan", "plan.yaml")["id"])


def waiting(both: Both, waits_for: WaitsFor) -> str:
    """A goal in the home of the server, whose call `pay.1` waits for a person."""

    async def make() -> str:
        async with Perdure.open(both.home) as p:
            return await waiting_goal(p.database.state_store(), waits_for, Path.cwd())

    return asyncio.run(make())


def test_a_command_runs_at_the_server_and_is_followed_here(both: Both) -> None:
    assert both.remote("run", "--", "echo", "hello") == 0
    assert both.perdure.out == "hello\n"
    assert "step command: done" in both.perdure.err
    [goal] = both.same_json("goal", "list")["goals"]
    assert (goal["status"], goal["queue"]) == ("done", "server")
    assert not (both.home.parent / "elsewhere").exists()


def test_a_goal_is_shown_and_watched_alike_from_both_sides(both: Both) -> None:
    goal = goal_of(both, "--tag", "ci", "--", "echo", "hello")
    assert both.same_json("goal", "show", goal["id"]) == goal
    assert both.same_json("goal", "show", goal["id"][:-2])["id"] == goal["id"]
    assert both.same_json("goal", "watch", goal["id"]) == goal
    assert both.same_json("goal", "show", goal["id"], "--output", "command")["output"]["stdout"] == "hello\n"
    assert both.same_json("goal", "list", "--tag", "ci", "--status", "done")["goals"]
    assert both.same_json("goal", "list", "--status", "failed")["goals"] == []
    for command in (("goal", "watch", goal["id"], "--jsonl"), ("goal", "watch", goal["id"])):
        assert both.remote(*command) == 0
        printed = both.perdure.out, both.perdure.err
        assert both.local(*command) == 0
        assert (both.perdure.out, both.perdure.err) == printed


def test_a_run_ends_with_the_code_of_its_goal(both: Both) -> None:
    assert both.remote("run", "--", "false") == 1
    assert both.remote("run", "--json", "--", "false") == 1
    Path("plan.yaml").write_text(ASKS)
    assert both.remote("run", "--plan", "plan.yaml", "--max-iterations", "1") == 6


def test_a_policy_is_that_of_the_goal(both: Both) -> None:
    goal = goal_of(both, "--policy", "read-only", "--", "echo", "hello")
    begun = json.loads(both.local_json("goal", "export", goal["id"])["lines"][0])
    assert begun["payload"]["policy"]["preset"] == "read-only"
    assert both.remote("run", "--policy", "nonsense", "--", "echo", "hello") == 2


def test_a_key_starts_one_goal(both: Both) -> None:
    first = goal_of(both, "--key", "ci-7", "--", "echo", "once")
    assert goal_of(both, "--key", "ci-7", "--", "echo", "once") == first
    assert both.same_json("goal", "show", "key:ci-7") == first
    assert both.remote("run", "--key", "ci-7", "--", "echo", "another") == 4
    assert both.remote("goal", "show", "key:ci-8") == 3


def test_a_run_that_asks_ends_with_5_and_continues_after_the_answer(both: Both) -> None:
    Path("plan.yaml").write_text(ASKS)
    assert both.remote("run", "--plan", "plan.yaml") == 5
    assert both.perdure.out == "fetched\n"
    assert f"--url {both.url}" in both.perdure.err
    [goal] = both.same_json("goal", "list")["goals"]
    assert both.same_json("goal", "show", goal["id"])["questions"][0]["step"] == "sure"
    assert both.remote("goal", "answer", goal["id"], "maybe") in (2, 4)
    assert both.remote("goal", "answer", goal["id"], "yes", "--resume") == 0
    assert both.perdure.out == "sent yes\n"


def test_what_a_goal_of_the_server_waits_for_is_said_on_standard_error(both: Both) -> None:
    goal = asking(both)
    watch = [sys.executable, "-m", "perdure", "goal", "watch", goal, "--json", "--url", both.url]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        said = ""
        while "goal answer" not in said:
            line = watching.stderr.readline()
            assert line, said
            said += line
        assert f"{goal}: waiting (person)" in said
        assert both.remote("goal", "answer", goal, "yes", "--resume") == 0
        assert watching.stdout is not None
        assert json.loads(watching.stdout.read())["status"] == "done"
        assert watching.wait(30) == 0


def test_next_commands_name_the_server(both: Both) -> None:
    goal = asking(both)
    assert both.remote("goal", "show", goal, "--json") == 0
    commands = [shlex.split(each["command"]) for each in json.loads(both.perdure.out)["next"]]
    assert all(command[-2:] == ["--url", both.url] for command in commands)


def test_a_goal_is_cancelled(both: Both) -> None:
    goal = asking(both)
    assert both.remote_json("goal", "cancel", goal, "--reason", "not today")["status"] == "cancelled"
    assert both.remote("goal", "watch", goal) == 130
    assert both.remote("goal", "cancel", goal) == 4


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_call_is_approved_or_denied(decision: str, both: Both) -> None:
    goal = waiting(both, "approval")
    assert both.remote("goal", decision, goal) == 0
    assert both.remote("goal", {"deny": "approve", "approve": "deny"}[decision], goal) == 4
    assert decision in both.perdure.err


def test_an_unknown_outcome_is_decided(both: Both) -> None:
    goal = waiting(both, "unknown")
    assert both.remote("goal", "decide", goal, "skip") == 0
    assert both.remote("goal", "decide", goal, "abort") == 4
    assert "skip" in both.perdure.err


def test_a_signal_is_sent_once_with_its_key(both: Both) -> None:
    goal = asking(both)
    for _ in range(2):
        assert both.remote("goal", "signal", goal, "paid", '{"amount": 3}', "--key", "k") == 0
    written = [json.loads(line)["type"] for line in both.local_json("goal", "export", goal)["lines"]]
    waiting = both.same_json("goal", "show", goal)["pending"]
    assert written.count("signal") + len(waiting) == 1


def test_a_failed_goal_is_retried(both: Both) -> None:
    here = shlex.quote(str(Path("ready").absolute()))
    goal = goal_of(both, "--", "sh", "-c", f"test -e {here} && echo now")
    assert goal["status"] == "failed"
    Path("ready").touch()
    assert both.remote("goal", "retry", goal["id"], "--reason", "it is there") == 0
    assert both.perdure.out == "now\n"
    assert both.remote("goal", "retry", goal["id"]) == 4


def test_a_goal_is_forked_and_the_fork_resumed(both: Both) -> None:
    goal = goal_of(both, "--", "echo", "hello")
    fork = both.remote_json("goal", "fork", goal["id"], "--before", "command")
    assert fork["forked_from"]["goal_id"] == goal["id"]
    assert both.same_json("goal", "show", fork["id"])["status"] == "interrupted"
    assert both.remote("goal", "resume", fork["id"]) == 0
    assert both.perdure.out == "hello\n"
    assert both.remote("run", "--resume", fork["id"]) == 0


def test_several_goals_are_not_changed_at_once(both: Both) -> None:
    assert both.remote("goal", "cancel", "--all") == 2
    assert "id of one goal" in both.perdure.err


@pytest.mark.parametrize("command", ["goal replay x", "goal export x", "goal delete x", "goal diff x y"])
def test_commands_that_need_the_home_say_so(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--url", "http://127.0.0.1:1"]) == 2
    assert "Omit --url" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [("--ephemeral",), ("--jobs", "2"), ("--yes",), ("--import", "json")],
)
def test_options_of_a_run_here_are_refused(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", *options, "--url", "http://127.0.0.1:1", "--", "echo", "hello"]) == 2
    assert options[0] in capsys.readouterr().err


def test_a_flow_that_the_server_does_not_allow_is_denied(both: Both) -> None:
    assert both.remote("run", "--flow", "json:dumps", "--args", "[1]") == 1
    assert "setting `flows`" in both.perdure.err


def test_a_goal_that_is_not_there_is_not_found(both: Both) -> None:
    for command in (("show", "nothing"), ("watch", "nothing"), ("cancel", "nothing"), ("resume", "nothing")):
        assert both.remote("goal", *command) == 3


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a connection that broke again at once."""
    monkeypatch.setattr("perdure.client.goals._PAUSES_S", (0.01,))


@pytest.mark.usefixtures("hasty")
def test_a_goal_outlives_a_server_that_is_killed_in_the_middle_of_a_run(
    perdure: Terminal, ready: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = Path("go").absolute()
    Path("plan.yaml").write_text(
        "goal: outlive\nsteps:\n"
        f"  - {{id: wait, shell: true, exec: 'until test -e {marker}; do sleep 0.02; done; echo over'"
        ", effect: idempotent}\n"
    )
    port = _free_port()
    server = start("serve", "--port", str(port))
    until(lambda: _answers(port))
    both = Both(perdure, ready.parent / "home", f"http://127.0.0.1:{port}", monkeypatch)

    def kill() -> None:
        until(_is_followed)
        server.kill(signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    assert both.remote("run", "--plan", "plan.yaml") == 8
    killing.join()
    command = shlex.split(both.perdure.err.rpartition("Follow it: `")[2].rpartition("`")[0])
    assert command[:3] == ["perdure", "goal", "watch"]
    marker.touch()
    with monkeypatch.context() as environment:
        environment.setenv("PERDURE_HOME", str(both.home))
        start("serve", "--port", str(port))
    until(lambda: _answers(port))
    assert perdure(*command[1:]) == 0
    assert perdure.out == "over\n"


def _is_followed() -> bool:
    """Tell whether a command in this process has shown an event."""
    return "step wait: started" in cast("StringIO", sys.stderr).getvalue()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _answers(port: int) -> bool:
    """Tell whether a server listens."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _report_until_shown() -> str:
    def is_shown() -> bool:
        current_step().progress({"percent": 10})
        return 'step /upload#0: {"percent":10}' in cast("StringIO", sys.stderr).getvalue()

    until(is_shown)
    return "there"


@flow
async def uploading(goal: Goal) -> str:
    await goal.ask("Upload?")
    return await goal.options(name="upload").step(_report_until_shown)


@pytest.mark.parametrize("command", ["watch", "resume"])
def test_what_a_step_at_the_server_reports_is_shown_until_it_has_ended(both: Both, command: str) -> None:
    async def answered() -> str:
        async with Perdure.open(both.home) as p:
            with pytest.raises(GoalWaiting) as waiting:
                await p.goals.run(uploading)
        async with Client(both.url, both.token) as client:
            await client.goals.decide(waiting.value.id, "answer", value="yes")
            if command == "watch":
                await client.goals.resume(waiting.value.id)
        return waiting.value.id

    goal_id = asyncio.run(answered())
    assert both.remote("goal", command, goal_id) == 0
    assert both.perdure.out == "there\n"


def test_ctrl_c_leaves_the_goal_to_the_server(both: Both, start: Start) -> None:
    marker = Path("go").absolute()
    program = start("run", "--shell", f"echo begun; until test -e {marker}; do sleep 0.02; done", "--url", both.url)
    program.until("running")
    program.press(CTRL_C)
    said = program.until("goal watch")
    assert "continues at" in said
    [goal] = both.same_json("goal", "list")["goals"]
    assert goal["status"] == "running"
    marker.touch()
    assert both.remote("goal", "watch", goal["id"]) == 0


def test_the_commands_of_the_page_work(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[3] / "docs/how-to/share-a-server.md"
    Path("report.xml").write_text("<testsuite><testcase name='a'><failure/></testcase></testsuite>")
    for command in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "Begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], check=True)
    monkeypatch.setenv("PERDURE_URL", both.url)
    lines = "".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)).splitlines()
    assert len(lines) == 19
    for line in lines:
        words = shlex.split(line.replace("$(git rev-parse HEAD)", "abc1234"))
        assert both.perdure(*words[1:]) == 0, line
