"""Descriptors, threads, memory, processes or disk space that run out around an effect: it happens at most once.

Each case runs in a child process of its own, which takes away what the case is about and gives it back at the end.
"""

import asyncio
import contextlib
import errno
import os
import random
import resource
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perdure import failpoints, flow
from perdure.app import open_ephemeral
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.kernel.events import Event, MindSpec
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, RunResult
from perdure.minds.flow.goal import Goal
from perdure.tools.files import WriteFileTool
from tests import children
from tests.crash.goals import counted, open_goals
from tests.crash.size import torture_size
from tests.tools.calls import Fifo, call

SEND = "echo . >> send"
THEN_WRITE = f"{SEND}; echo > told; read x < gate; head -c 900000 /dev/zero"
"""Tells that the effect has happened, waits, and writes as much as is kept."""
TRIES = 4
PLAN = """
goal: send once
steps:
  - {id: send, shell: true, exec: "COMMAND", retry: {attempts: 4}}
"""
NEEDED = 14
"""More descriptors than one `exec` ever needs at once."""


class FewFiles(contextlib.AbstractContextManager[None]):
    """Lets only so many descriptors be opened more; those that are closed meanwhile are not given out again.

    The lowest numbers that are free are kept aside from the beginning, and the limit is set right above them.
    """

    def __init__(self, left: int) -> None:
        self._kept = [os.open("/", os.O_RDONLY) for _ in range(left)]
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def __enter__(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(self._kept, default=2) + 1, self._limits[1]))
        for file in self._kept:
            os.close(file)

    def __exit__(self, *_error: object) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """Let no thread be started: none can have so large a stack. And let nobody be waited for without one."""
    pidfd_open = os.pidfd_open
    del os.pidfd_open
    before = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(before)
        os.pidfd_open = pidfd_open


@contextlib.contextmanager
def little_memory(left: int) -> Iterator[None]:
    """Let the process grow by so many bytes and no more; what it has in reserve is used as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + left, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def no_disk_space() -> Iterator[None]:
    """Let no file grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def no_processes() -> Iterator[None]:
    """Let no process be started, which only holds for others than root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


Shortage = contextlib.AbstractContextManager[None]


class Scarcity:
    """A shortage that begins when told to, and is over as soon as something is recorded of the first call.

    It is over by then because a retry could do no harm otherwise: it would find the same shortage.
    """

    def __init__(self, shortage: Shortage, *, from_intent: bool = False) -> None:
        self._shortage = shortage
        self._is_due = from_intent
        self._stack = contextlib.ExitStack()

    def begin(self) -> None:
        self._is_due = False
        self._stack.enter_context(self._shortage)

    def end(self) -> None:
        self._stack.close()

    def watch(self, loop: Loop) -> None:
        """Hear of what is recorded."""
        loop.journal.listen(self._hear)

    def _hear(self, events: Sequence[Event], state: GoalState) -> None:
        if self._is_due and state.open_calls:
            self.begin()
        elif {"tool_output", "outcome_unknown"} & {event.type for event in events}:
            self.end()


def send(command: str, folder: Path) -> NewGoal:
    return NewGoal("send once", MindSpec("plan", plan=PLAN.replace("COMMAND", command)), folder)


@contextlib.asynccontextmanager
async def goals_in(folder: Path) -> AsyncIterator[Goals]:
    os.chdir(folder)
    async with open_ephemeral() as goals:
        yield goals


async def judge(goals: Goals, ran: RunResult, folder: Path) -> None:
    """Check that the effect happened at most once, that what is recorded says so, and that a person can go on."""
    happened = counted(folder, "send")
    unknown = [call_id for call_id, call in ran.state.open_calls.items() if call.unknown is not None]
    assert happened <= 1
    if unknown:
        assert ran.state.waiting_for == "person"
        await goals.decide(ran.state.goal_id, "skip")
        ran = await goals.resume_run(ran.state.goal_id)
        assert ran.state.status == "done"
    else:
        assert (ran.state.status == "done") is (happened == 1)
    assert counted(folder, "send") == happened


async def short_from_the_start(folder: Path, shortage: Callable[..., Shortage], *arguments: int) -> None:
    async with goals_in(folder) as goals:
        scarcity = Scarcity(shortage(*arguments), from_intent=True)
        try:
            ran = await goals.begin(send(SEND, folder), RunOptions(watch=scarcity.watch))
        finally:
            scarcity.end()
        await judge(goals, ran, folder)


async def short_after_the_effect(
    folder: Path, shortage: Callable[..., Shortage], *arguments: int, code: int = 0
) -> None:
    """Begin the shortage when the command has had its effect and has not yet ended."""
    told, gate = Fifo(folder / "told"), Fifo(folder / "gate")
    async with goals_in(folder) as goals:
        scarcity = Scarcity(shortage(*arguments))
        running = asyncio.create_task(
            goals.begin(send(f"{THEN_WRITE}; exit {code}", folder), RunOptions(watch=scarcity.watch))
        )
        await told.line()
        scarcity.begin()
        for _ in range(TRIES):
            gate.let_go()
        try:
            ran = await running
        finally:
            scarcity.end()
        assert code == 0 or ran.state.calls["send.1"].unknown is not None, "somebody of it may still be at work"
        await judge(goals, ran, folder)
        assert counted(folder, "send") == 1


@pytest.mark.parametrize("left", range(NEEDED + 1))
def test_a_command_that_gets_few_descriptors_has_its_effect_at_most_once(tmp_path: Path, left: int) -> None:
    children.run(short_from_the_start, tmp_path, FewFiles, left)
    assert counted(tmp_path, "send") <= 1


@pytest.mark.parametrize("left", range(4))
def test_descriptors_that_run_out_after_the_effect_do_not_let_it_happen_again(tmp_path: Path, left: int) -> None:
    children.run(short_after_the_effect, tmp_path, FewFiles, left)
    assert counted(tmp_path, "send") == 1


async def fail_after_the_effect(folder: Path) -> None:
    await short_after_the_effect(folder, FewFiles, 0, code=1)


def test_a_command_that_failed_while_it_was_unknown_whether_it_left_processes_is_not_tried_again(
    tmp_path: Path,
) -> None:
    children.run(fail_after_the_effect, tmp_path)
    assert counted(tmp_path, "send") == 1


@pytest.mark.parametrize("shortage", [no_threads, no_disk_space], ids=["threads", "disk space"])
def test_a_command_that_cannot_be_started_has_failed_and_has_its_effect_when_it_is_tried_again(
    tmp_path: Path, shortage: Callable[..., Shortage]
) -> None:
    children.run(short_from_the_start, tmp_path, shortage)
    assert counted(tmp_path, "send") == 1


async def as_nobody(folder: Path) -> None:
    async with goals_in(folder) as goals:  # imports what that user may not be able to read
        await goals.begin(send("true", folder))
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    await short_from_the_start(folder, no_processes)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may use."""
    folder = Path(tempfile.mkdtemp(prefix="perdure-nobody-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_a_command_that_finds_no_process_left_has_failed_and_has_its_effect_when_it_is_tried_again(
    open_folder: Path,
) -> None:
    children.run(as_nobody, open_folder)
    assert counted(open_folder, "send") == 1


@flow
async def sends_once(goal: Goal, name: str) -> None:
    await goal.options(retry=4).step(append, name)


def append(name: str) -> None:
    with Path(name).open("a") as file:
        file.write(".\n")


async def run_flow_without_threads(folder: Path) -> None:
    async with goals_in(folder) as goals:
        with no_threads():
            result = await goals.options(on_failed="return").run(sends_once, str(folder / "send"))
        assert result.status == "failed"


def test_a_step_whose_thread_cannot_be_started_has_failed_and_has_no_effect(tmp_path: Path) -> None:
    children.run(run_flow_without_threads, tmp_path)
    assert counted(tmp_path, "send") == 0


async def write_without_threads(folder: Path) -> None:
    context = call(folder, {"path": "file", "content": "new"}, tool="write_file")
    with no_threads():
        outcome = await WriteFileTool().run(context)
    assert outcome.error is not None
    assert outcome.error.code == "unavailable"
    await asyncio.to_thread(int)  # all that the pool has kept for later is done before this
    assert not (folder / "file").exists()


def test_a_file_that_no_thread_could_write_is_not_written_later(tmp_path: Path) -> None:
    children.run(write_without_threads, tmp_path)


async def write_file(folder: Path) -> None:
    await WriteFileTool().run(call(folder, {"path": "file", "content": "new"}, tool="write_file"))


@pytest.mark.parametrize("point", ["tools.write.flush"])
async def test_a_file_whose_writer_died_before_the_flush_has_happened_by_its_check(tmp_path: Path, point: str) -> None:
    children.run_until(point, write_file, tmp_path)
    context = call(tmp_path, {"path": "file", "content": "new"}, tool="write_file")
    assert await WriteFileTool().check(context) == "happened"


WRITING = """
goal: write once
steps:
  - {id: write, tool: write_file, with: {path: file, content: new}, effect: once, retry: {attempts: 4}}
"""


async def test_a_file_that_has_its_content_but_was_not_flushed_is_not_a_failure(tmp_path: Path) -> None:
    hits = 0

    def find_no_room() -> None:
        nonlocal hits
        hits += 1
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with open_ephemeral() as goals:
        with failpoints.armed("tools.write.flush", find_no_room):
            ran = await goals.begin(NewGoal("write", MindSpec("plan", plan=WRITING), tmp_path))
        assert hits == 1, "it is not written again"
        assert ran.state.calls["write.1"].unknown is not None
        assert ran.state.status == "done", "its check says that it happened"


SHORTAGES: dict[str, Callable[[random.Random], tuple[Callable[..., Shortage], tuple[int, ...]]]] = {
    "descriptors": lambda chance: (FewFiles, (chance.randrange(NEEDED + 4),)),
    "threads": lambda _chance: (no_threads, ()),
    "disk space": lambda _chance: (no_disk_space, ()),
}


@pytest.mark.torture
@pytest.mark.parametrize("what", SHORTAGES)
@pytest.mark.parametrize("when", [short_from_the_start, short_after_the_effect])
def test_whatever_runs_out_around_an_effect_it_happens_at_most_once(
    tmp_path: Path, what: str, when: Callable[..., Coroutine[Any, Any, object]]
) -> None:
    for number in range(torture_size(small=3)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shortage, arguments = SHORTAGES[what](random.Random(number))
        children.run(when, folder, shortage, *arguments)
        assert counted(folder, "send") <= 1


async def send_with_little_memory(home: Path, url: str, left: int) -> None:
    """Have the effect, and take the memory away before the outcome is recorded; whatever comes of it, end."""
    told, gate = Fifo(home / "told"), Fifo(home / "gate")
    async with open_goals(home, url) as goals:
        running = asyncio.create_task(goals.begin(send(THEN_WRITE, home)))
        await told.line()
        gate.let_go()
        with little_memory(left):
            await asyncio.wait([running])
        running.result()


@pytest.mark.torture
async def test_whenever_memory_runs_out_after_an_effect_it_happens_at_most_once(
    database_url: str, tmp_path: Path
) -> None:
    """Python itself may not survive it; then the goal is resumed as after a kill."""
    for number in range(torture_size(small=3)):
        home = tmp_path / str(number)
        home.mkdir()
        left = random.Random(number).randrange(4 << 20)
        children.end_of(children.start(send_with_little_memory, home, database_url, left))
        async with open_goals(home, database_url) as goals:
            (goal, *_) = await goals.list()
            await judge(goals, await goals.resume_run(goal.id), home)
        assert counted(home, "send") == 1


@pytest.mark.torture
@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_whenever_processes_run_out_an_effect_happens_at_most_once(open_folder: Path) -> None:
    for number in range(torture_size(small=2)):
        folder = open_folder / str(number)
        folder.mkdir()
        folder.chmod(0o777)
        children.run(as_nobody, folder)
        assert counted(folder, "send") == 1
