"""The suite under `nohup`, and as a background command of a shell: signals that its parent ignores."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INNER = f"{Path(__file__).relative_to(ROOT)}::test_a_program_that_the_suite_starts_ignores_no_signal"


def _ignore() -> None:
    for kind in (signal.SIGINT, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGHUP])
def test_a_program_that_the_suite_starts_ignores_no_signal(kind: signal.Signals) -> None:
    program = f"import signal; print(signal.getsignal({int(kind)}) is signal.SIG_IGN)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


def test_the_same_is_true_when_the_parent_of_the_suite_ignores_signals(tmp_path: Path) -> None:
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}", INNER]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        preexec_fn=_ignore,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
