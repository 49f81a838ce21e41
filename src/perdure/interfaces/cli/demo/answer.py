"""The last scene of the demo: the bot answers, by a model that is a scripted server."""

import asyncio
import json
from importlib.util import find_spec
from typing import Any

from perdure.errors import Unavailable
from perdure.extras import install_command
from perdure.interfaces.cli.demo.shell import Shell

QUESTION = "Why was ann charged only once?"
ANSWER = "The check found the charge in the ledger, so the step was not run again."
_SCRIPT = "answers.json"
_START_S = 30.0


async def ask_the_bot(shell: Shell, slug: str) -> dict[str, Any]:
    """Ask the bot a question; without the packages for models, say which to install.

    Raises: Unavailable when the server does not start.
    """
    if find_spec("pydantic_ai") is None:
        shell.say(f"A bot that answers needs the packages for models: {install_command('models')}")
        return {"bot": slug, "answer": None, "is_right": True}
    shell.write(_SCRIPT, json.dumps({"order": "turns", "answers": [{"text": ANSWER}]}))
    url = await _serve(shell)
    shell.say("The bot answers; its model is a server of the demo, with a scripted answer:")
    model = "openai-compatible:scripted"
    shown = f"perdure model default {model}@URL"
    await shell.run("perdure model default", f"{model}@{url}", shown=shown, pick=lambda _line: False)
    shown = f'perdure run --bot {slug} "{QUESTION}"'
    code, said = await shell.run("perdure run --bot", slug, QUESTION, shown=shown, pick=lambda line: line == ANSWER)
    return {"bot": slug, "answer": ANSWER, "exit_code": code, "is_right": code == 0 and ANSWER in said}


async def _serve(shell: Shell) -> str:
    """Start the scripted server, which ends with the demo; return its URL."""
    program = await shell.start("python -m perdure.testing.model_server", _SCRIPT)
    async with asyncio.timeout(_START_S):
        url = "" if program.stdout is None else (await program.stdout.readline()).decode().strip()
    if not url.startswith("http"):
        raise Unavailable(f"The scripted model server of the demo did not start: {url}")
    return url
