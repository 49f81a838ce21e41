"""Child processes, forked from one warm parent that has imported everything and opened nothing.

A child may die at a fail-point as a power cut would make it: by SIGKILL, with nothing flushed and nothing closed.
"""

import asyncio
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

from perdure import failpoints

_TIMEOUT_S = 60
_ROOT = Path(__file__).parents[1]


MODEL_VARIABLES = (
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "PERDURE_MODEL"),
    *("GOOGLE_API_KEY", "GEMINI_API_KEY", "OLLAMA_HOST", "OLLAMA_API_KEY"),
)
"""The variables that connect models. Interviews offer what they name."""


@functools.cache
def context() -> ForkServerContext:
    """The way children are made; the first call starts the warm parent.

    The warm parent keeps the environment of the test that happens to start it, so it is started without models,
    and in the folder of the project: Python 3.11 looks for what it preloads in the current folder, and ignores what it
    does not find there.
    """
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["tests.warm"])
    models = {name: os.environ.pop(name) for name in MODEL_VARIABLES if name in os.environ}
    current = os.open(".", os.O_RDONLY)
    os.chdir(_ROOT)
    try:
        ensure_running()
    finally:
        os.fchdir(current)
        os.close(current)
        os.environ.update(models)
    return forkserver


def start(job: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> ForkServerProcess:
    """Start a child that runs an async job; when a test fails, nobody waits for it at the end."""
    child = context().Process(target=_run, args=(job, arguments), daemon=True)
    child.start()
    return child


def run(job: Callable[..., Coroutine[Any, Any, object]], *arguments: object) -> None:
    """Run an async job in a child, which must succeed."""
    child = start(job, *arguments)
    assert end_of(child) == 0


def run_until(point: str, job: Callable[..., Coroutine[Any, Any, object]], *arguments: object, hits: int = 1) -> None:
    """Run an async job in a child that is killed with SIGKILL at the nth hit of a fail-point, which it must reach."""
    child = context().Process(target=_run_until, args=(point, job, arguments, hits))
    child.start()
    assert end_of(child) == -signal.SIGKILL, f"{point} was never reached"


def end_of(child: ForkServerProcess) -> int | None:
    """Wait for a child and return its exit code; minus the signal when it was killed."""
    child.join(_TIMEOUT_S)
    code = child.exitcode
    if code is None:
        child.kill()
        child.join()
    child.close()
    return code


def _run(job: Callable[..., Coroutine[Any, Any, object]], arguments: tuple[object, ...]) -> None:
    asyncio.run(job(*arguments))


def _run_until(
    point: str, job: Callable[..., Coroutine[Any, Any, object]], arguments: tuple[object, ...], hits: int
) -> None:
    left = hits

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with failpoints.armed(point, blow):
        asyncio.run(job(*arguments))


def python(program: str) -> str:
    """Run a program text in a new interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
