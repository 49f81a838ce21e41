"""The page about the memory of bots: its commands run in order, against the scripted server."""

import os
import subprocess
import sys
from pathlib import Path

from perdure.settings import load_settings
from tests.test_docs import ROOT, blocks

PAGE = (ROOT / "docs/how-to/give-a-bot-memory.md").read_text()


def test_the_commands_of_the_page_run_in_order(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "\n".join([*blocks(PAGE, "sh"), "kill $!"])
    ended = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "OPENAI_API_KEY": "key-for-a-test"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = ended.stdout
    assert "The cart shows old prices because they are cached." in said
    assert said.count("Prices come from the cache") == 2, "it is listed, and pinned"
    assert "from bot:assistant, pinned" in said
    assert "of 4,096 bytes are used." in said
    assert said.rstrip().endswith("Clear the cache first.")


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    (config,) = blocks(PAGE, "toml")
    (tmp_path / "config.toml").write_text(config)
    assert load_settings({"home": str(tmp_path)}, {}).policy == {
        "preset": "ask",
        "rules": [{"tool": "remember", "verdict": "allow"}],
    }
