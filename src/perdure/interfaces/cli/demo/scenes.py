"""The scenes of the demo about goals: each runs real commands and returns their results."""

from collections import Counter
from typing import Any

from perdure.app import open_home
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.demo.shell import LEDGER, Shell

FLOW = """\
def charge(name):
    write(f"charged {name}")   # an effect that must not happen twice
    time.sleep(60)             # the kill comes here
def was_charged(name):
    return f"charged {name}" in read()
@flow
async def order(goal, name):
    await goal.step(write, f"reserved {name}")
    await goal.options(check=was_charged).step(charge, name)
    await goal.step(write, f"shipped {name}")
"""
SCRIPT = f"""\
import asyncio, time
from pathlib import Path
from perdure import Perdure, flow
def read():
    return Path("{LEDGER}").read_text().splitlines()
def write(line):
    with open("{LEDGER}", "a") as ledger:
        ledger.write(line + "\\n")
{FLOW}
async def main():
    async with Perdure.open() as p:
        result = await p.goals.options(key="order-1").run(order, "ann")
        print(f"goal {{result.id}}: {{result.status}}")
asyncio.run(main())
"""
PLAN = f"""\
goal: publish prices
steps:
  - id: fetch
    exec: echo fetched >> {LEDGER}
    shell: true
  - id: publish
    needs: [fetch]
    exec: cat prices.csv
"""
PAY = f"echo paid >> {LEDGER}; sleep 60\n"
_REPEATED = ("goal ", "goal: ", "step ", "events ", "Recorded", "Step publish failed")
"""Prefixes of lines that repeat the text of a scene."""


async def kill_a_flow(shell: Shell) -> dict[str, Any]:
    """Kill a Python flow in the middle of a step, and run its script again."""
    shell.write("shop.py", SCRIPT)
    shell.say("A Python function, made durable (shop.py):")
    shell.show(FLOW)
    pid = await shell.run_and_kill("python shop.py", when="charged ann")
    shell.say("Run again, it resumes. The check says: charged. So it is not charged twice:")
    code, _ = await shell.run("python shop.py")
    shell.show(f"$ cat {LEDGER}")
    shell.show("\n".join(shell.ledger()))
    goal = await _newest(shell)
    return {"pid": pid, "exit_code": code, "goal": goal.id, "status": goal.status, "ledger": Counter(shell.ledger())}


async def decide_an_unknown_outcome(shell: Shell) -> dict[str, Any]:
    """Kill a command without a check, and decide its outcome."""
    shell.say("Without a check the outcome is unknown. Perdure waits for your decision:")
    shell.write("pay", PAY)
    await shell.run_and_kill("perdure run --", "sh", "pay", when="paid", shown="perdure run -- sh pay")
    waiting, _ = await shell.run("perdure run --continue", pick=_is_news)
    goal = await _newest(shell)
    async with open_home(shell.settings) as p:
        (call_id,) = (await p.goals.state(goal.id)).open_calls
    code, _ = await shell.run("perdure goal decide", goal.id, call_id, "skip", "--resume", pick=_is_done)
    return {
        "goal": goal.id,
        "exit_codes": [waiting, code],
        "status": (await _newest(shell)).status,
        "paid": shell.ledger().count("paid"),
    }


async def retry_a_failed_goal(shell: Shell) -> dict[str, Any]:
    """Let a plan fail, remove the cause, and retry it."""
    shell.write("prices.yaml", PLAN)
    shell.say("A plan of two steps fails in the second. Fixed and retried, only that one runs:")
    failed, _ = await shell.run("perdure run --plan prices.yaml", pick=lambda line: line.startswith("cat:"))
    goal = await _newest(shell)
    shell.write("prices.csv", "lamp,9.99\n")
    shell.show("$ echo lamp,9.99 > prices.csv")
    code, _ = await shell.run("perdure goal retry", goal.id, pick=lambda line: "lamp" in line)
    return {
        "goal": goal.id,
        "exit_codes": [failed, code],
        "status": (await _newest(shell)).status,
        "fetched": shell.ledger().count("fetched"),
    }


def is_right(data: dict[str, Any]) -> bool:
    """Return whether all scenes had the expected results."""
    killed, unknown, retried = data["killed"], data["unknown"], data["retried"]
    is_charged_once = killed["ledger"] == {"reserved ann": 1, "charged ann": 1, "shipped ann": 1}
    is_paid_once = unknown["paid"] == 1 and unknown["exit_codes"] == [5, 0]
    is_retried = retried["fetched"] == 1 and retried["exit_codes"] == [1, 0]
    is_done = {each["status"] for each in (killed, unknown, retried)} == {"done"}
    are_right = all(data[scene]["is_right"] for scene in ("forge", "answered"))
    return is_charged_once and is_paid_once and is_retried and is_done and are_right


def _is_news(line: str) -> bool:
    """Return whether a line is not progress, a table or a repetition of the scene's text."""
    return not (line.startswith(_REPEATED) or line[:1].isdigit())


def _is_done(line: str) -> bool:
    return line.endswith(": done")


async def _newest(shell: Shell) -> GoalView:
    async with open_home(shell.settings) as p:
        return (await p.goals.list(limit=1))[0]
