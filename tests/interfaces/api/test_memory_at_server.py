"""A memory that jobs of a CI share at a server: the lines of the page, against a server that runs."""

import os
import re
import sys
from pathlib import Path

import pytest

from perdure.app.access.token import read_token
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_server import HOW_TO, run

PAGE = HOW_TO.with_name("memory-in-github-actions.md")
REPORT = """<testsuite><testcase classname="tests.test_cart" name="test_total" file="tests/test_cart.py">
<failure message="assert 1 == 2">AssertionError</failure></testcase></testsuite>"""


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


async def test_what_one_job_sends_another_one_gets(server: Running, tmp_path: Path) -> None:
    *_, show, feed = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    memory = server.surface.p.memory

    async def job(name: str, lines: str) -> Path:
        work = tmp_path / name
        work.mkdir()
        (work / "report.xml").write_text(REPORT)
        (work / "paths").write_text("tests/test_cart.py\n")
        (work / "body.md").write_text("My change.\n")
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "REPO": "acme/shop",
            "REPORTS": "report.xml",
            "SHA": "abc1234",
            "PERDURE_URL": server.url,
            "PERDURE_TOKEN": read_token(server.surface.p.settings.home),
            "WORK": str(work),
            "PERDURE_HOME": str(tmp_path / "elsewhere"),
        }
        await run(environment, work, "bash", "-e", "-o", "pipefail", "-c", lines)
        return work / "body.md"

    await job("one", f"{feed}\n{feed}")
    await job("two", feed)
    [failed] = (await memory.list(repo="acme/shop"))["records"]
    assert "### Memory: related history" in (await job("three", show)).read_text()
    await memory.forget(failed["id"])
    await job("four", feed)
    assert (await memory.list())["records"] == [], "what was forgotten stays so"
    assert (await job("five", show)).read_text() == "My change.\n"
