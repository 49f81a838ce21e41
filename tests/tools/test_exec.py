"""What `exec` tells of a program that ends, and what it gives it."""

import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest

from perdure.errors import Invalid, PerdureError
from perdure.tools.exec.exec import ExecTool
from perdure.tools.exec.pidfiles import note_path
from tests.tools.calls import CALL, GOAL, Fifo, begin, call, code_of, exec_tool, notes, python, shell

EMPTY = {"exit_code": None, "stdout": "", "stderr": "", "stdout_truncated": False, "stderr_truncated": False}


async def stdout(tool: ExecTool, workdir: Path, arguments: dict[str, Any], **more: Any) -> str:
    outcome = await tool.run(call(workdir, arguments, **more))
    assert outcome.ok, outcome
    return str(outcome.output["stdout"])


async def test_a_program_reports_what_it_wrote_and_how_it_ended(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, shell("echo out; echo err >&2")))
    assert outcome.ok
    assert outcome.call_id == CALL
    assert outcome.error is None
    assert outcome.output == {**EMPTY, "exit_code": 0, "stdout": "out\n", "stderr": "err\n"}


async def test_the_duration_is_that_of_the_program(tool: ExecTool, workdir: Path, told: Fifo, gate: Fifo) -> None:
    before = time.monotonic()
    task, _ = await begin(tool, call(workdir, shell("echo $$ >pid; read x <gate")), told)
    begun = time.monotonic()
    assert await stdout(tool, workdir, shell("echo another"), call_id="c2") == "another\n"
    let_go = time.monotonic()
    gate.let_go()
    duration_ms = (await task).duration_ms
    assert (let_go - begun) * 1000 - 1 <= duration_ms <= (time.monotonic() - before) * 1000 + 1


async def test_an_exit_code_that_is_not_zero_is_a_failure_with_its_output(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, shell("echo half; exit 3")))
    assert code_of(outcome) == "exit"
    assert outcome.output == {**EMPTY, "exit_code": 3, "stdout": "half\n"}


async def test_a_program_that_is_killed_names_the_signal(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, shell("kill -9 $$")))
    assert code_of(outcome) == "signal"
    assert outcome.output["exit_code"] == -9
    assert outcome.error is not None
    assert "SIGKILL" in outcome.error.message


@pytest.mark.parametrize("program", ["no-such-program", "./no-such-program", "/no/such/program", "-no", "a=b"])
async def test_a_program_that_is_not_there_is_not_found(tool: ExecTool, workdir: Path, program: str) -> None:
    outcome = await tool.run(call(workdir, {"argv": [program]}))
    assert code_of(outcome) == "not_found"
    assert outcome.output == EMPTY


@pytest.mark.parametrize("program", ["./plain", "./folder", "plain"])
async def test_what_cannot_be_executed_is_denied(tool: ExecTool, workdir: Path, program: str) -> None:
    (workdir / "plain").write_text("#!/bin/sh\n")
    (workdir / "folder").mkdir()
    outcome = await tool.run(call(workdir, {"argv": [program], "env": {"PATH": str(workdir)}}))
    assert code_of(outcome) == "denied"


@pytest.mark.parametrize("name", ["-e", "--", "with space", "a=b", "$(x)"])
async def test_a_program_may_have_an_odd_name(tool: ExecTool, workdir: Path, name: str) -> None:
    (workdir / name).write_text("#!/bin/sh\necho ran $1\n")
    (workdir / name).chmod(0o755)
    path = f"{workdir}:{os.environ['PATH']}"
    assert await stdout(tool, workdir, {"argv": [name, "x"], "env": {"PATH": path}}) == "ran x\n"
    assert await stdout(tool, workdir, {"argv": [f"./{name}", "x"]}) == "ran x\n"


async def test_arguments_reach_the_program_unchanged(tool: ExecTool, workdir: Path) -> None:
    odd = ["", " ", "a b", "'", '"', "$HOME", "`id`", "*", "-n", "\n", "é\\", ";"]
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    arguments = python(program)
    arguments["argv"] += odd
    assert orjson.loads(await stdout(tool, workdir, arguments)) == odd


async def test_a_program_is_called_by_the_name_that_was_given(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, {"argv": ["ls", "no-such-file"]}))
    assert outcome.output["stderr"].startswith("ls: ")


async def test_standard_input_is_empty(tool: ExecTool, workdir: Path) -> None:
    assert await stdout(tool, workdir, {"argv": ["cat"]}) == ""


async def test_the_environment_is_ours_then_the_calls_then_the_minds(
    tool: ExecTool, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("A", "B", "C"):
        monkeypatch.setenv(name, "ours")
    arguments = shell("echo $A $B $C", env={"B": "call", "C": "call"})
    assert await stdout(tool, workdir, arguments, environment={"C": "mind"}) == "ours call mind\n"


async def test_a_program_knows_its_goal_and_its_key(tool: ExecTool, workdir: Path) -> None:
    forged = {"PERDURE_IDEMPOTENCY_KEY": "forged", "PERDURE_STEP_KEY": "forged", "PERDURE_GOAL_ID": "forged"}
    arguments = shell("echo $PERDURE_IDEMPOTENCY_KEY $PERDURE_STEP_KEY $PERDURE_GOAL_ID", env=forged)
    said = await stdout(tool, workdir, arguments, environment=forged)
    assert said == f"{GOAL}/{CALL} {GOAL}/a {GOAL}\n"


async def test_a_variable_whose_name_no_shell_knows_reaches_the_program(tool: ExecTool, workdir: Path) -> None:
    program = "import os; print(os.environ['a.b'])"
    assert await stdout(tool, workdir, python(program, env={"a.b": "x y"})) == "x y\n"


async def test_a_zero_byte_that_an_earlier_step_wrote_does_no_harm(tool: ExecTool, workdir: Path) -> None:
    assert await stdout(tool, workdir, shell("echo $X"), environment={"X": "a\0b"}) == "ab\n"


async def test_nothing_of_ours_is_open_in_the_program(tool: ExecTool, workdir: Path) -> None:
    program = "import os; print([fd for fd in range(3, 100) if os.path.exists(f'/dev/fd/{fd}')])"
    assert await stdout(tool, workdir, python(program)) == "[]\n"


async def test_a_program_runs_in_the_folder_that_was_asked_for(tool: ExecTool, workdir: Path) -> None:
    (workdir / "inner").mkdir()
    assert await stdout(tool, workdir, shell("pwd; echo $PWD", cwd="inner")) == f"{workdir}/inner\n" * 2


@pytest.mark.parametrize("cwd", ["..", "/", "link", "inner/../..", "missing", "file", "", "a\0b", "x" * 5000, 7])
async def test_a_folder_outside_or_none_at_all_is_invalid(tool: ExecTool, workdir: Path, cwd: object) -> None:
    (workdir / "inner").mkdir()
    (workdir / "file").touch()
    (workdir / "link").symlink_to("/")
    outcome = await tool.run(call(workdir, shell("touch ran", cwd=cwd)))
    assert code_of(outcome) == "invalid"
    assert not (workdir / "ran").exists()


HOSTILE: list[Any] = [
    None,
    [],
    "echo",
    {},
    {"argv": None},
    {"argv": []},
    {"argv": "echo"},
    {"argv": [""]},
    {"argv": ["echo", 1]},
    {"argv": ["echo", None]},
    {"argv": ["echo", "a\0b"]},
    {"argv": ["echo", "\ud800"]},
    {"argv": {"0": "echo"}},
    {"argv": ["echo"], "shell": "yes"},
    {"argv": ["echo"], "shell": 0},
    {"argv": ["echo", "a"], "shell": True},
    {"argv": ["echo"], "unknown": 1},
    {"argv": ["echo"], "env": []},
    {"argv": ["echo"], "env": {"A": 1}},
    {"argv": ["echo"], "env": {"A=B": "x"}},
    {"argv": ["echo"], "env": {"": "x"}},
    {"argv": ["echo"], "env": {"A": "\0"}},
    {"argv": ["echo"], "check": "true"},
    {"argv": ["echo"], "check": []},
    *({"argv": ["echo"], "timeout_s": value} for value in (0, -1, "1", True, float("nan"), float("inf"), 10**400)),
]


@pytest.mark.parametrize("arguments", HOSTILE, ids=lambda arguments: repr(arguments)[:50])
async def test_wrong_arguments_are_an_outcome(tool: ExecTool, workdir: Path, arguments: Any) -> None:
    outcome = await tool.run(call(workdir, arguments))
    assert code_of(outcome) == "invalid"
    assert outcome.output == EMPTY


@pytest.mark.parametrize("arguments", HOSTILE, ids=lambda arguments: repr(arguments)[:50])
def test_wrong_arguments_are_refused_before_anything_is_recorded(tool: ExecTool, arguments: Any) -> None:
    with pytest.raises(Invalid):
        tool.validate(arguments)


@pytest.mark.parametrize("cwd", ["", "a\0b", "\ud800", "x" * 5000, 7])
def test_a_folder_that_can_be_none_is_refused_before_anything_is_recorded(tool: ExecTool, cwd: object) -> None:
    with pytest.raises(Invalid):
        tool.validate({"argv": ["true"], "cwd": cwd})


def test_arguments_that_make_sense_are_valid_wherever_they_lead(tool: ExecTool, run_dir: Path) -> None:
    tool.validate({"argv": ["no-such-program"], "shell": True, "timeout_s": 1, "env": {"A": "b"}, "check": ["true"]})
    tool.validate({"argv": ["true"], "cwd": "../no-such-folder", "shell": None, "check": None})
    assert not run_dir.exists()


@pytest.mark.parametrize("given", ["argv", "environment"])
async def test_more_than_the_system_takes_is_a_clear_failure(tool: ExecTool, workdir: Path, given: str) -> None:
    huge = ["x" * 100_000] * 100
    arguments = {"argv": ["touch", "ran", *(huge if given == "argv" else ())]}
    environment = {f"X{number}": value for number, value in enumerate(huge if given == "environment" else ())}
    outcome = await tool.run(call(workdir, arguments, environment=environment))
    assert code_of(outcome) == "invalid"
    assert outcome.error is not None
    assert "more than this system gives to a program" in outcome.error.message
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize("call_id", ["a\0b", "\ud800"])
async def test_a_call_whose_name_cannot_be_passed_to_a_program_is_invalid(
    tool: ExecTool, workdir: Path, call_id: str
) -> None:
    assert code_of(await tool.run(call(workdir, shell("true"), call_id=call_id))) == "invalid"
    await tool.reap(GOAL, call_id)


async def test_bytes_that_are_not_utf_8_are_replaced(tool: ExecTool, workdir: Path) -> None:
    assert await stdout(tool, workdir, shell(r"printf 'a\377b'")) == "a\ufffdb"


async def test_a_long_output_keeps_its_head_and_its_tail(tool: ExecTool, workdir: Path) -> None:
    text = "".join(f"{number}\n" for number in range(300_000))
    outcome = await tool.run(call(workdir, {"argv": ["seq", "0", "299999"]}))
    half = 1 << 19
    left_out = len(text) - 2 * half
    assert outcome.output["stdout"] == f"{text[:half]}\n[{left_out} bytes left out]\n{text[-half:]}"
    assert outcome.output["stdout_truncated"]
    assert not outcome.output["stderr_truncated"]


async def test_an_output_of_exactly_the_limit_is_whole(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, shell("head -c 1048576 /dev/zero | tr '\\0' x >&2")))
    assert outcome.output["stderr"] == "x" * (1 << 20)
    assert not outcome.output["stderr_truncated"]


async def test_no_character_is_cut_in_two(tool: ExecTool, workdir: Path) -> None:
    outcome = await tool.run(call(workdir, python("print('x' + 'é' * 600_001 + 'y', end='')")))
    text = outcome.output["stdout"]
    assert "\ufffd" not in text
    kept = len(text.encode()) - len(f"\n[{1_200_004 - (1 << 20)} bytes left out]\n".encode())
    assert kept + int(text.partition("[")[2].partition(" ")[0]) == 1_200_004


async def test_memory_stays_bounded_when_a_program_writes_100_mb(tool: ExecTool, workdir: Path) -> None:
    tracemalloc.start()
    try:
        outcome = await tool.run(call(workdir, {"argv": ["head", "-c", "100000000", "/dev/zero"]}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome.ok
    assert f"[{100_000_000 - (1 << 20)} bytes left out]" in outcome.output["stdout"]
    assert peak < 16_000_000


async def test_a_note_stands_while_the_program_runs_and_goes_with_it(
    tool: ExecTool, workdir: Path, run_dir: Path
) -> None:
    note = note_path(run_dir, GOAL, CALL)
    outcome = await tool.run(call(workdir, shell(f"echo $$; cat {note}; ls -l {note}")))
    pid, _, rest = outcome.output["stdout"].partition("\n")
    assert f'"pid":{pid},' in rest
    assert "-rw------- " in rest
    assert notes(run_dir) == []


async def test_the_folder_of_notes_goes_with_the_tool(run_dir: Path, workdir: Path) -> None:
    tool = exec_tool(run_dir)
    for number in range(100):
        await tool.run(call(workdir, {"argv": ["true"]}, goal_id=f"goal-{number}"))
        assert len(list(run_dir.iterdir())) <= 64
    del tool
    assert list(run_dir.iterdir()) == []


async def test_a_program_that_cannot_be_noted_never_starts(tool: ExecTool, workdir: Path, run_dir: Path) -> None:
    run_dir.parent.mkdir()
    run_dir.write_text("in the way")
    outcome = await tool.run(call(workdir, shell("touch ran")))
    assert code_of(outcome) == "unavailable"
    assert not (workdir / "ran").exists()


ODD = ["a/b", "../../x", "..", ".", "", "#1", "x" * 5000, "é", "A", "a b", "\n", "g1.0/fetch#2"]


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_odd_names_stay_inside_the_folder_of_notes(run_dir: Path, odd: str) -> None:
    path = note_path(run_dir, odd, odd)
    assert path.resolve() == run_dir.resolve() / path.parent.name / path.name
    assert len(path.name) < 200


async def test_different_calls_have_different_notes(run_dir: Path) -> None:
    names = [*ODD, "a", "a-b", "a_b", "a//b"]
    assert len({str(note_path(run_dir, GOAL, name)).lower() for name in names}) == len(names)


@pytest.mark.parametrize("odd", ["a/b#1", "../../x", "x" * 5000])
async def test_a_call_with_an_odd_name_runs(tool: ExecTool, workdir: Path, run_dir: Path, odd: str) -> None:
    arguments = shell("echo $PERDURE_IDEMPOTENCY_KEY")
    assert await stdout(tool, workdir, arguments, goal_id=odd, call_id=odd) == f"{odd}/{odd}\n"
    assert notes(run_dir) == []


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (["true"], "happened"),
        (["false"], "not_happened"),
        (None, "unknown"),
    ],
    ids=repr,
)
async def test_a_check_answers_by_its_exit_code(tool: ExecTool, workdir: Path, check: Any, answer: str) -> None:
    arguments = {"argv": ["touch", "ran"], "check": check, "timeout_s": 0.3}
    assert await tool.check(call(workdir, arguments)) == answer
    assert not (workdir / "ran").exists()


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (["sh", "-c", "exit 2"], "exit code 2"),
        (["sh", "-c", "kill -1 $$"], "SIGHUP"),
        (["no-such-program"], "no program 'no-such-program'"),
        (["sleep", "300"], "longer than 0.3 s"),
        ("true", "list of strings"),
    ],
    ids=repr,
)
async def test_a_check_that_cannot_tell_says_why(tool: ExecTool, workdir: Path, check: Any, said: str) -> None:
    arguments = {"argv": ["touch", "ran"], "check": check, "timeout_s": 0.3}
    with pytest.raises(PerdureError, match=said):
        await tool.check(call(workdir, arguments))
    assert not (workdir / "ran").exists()


async def test_a_check_is_never_given_to_a_shell(tool: ExecTool, workdir: Path) -> None:
    assert await tool.check(call(workdir, shell("true", check=["test", "-d", "."]))) == "happened"
    with pytest.raises(PerdureError, match="no program 'test -d .'"):
        await tool.check(call(workdir, shell("true", check=["test -d ."])))


async def test_a_check_runs_where_and_how_the_call_would(tool: ExecTool, workdir: Path) -> None:
    (workdir / "inner").mkdir()
    line = f'test "$(pwd) $A $PERDURE_IDEMPOTENCY_KEY" = "{workdir}/inner b {GOAL}/{CALL}"'
    arguments = shell("true", check=["sh", "-c", line], cwd="inner", env={"A": "b"})
    assert await tool.check(call(workdir, arguments)) == "happened"
