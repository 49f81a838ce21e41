"""A child that runs a script and dies by SIGKILL beside its nth effect.

An effect is that a file, whose path begins with a given name, is opened for writing. `before` it, nothing has happened;
`after` it, the file is longer, and what the script wants to record of that may or may not have reached the disk.
"""

import os
import runpy
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests import children


@dataclass
class Death:
    """When to die; counts as an audit hook of Python."""

    when: Literal["before", "after"]
    effect: int
    name: str

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[1], str) and {*arguments[1]} & {"w", "a"}:
            path = Path(os.fsdecode(arguments[0]))
            if str(path).startswith(self.name):
                self._count(path, is_appended="a" in arguments[1])

    def _count(self, path: Path, *, is_appended: bool) -> None:
        self.effect -= 1
        if self.effect == 0 and self.when == "before":
            _die()
        if self.effect == 0:
            before = _size(path) if is_appended else 0
            threading.Thread(target=_die_when_longer, args=(path, before), daemon=True).start()


def run_until(death: Death, script: Path, *arguments: str) -> bool:
    """Run a script in the current folder, in a child that dies as told; false when it had nothing left to do.

    A death `after` an effect may come late on a busy machine, and the next run then finds less to do.
    """
    home = os.environ["PERDURE_HOME"]
    child = children.context().Process(target=_run, args=(death, script, arguments, Path.cwd(), home))
    child.start()
    end = children.end_of(child)
    assert end in (0, -signal.SIGKILL), f"{script} ended with {end} on its way to {death}"
    return end != 0


def _run(death: Death, script: Path, arguments: tuple[str, ...], folder: Path, home: str) -> None:
    os.chdir(folder)
    os.environ["PERDURE_HOME"] = home
    sys.argv = [str(script), *arguments]
    sys.addaudithook(death)
    runpy.run_path(str(script), run_name="__main__")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _die_when_longer(path: Path, before: int) -> None:
    while _size(path) <= before:
        pass
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
