"""What the shell offers, and that it never disturbs the prompt."""

from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from perdure.settings import load_settings
from tests.interfaces.cli.interviews import coding, forged
from tests.interfaces.cli.terminal import Terminal


def offered(
    typed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shell: str = "bash"
) -> list[str]:
    """Complete the last word of what was typed."""
    monkeypatch.setenv("_PERDURE_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
    with pytest.raises(SystemExit) as ended:
        run([])
    monkeypatch.delenv("_PERDURE_COMPLETE")
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "")
    return out.split("\n")[:-1]


@pytest.fixture
def goal(perdure: Terminal) -> str:
    Path("plan.yaml").write_text(
        "goal: '[/b] ask'\nsteps:\n  - {id: try, exec: [sh, -c, 'exit 3'], retry: {attempts: 2}}\n"
        "  - {id: sure, ask: {question: 'Go?'}}\n"
    )
    assert perdure("run", "--plan", "plan.yaml") in {1, 5}
    return perdure.newest()


def test_ids_of_goals_are_offered_with_their_text_where_the_shell_shows_it(
    goal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("show", "answer", "fork", "watch", "cancel"):
        assert offered(f"perdure goal {verb} ", monkeypatch, capsys) == [goal]
    assert offered(f"perdure goal show {goal[:20]}", monkeypatch, capsys) == [goal]
    assert offered("perdure goal show x", monkeypatch, capsys) == [""]
    (line,) = offered("perdure goal show ", monkeypatch, capsys, "zsh")
    assert goal in line
    assert "(/b) ask" in line


def test_nothing_is_offered_for_a_server(
    goal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = load_settings().home
    assert offered("perdure goal show --url http://127.0.0.1:1 ", monkeypatch, capsys) == [""]
    monkeypatch.setenv("PERDURE_URL", "http://127.0.0.1:1")
    assert offered("perdure goal show ", monkeypatch, capsys) == [""]
    assert offered(f"perdure goal show --home {home} ", monkeypatch, capsys) == [goal]


def test_steps_and_open_calls_of_the_goal_are_offered(
    goal: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = offered(f"perdure goal show {goal} --output ", monkeypatch, capsys)
    assert {"try", "sure", "try.1", "try.2"} == set(words)
    assert offered(f"perdure goal answer {goal} ", monkeypatch, capsys) == ["sure.1"]
    assert offered(f"perdure goal decide {goal} s", monkeypatch, capsys) == ["sure.1"]


def test_tags_of_goals_are_offered_once(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    perdure("run", "--tag", "nightly", "--tag", "eu", "--", "true")
    perdure("run", "--tag", "nightly", "--", "true")
    for command in ("goal list", "goal cancel", "run true"):
        assert set(offered(f"perdure {command} --tag ", monkeypatch, capsys)) == {"nightly", "eu"}
    assert offered("perdure goal list --tag n", monkeypatch, capsys) == ["nightly"]


def test_statuses_and_slugs_of_bots_are_offered(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered("perdure goal list --status fa", monkeypatch, capsys) == ["failed"]
    forged(perdure, answers=coding())
    assert offered("perdure bot show ", monkeypatch, capsys) == ["ada"]
    assert offered("perdure goal list --bot a", monkeypatch, capsys) == ["ada"]


@pytest.mark.parametrize("typed", ["goal show ", "bot show ", "goal answer some-goal ", "goal show g --output "])
def test_without_a_home_nothing_is_offered_made_or_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "none"))
    assert offered(f"perdure {typed}", monkeypatch, capsys) == [""]
    assert not (tmp_path / "none").exists()


def test_a_broken_home_is_silent(
    ready: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database = ready.parent / "home" / "perdure.db"
    database.write_text("This is not a database. " * 100)
    assert offered("perdure goal show ", monkeypatch, capsys) == [""]
