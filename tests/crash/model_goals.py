"""Goals for models in child processes, which ask a scripted server of the parent."""

import os
from pathlib import Path
from typing import Any

from perdure import Perdure

MODEL = "openai:gpt-5.4-mini"


async def run_goal(home: Path, url: str, server: str, policy: Any) -> None:
    """Run a goal for a model to its end."""
    os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = server, "key-for-a-test"
    async with Perdure.open(home, database_url=url) as p:
        await p.goals.options(model=MODEL, policy=policy).run("Go.")
