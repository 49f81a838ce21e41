"""Other processes see whether a server runs on a home, also after it was killed."""

from pathlib import Path

from perdure.app.server_mark import is_served
from tests.crash import program


def test_a_home_is_served_until_its_server_is_gone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not is_served(home)
    started = program.start(home, tmp_path, ["serve", "--port", "0"])
    try:
        started.wait_for("Ctrl-C ends the server.")
        assert is_served(home)
    finally:
        started.kill()
    assert not is_served(home)
