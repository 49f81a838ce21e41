"""A memory that jobs of a CI share at a server: the lines of the page, against a server that runs."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from perdure import read_records
from perdure.app.access.token import read_token
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_server import HOW_TO, run

PAGE = HOW_TO.with_name("memory-in-github-actions.md")
pytestmark = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


def twice(number: str) -> str:
    record = {"id": "junit-1", "type": "verifier_cluster", "title": "failed", "repo": "acme/shop"}
    return f"printf '%s' '{json.dumps({**record, 'metadata': {'n': number}})}' | perdure memory add -"


async def test_what_one_job_sends_another_one_gets(server: Running, tmp_path: Path) -> None:
    *_, get, send = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    memory = server.surface.p.memory
    for number in range(3):
        await memory.add({"type": "fact", "title": f"of the server {number}", "repo": "acme/shop"})
    await memory.add({"type": "fact", "title": "of others", "repo": "acme/other"})

    async def job(name: str, lines: str) -> Path:
        (tmp_path / name).mkdir()
        state = tmp_path / name / "memory"
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "REPO": "acme/shop",
            "PERDURE_URL": server.url,
            "PERDURE_TOKEN": read_token(server.surface.p.settings.home),
            "MEMORY_STATE_DIR": str(state),
            "WORK": str(tmp_path / name),
            "PERDURE_HOME": str(tmp_path / "elsewhere"),
        }
        await run(environment, tmp_path / name, "bash", "-e", "-o", "pipefail", "-c", lines)
        return state / "memory.jsonl"

    added = "perdure memory add --type lesson --title 'it'\"'\"'s \\n new' --repo acme/shop"
    first = await job("one", f"{get}\n{added}\n{send}\n{send}")
    expected = {"of the server 0", "of the server 1", "of the server 2", "it's \\n new"}
    assert {record["title"] for record in read_records(first)} == expected
    assert len((await memory.list(repo="acme/shop"))["records"]) == 4
    await job("three", f"{get}\n{twice('1')}\n{send}")
    await job("four", f"{twice('2')}\n: > records.jsonl\n{send}\nperdure memory status")
    [failed] = (await memory.list(type="verifier_cluster"))["records"]
    assert failed["metadata"]["n"] == "1", "the same failure of two jobs is there once"
    await memory.forget(failed["id"])
    await job("five", f"{get}\n{twice('3')}\n{send}")
    assert (await memory.list(type="verifier_cluster"))["records"] == [], "what was forgotten stays so"
    second = await job("two", get.replace("limit=500", "limit=2"))
    assert {record["title"] for record in read_records(second)} == expected
