"""Other processes see whether a server runs on a home, also after it was killed."""

from pathlib import Path

import httpx
import pytest

from perdure.app.home.server_mark import is_served, server_urls
from tests.crash import program


def test_a_home_is_served_until_its_server_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not is_served(home)
    started = program.start(home, tmp_path, ["serve", "--port", "0"])
    try:
        started.wait_for("Ctrl-C stops the server.")
        assert is_served(home)
        [url] = server_urls(home)
        assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    finally:
        started.kill()
    assert not is_served(home)
    assert server_urls(home) == []


@pytest.mark.parametrize("point", ["store.create.before", "store.create.after", "store.migrate.commit.after"])
def test_sigterm_while_a_server_starts_ends_it_with_0(tmp_path: Path, point: str) -> None:
    home = tmp_path / "home"
    code, said = program.start(home, tmp_path, ["serve", "--port", "0"], terminated_at=point).end()
    assert (code, "Serving" in said, "Interrupted" in said) == (0, False, False)
    code, said = program.start(home.with_name("other"), tmp_path, ["run", "--", "true"], terminated_at=point).end()
    assert (code, "Interrupted" in said) == (130, True)
