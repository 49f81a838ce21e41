"""What is printed of what the tools wrote."""

import pytest

from tests.interfaces.cli.terminal import Terminal

MORE = "head -c 1100000 /dev/zero | tr '\\0' a"


@pytest.mark.parametrize(("command", "name"), [(MORE, "stdout"), (f"({MORE}) >&2", "stderr")])
def test_it_is_said_how_much_of_an_output_is_missing(perdure: Terminal, command: str, name: str) -> None:
    assert perdure("run", "--shell", command) == 0
    assert f"\nstep command: 51424 bytes of its {name} were dropped" in perdure.err
    perdure("run", "--resume", perdure.newest())
    assert f"\nstep command: 51424 bytes of its {name} were dropped" in perdure.err
