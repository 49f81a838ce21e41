"""The second part of `perdure demo`: an interview is killed on its terminal and carried on."""

import asyncio
import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.app import Perdure, open_home
from perdure.app.forge import SessionView
from perdure.errors import Unavailable
from perdure.forge.assembly import AssemblyResult
from perdure.forge.turns import ReadyToAssemble
from perdure.interfaces.cli.forge.asking import Suggested, headline
from perdure.settings import Settings

WISH = "I want a coding assistant"
NAME = "Ada"
_TYPED = (NAME, "1", "yes")
_PATIENCE_S = 60.0
_ASKS = "]:"
"""What stands at the end of every question."""

INTRODUCTION = f"""
Now a bot, from one sentence and a few answers:

  $ perdure new "{WISH}"
"""
KILLED = """
There the program was killed with SIGKILL, in the middle of a question. Every answer was kept before the next question
was asked, and the question too:

  $ perdure new --resume {session_id} --yes
"""
RESUMED = """\
asked again: {question}

{name} is ready after {answered} questions, none of which was asked twice. It is a folder of texts, bots/{slug}:

{files}"""


@dataclass(frozen=True)
class Forged:
    """What became of the interview."""

    shown: str
    asked_again: str
    session_id: str
    question_count: int
    result: AssemblyResult
    files: Sequence[str]

    @property
    def is_right(self) -> bool:
        """Whether the same question was asked again, and the bot has the name that was said before the kill."""
        return self.asked_again in self.shown.rpartition(_TYPED[-1])[2] and self.result.bot_name == NAME

    @property
    def data(self) -> dict[str, Any]:
        """What a program is told."""
        return {"session_id": self.session_id, "asked_again": self.asked_again, "bot": self.result.bot_slug}

    def texts(self) -> tuple[str, str, str]:
        """Return what a person is told: the terminal as it was, the kill, and the bot."""
        return (
            "\n".join(f"  | {line}" for line in self.shown.splitlines()),
            KILLED.format(session_id=self.session_id),
            RESUMED.format(
                question=self.asked_again,
                name=self.result.bot_name,
                answered=self.question_count,
                slug=self.result.bot_slug,
                files="\n".join(f"  {name}" for name in self.files),
            ),
        )


async def forge_and_resume(settings: Settings, environment: Mapping[str, str]) -> Forged:
    """Begin an interview in a process of its own, kill that, and go on.

    Raises: Unavailable when it never comes to that.
    """
    shown = await asyncio.to_thread(_interview_and_kill, settings.home, environment)
    async with open_home(settings) as p:
        (draft,) = await p.forge.drafts()
        session = await p.forge.get(draft.summary.session_id)
        end = await _to_the_end(p, session)
        result = await p.forge.assemble(session.session_id)
        folder = settings.bots_dir / result.bot_slug
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return Forged(shown, headline(session), session.session_id, end.question_count, result, files)


async def _to_the_end(p: Perdure, session: SessionView) -> SessionView:
    """Take what is suggested, as `--yes` does."""
    while not isinstance(session.turn, ReadyToAssemble):
        session = await p.forge.answer(session.session_id, await Suggested().answer(session), session.revision)
    return session


def _interview_and_kill(home: Path, environment: Mapping[str, str]) -> str:
    """Answer on a terminal until the program asks once more, and kill it; return what the terminal showed."""
    ours, its = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "perdure", "new", WISH, "--home", str(home)],
        env={**environment, "TERM": "dumb"},
        stdin=its,
        stdout=subprocess.DEVNULL,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    try:
        shown = _until_asked(ours)
        for typed in _TYPED:
            os.write(ours, f"{typed}\n".encode())
            shown += _until_asked(ours)
        return shown.replace("\r", "").strip()
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def _until_asked(terminal: int) -> str:
    """Read what a terminal shows until it asks something.

    Raises: Unavailable when it never does.
    """
    seen, deadline_s = b"", time.monotonic() + _PATIENCE_S
    while not seen.rstrip().endswith(_ASKS.encode()):
        some = b""
        if select.select([terminal], [], [], max(deadline_s - time.monotonic(), 0))[0]:
            with contextlib.suppress(OSError):  # Linux says so when the last writer has gone
                some = os.read(terminal, 65536)
        if not some:
            raise Unavailable(f"The interview ended before it could be killed: {seen.decode(errors='replace')[-1000:]}")
        seen += some
    return seen.decode(errors="replace")
