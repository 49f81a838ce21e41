"""The scene of the demo about Forge: an interview is killed on its terminal and resumed."""

import asyncio
import contextlib
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.app import Perdure, open_home
from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import ReadyToAssemble
from perdure.errors import Unavailable
from perdure.interfaces.cli.demo.shell import Shell
from perdure.interfaces.cli.forge.askers import DefaultAnswers, pending_text

WISH = "I want a coding assistant"
NAME = "Ada"
_TYPED = (NAME, "1", "1")
_LINES = 5
"""The number of shown lines of the terminal."""
_TIMEOUT_S = 60.0
_ASKS = "]:"
"""The end of every question."""


async def make_a_bot(shell: Shell) -> dict[str, Any]:
    """Start an interview in a child process, kill the process, resume the interview and build the bot.

    Raises: Unavailable when the interview ends before it can be killed.
    """
    shell.say("A bot, from one sentence; the interview is killed in the middle of a question:")
    shell.show(f'$ perdure new "{WISH}"')
    pid, shown = await asyncio.to_thread(_interview_and_kill, shell.settings.home, shell.environment)
    shell.show(
        "\n".join(
            line
            for line in shown.splitlines()[-_LINES:]
            if line[:1] not in ("", " ") and not line.rstrip().endswith(_ASKS)
        )
    )
    shell.show(f"$ kill -9 {pid}")
    shell.show("Killed")
    async with open_home(shell.settings) as p:
        (draft,) = await p.forge.drafts()
        session = await p.forge.get(draft.summary.session_id)
        end = await _to_the_end(p, session)
        result = await p.forge.assemble(session.session_id)
    question = pending_text(session)
    shell.show(f"$ perdure new --resume {session.session_id} --yes")
    shell.show(f"{question}   (asked again)")
    shell.show(f"{result.bot_name} is ready after {end.question_count} questions: bots/{result.bot_slug}")
    is_right = question in shown and result.bot_name == NAME
    return {"session_id": session.session_id, "asked_again": question, "bot": result.bot_slug, "is_right": is_right}


async def _to_the_end(p: Perdure, session: SessionView) -> SessionView:
    """Answer with the defaults, as `--yes` does."""
    while not isinstance(session.turn, ReadyToAssemble):
        session = await p.forge.answer(session.session_id, await DefaultAnswers().answer(session), session.revision)
    return session


def _interview_and_kill(home: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Answer questions on a terminal, and kill the program at a question; return its pid and its last output."""
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
            shown = _until_asked(ours)
        return program.pid, shown.replace("\r", "").strip()
    finally:
        program.kill()
        program.wait()
        os.close(ours)


def _until_asked(terminal: int) -> str:
    """Read the output of a terminal until a question is shown.

    Raises: Unavailable when no question is shown.
    """
    seen, deadline_s = b"", time.monotonic() + _TIMEOUT_S
    while not seen.rstrip().endswith(_ASKS.encode()):
        some = b""
        if select.select([terminal], [], [], max(deadline_s - time.monotonic(), 0))[0]:
            with contextlib.suppress(OSError):  # Linux raises this after the last writer has closed the terminal
                some = os.read(terminal, 65536)
        if not some:
            raise Unavailable(f"The interview ended before it could be killed: {seen.decode(errors='replace')[-1000:]}")
        seen += some
    return seen.decode(errors="replace")
