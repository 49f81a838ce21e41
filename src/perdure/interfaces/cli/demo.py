"""`perdure demo`: a plan is killed in the middle of a step, an interview in the middle of a question; both go on."""

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from perdure.app import open_home
from perdure.app.endings import remember_goal
from perdure.app.memory import open_memory
from perdure.errors import PerdureError, Unavailable
from perdure.interfaces.cli.answer import Answer, Table, print_parts
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.goals.timeline import call_object, timeline
from perdure.interfaces.cli.logs import keep_no_log
from perdure.interfaces.cli.memory.records import told
from perdure.kernel.fold import GoalState
from perdure.settings import DEFINITIONS, Settings, load_settings

STEPS = ("reserve", "invoice", "charge", "pack", "notify")
KILLED = "charge"
FILE = "effects.txt"
_PATIENCE_S = 60.0

INTRODUCTION = """\
A plan of five steps. Each appends its name to a file: an effect on the outside, which nobody can take back.

  $ perdure run --plan order.yaml
"""
KILL = f"""
In the middle of `{KILLED}`, when its line was written and its outcome not yet recorded, the program was killed with
SIGKILL. This is what the history had by then:
"""
RESUME = """
  $ perdure run --resume {goal_id}
"""
RESUMED = f"""
What had been recorded was not run again. The intent to run `{KILLED}` was recorded too, so it was not simply repeated:
what was left of it was ended, and its check was asked, which said that it had happened. (Without a check the goal
would have waited for you to decide.) Every step is there once, and so is every effect:
"""
REMEMBERED = """
How it ended went into the memory, where whoever touches the same files will find it:

  $ perdure memory query --paths {path}
"""
NOT_REMEMBERED = """
How it ended could not be remembered, which fails nothing else: {why}
"""
END = """
That was in a temporary home. Yours is made by the first command, such as: perdure run "echo hello"
For programs and browsers there is a server: perdure serve, or make serve."""


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "demo")(demo)


async def demo(options: Options) -> Answer:
    """See a plan and an interview survive a SIGKILL each, in a temporary home that is gone afterwards."""
    from perdure.interfaces.cli.forge import demo as forge

    keep_no_log()  # what happens in a demo is no business of your own log
    begun_s = time.monotonic()

    def tell(*parts: str | Table) -> None:
        if not options.json:
            print_parts(parts)
            sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="perdure-demo-", ignore_cleanup_errors=True) as folder:
        place = _Place(Path(folder))
        tell(INTRODUCTION)
        with place.laid_out():
            await place.run_and_kill()
            before = await place.state()
            tell(KILL, timeline(before), RESUME.format(goal_id=before.goal_id))
            after = await place.resume(before.goal_id)
            remembered = await place.remember(after)
        effects = place.effects()
        tell(timeline(after), RESUMED, Table(["step", "lines in the file"], [[n, str(c)] for n, c in effects.items()]))
        tell(*_told(remembered), forge.INTRODUCTION)
        forged = await forge.forge_and_resume(place.settings, _environment())
        tell(*forged.texts())
    tell(END, f"It took {time.monotonic() - begun_s:.1f} s.")
    is_right = after.status == "done" and set(effects.values()) == {1} and list(effects) == list(STEPS)
    data = {**_data(before, after, effects), "memory": remembered, "forge": forged.data}
    return Answer(data, exit_code=0 if is_right and forged.is_right else 1)


def _told(remembered: dict[str, Any]) -> list[str]:
    if remembered["error"] is not None:
        return [NOT_REMEMBERED.format(why=remembered["error"])]
    found = told(remembered["matches"], truncated=False)
    return [REMEMBERED.format(path=" ".join(remembered["paths"][:1])), "\n".join(f"  {line}" for line in found)]


def _data(before: GoalState, after: GoalState, effects: dict[str, int]) -> dict[str, Any]:
    return {
        "goal": after.goal_id,
        "status": after.status,
        "killed_in": KILLED,
        "before": [call_object(call) for call in before.calls.values()],
        "after": [call_object(call) for call in after.calls.values()],
        "effects": effects,
    }


@dataclass
class _Place:
    """The temporary folder: a home, a folder to work in, and who is at work in it."""

    folder: Path
    step_pid: int | None = None

    @property
    def settings(self) -> Settings:
        return load_settings({"home": str(self.folder / "home")}, environment={})

    @contextmanager
    def laid_out(self) -> Iterator[None]:
        """Write the plan and the pipe that the step tells its pid by; leave nothing running."""
        self._work.mkdir()
        os.mkfifo(self._work / "reached")
        (self._work / "order.yaml").write_text(_plan(), encoding="utf-8")
        try:
            yield
        finally:
            if self.step_pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.step_pid, signal.SIGKILL)

    async def run_and_kill(self) -> None:
        """Run the plan in a process of its own, and kill that when the step is in its middle.

        Raises: Unavailable when it never comes to that.
        """
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "perdure", "run", "--plan", "order.yaml", "--json"),
            *("--home", str(self.folder / "home")),
            cwd=self._work,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            self.step_pid = await self._reached(program)
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            said, _ = await program.communicate()
        if self.step_pid is None:
            raise Unavailable(f"The plan ended before it could be killed: {said.decode(errors='replace')[:1000]}")

    async def _reached(self, program: asyncio.subprocess.Process) -> int | None:
        """Wait until the step says that it is in its middle; None when the program ends instead."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[int] = loop.create_future()
        pipe = os.open(self._work / "reached", os.O_RDWR | os.O_NONBLOCK)

        def read() -> None:
            if not told.done():
                told.set_result(int(os.read(pipe, 32)))

        loop.add_reader(pipe, read)
        ended = asyncio.create_task(program.wait())
        try:
            await asyncio.wait({told, ended}, timeout=_PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
            return told.result() if told.done() else None
        finally:
            loop.remove_reader(pipe)
            os.close(pipe)
            ended.cancel()

    async def state(self) -> GoalState:
        """Return what the history says."""
        async with open_home(self.settings) as p:
            (goal,) = await p.goals.list()
            return await p.goals.state(goal.summary.goal_id)

    async def resume(self, goal_id: str) -> GoalState:
        """Go on with the goal, as `perdure run --resume` does."""
        async with open_home(self.settings) as p:
            return (await p.goals.go_on(goal_id)).state

    async def remember(self, state: GoalState) -> dict[str, Any]:
        """Record how the goal ended, and find that again by a path; an error of the memory is only told."""
        try:
            async with open_memory(self.settings) as memory:
                report = await remember_goal(memory, state)
                paths = [path async for record in memory.iter() for path in record.get("paths", [])]
                found = await memory.related(paths=paths[:1] or [FILE])
        except PerdureError as error:
            return {"error": error.detail, "added": 0, "paths": [], "matches": []}
        why = "; ".join(report["errors"]) or None
        return {"error": why, "added": report["added"], "paths": paths, "matches": found["matches"]}

    def effects(self) -> dict[str, int]:
        """Count the lines that each step has written."""
        written = (self._work / FILE).read_text(encoding="utf-8").split()
        return {name: written.count(name) for name in dict.fromkeys(written)}

    @property
    def _work(self) -> Path:
        return self.folder / "work"


def _plan() -> str:
    lines = ["goal: ship an order", "steps:"]
    for number, name in enumerate(STEPS):
        needs = f"    needs: [{STEPS[number - 1]}]" if number else None
        lines += [f"  - id: {name}", *([needs] if needs else []), *_work_of(name)]
    return "\n".join([*lines, ""])


def _work_of(name: str) -> Sequence[str]:
    effect = f"echo {name} >> {FILE}"
    if name != KILLED:
        return [f'    exec: ["sh", "-c", "{effect}"]']
    return [
        f'    exec: ["sh", "-c", "{effect}; echo $$ > reached; exec sleep {_PATIENCE_S:.0f}"]',
        f'    check: ["grep", "-qx", "{name}", "{FILE}"]',
    ]


def _environment() -> dict[str, str]:
    """Return the environment without what chooses a home or a database."""
    ours = {name for definition in DEFINITIONS for name in definition.environment}
    return {name: value for name, value in os.environ.items() if name not in ours}
