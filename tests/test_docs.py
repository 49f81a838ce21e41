"""The docs cannot drift: generated pages are current, links lead somewhere, and what is shown runs."""

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import perdure
import perdure.store
from perdure.interfaces.cli.errors import run
from perdure.minds.plan.plan import Condition
from perdure.minds.plan.plan_file import ONLY_FOR, STEP_KEYS, parse_plan
from perdure.minds.retry import KEYS, Retry
from perdure.setting_definitions import DEFINITIONS
from perdure.settings import MemorySettings, load_settings
from perdure.testing import TemporaryHome
from scripts.write_reference import PAGES, text_of
from tests.interfaces.cli.on_terminal import DOWN, ENTER, Program
from tests.memory.repositories import GitRepository

ROOT = Path(__file__).parent.parent
CONFIRMATION = "src/perdure/interfaces/cli/forge/prompts.py"
DOCS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_generated_page_is_current(page: Path) -> None:
    assert page.read_text() == text_of(page), "run `make reference`"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_are_there(page: Path) -> None:
    for name in re.findall(r"`((?:tests|src|store|docs)/[a-z_/.-]+)`", page.read_text()):
        assert (ROOT / name).exists() or (ROOT / "src" / "perdure" / name).exists(), name


def public_members(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_") and name not in getattr(kind, "__slots__", ())]


@pytest.mark.parametrize(
    ("kind", "called"),
    [(perdure.Goal, "goal"), (perdure.CallOptions, "options"), (perdure.GoalHandle, "handle"), (TemporaryHome, "p")],
)
def test_every_method_of_what_a_flow_uses_is_in_the_python_reference(kind: type, called: str) -> None:
    page = (ROOT / "docs/reference/python.md").read_text()
    internal = {"next_due_us", "wake"} if kind is TemporaryHome else set()
    missing = [name for name in public_members(kind) if f"### `{called}.{name}`\n" not in page]
    assert sorted(missing) == sorted(internal)


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/python.md").read_text() + (ROOT / "docs/reference/errors.md").read_text()
    assert [name for name in perdure.__all__ if not re.search(rf"`(perdure\.)?{name}`", page)] == []


def test_the_python_reference_has_the_types_that_a_type_checker_sees() -> None:
    page = (ROOT / "docs/reference/python.md").read_text()
    for signature in (
        "await goal.step(fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T\n",
        "await goal.child(flow: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T\n",
        "await p.goals.run(what: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> GoalResult[T]\n",
        "await p.goals.start(what: Flow[P, T], /, *args: P.args, **kwargs: P.kwargs) -> GoalHandle[T]\n",
        "wait(awaitable: Awaitable[T], /) -> T\n",
    ):
        assert signature in page, signature


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs/reference/settings.md").read_text()
    for definition in DEFINITIONS:
        assert f"`{definition.name}`" in text
        assert all(f"`{variable}`" in text for variable in definition.environment)


def test_the_readme_shows_the_two_commands_first() -> None:
    assert blocks((ROOT / "README.md").read_text(), "sh")[0] == "make demo\nmake test\n"


def newest_goal(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert run(["goal", "list", "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["goals"][0]["id"])


def test_every_command_of_the_readme_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks((ROOT / "README.md").read_text(), "sh")[1:]).splitlines()
    assert len(lines) > 5
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "perdure"
        arguments = [newest_goal(capsys) if word == "ID" else word for word in words]
        assert run(arguments) == 0, line
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert (said == "") is (arguments[0] != "run" or "--list" in arguments), (
            "only a run tells how it went beside its output"
        )
    assert (tmp_path / "user" / "perdure.tar.gz").exists()


def test_the_python_of_the_page_about_the_database_works(tmp_path: Path) -> None:
    programs = blocks((ROOT / "docs/how-to/use-the-database.md").read_text(), "python")
    for program, expected in zip(programs, ("['a']\n", "[]\n1\n"), strict=True):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(expected)


def test_the_page_about_the_database_names_what_the_package_of_stores_has() -> None:
    page = (ROOT / "docs/how-to/use-the-database.md").read_text()
    named = [name for line in page.splitlines() if line.startswith("| ") for name in re.findall(r"`(\w+)`", line)]
    assert len(named) > 25
    assert [name for name in named if name not in perdure.store.__all__] == []
    adapters = [name for name in perdure.store.__all__ if re.match(r"Sql|Postgres|InMemory", name)]
    assert [name for name in adapters if name not in named] == []


@pytest.fixture
def folder(tmp_path: Path, migrated_sqlite: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder to work in, beside a home with a new database."""
    (tmp_path / "home").mkdir(mode=0o700)
    shutil.copy(migrated_sqlite, tmp_path / "home" / "perdure.db")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    return tmp_path / "folder"


def killed_when(is_so: Callable[[], bool], program: list[str]) -> None:
    """Run a program, and kill it with SIGKILL when something is so."""
    running = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not is_so() and running.poll() is None:
        select.select([], [], [], 0.01)
    running.kill()
    assert running.wait() == -signal.SIGKILL


def test_the_flow_of_the_readme_is_ten_lines_and_survives_kill_9(folder: Path) -> None:
    (text,) = blocks((ROOT / "README.md").read_text(), "python")
    (folder / "bill.py").write_text(text)
    flow = text[text.index("def charge") : text.index("async def main")]
    assert len([line for line in flow.splitlines() if line]) == 10
    program = [sys.executable, "bill.py"]
    killed_when((folder / "ann").exists, program)
    assert not (folder / "bob").exists(), "it was killed in the middle of its first step"
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "charged ann and bob\n"
    assert sorted(path.name for path in folder.iterdir()) == ["ann", "bill.py", "bob"]
    again = subprocess.run(program, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout


def normal(text: str) -> list[str]:
    """Return the lines of an output without what is another each time: ids, times, how long something took."""
    for what, instead in (
        (r"\d{8}-\d{6}-order-[a-z2-7]{6}", "ID"),
        (r"\b\d{8}-\d{6}\b", "PREFIX"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \(\d+[smh] ago\)", "STARTED"),
        (r"\b\d\d:\d\d:\d\d\b", "AT"),
        (r"^folder +\S+$", "folder FOLDER"),
        (r"\b[\d.]+ m?s\b", "TOOK"),
        (r" +", " "),
    ):
        text = re.sub(what, instead, text, flags=re.MULTILINE)
    return [line.strip() for line in text.splitlines()]


def test_the_flow_of_the_tutorial_does_and_prints_what_the_tutorial_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, _, _ = (ROOT / "docs/tutorial.md").read_text().partition("## A bot from one sentence")
    (text,) = blocks(page, "python")
    (folder / "orders.py").write_text(text)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    printed = [line for block in blocks(page, "console") for line in normal(block)]
    commands = [line for line in printed if line.startswith("$ ")]
    on_page = [line for line in printed if line not in commands]
    said: list[str] = []

    def shown_on_page(*words: str, then: str = "") -> tuple[str, ...]:
        assert normal(f"$ perdure {shlex.join(words)}{then}")[0] in commands
        return words

    def prints(*words: str) -> str:
        code = run(shown_on_page(*words))
        out, err = capsys.readouterr()
        said.extend(normal(out) + normal(err))
        assert code == (5 if "--no-input" in words else 0), err
        return str(out)

    prints("run", "--no-input", "--flow", "orders:order", "--args", '["lamp", "table"]')
    goal_id = newest_goal(capsys)
    shipped = folder / "shipped.txt"
    killed_when(
        lambda: shipped.exists() and shipped.read_text() == "lamp\n",
        [sys.executable, "-m", "perdure", *shown_on_page("goal", "answer", goal_id, "yes", "--resume", then=" &")],
    )
    prints("goal", "show", goal_id[:15])
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert prints("run", "--continue").endswith("shipped lamp, table\n")
    assert shipped.read_text() == "lamp\ntable\n"
    printed_by_the_killed = ["Recorded: answer 'yes'.", "goal ID: resumed after event 5", "step /ship#0: started"]
    first = on_page[: on_page.index("ID: done") + 1]
    assert [line for line in said if line not in first] == []
    fork = shown_on_page("goal", "fork", goal_id, "--before", "ask", "--resume")
    on_terminal = Program(fork, folder.parent / "out")
    asked = on_terminal.until("keeps waiting")
    on_terminal.press(DOWN, ENTER)
    code, shown, out = on_terminal.end()
    on_terminal.close()
    assert (code, out) == (0, "not shipped\n")
    said.extend(normal(asked) + normal(shown) + normal(out))
    of_files = shipped.read_text().split()
    assert [line for line in on_page if line not in (*said, *printed_by_the_killed, *of_files)] == []


def test_the_flow_of_the_how_to_is_that_of_the_example() -> None:
    text = (ROOT / "docs/how-to/write-a-flow.md").read_text()
    flow = (ROOT / "examples/nightly_report.py").read_text()
    shown = next(block for block in blocks(text, "py") if "async def nightly" in block)
    assert shown in flow


def test_the_walkthrough_of_a_retry_exits_and_prints_as_it_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/how-to/retry-a-failed-goal.md").read_text()
    (folder / "labels.py").write_text(blocks(page, "python")[0])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (lines,) = blocks(page, "sh")
    for line in lines.splitlines():
        command, _, says = line.partition("# exit ")
        goal_id = newest_goal(capsys) if "ID" in command else ""
        program, *words = shlex.split(command.replace("ID", goal_id))
        if program == "perdure":
            assert run(words) == int(says[0]), line
            printed = capsys.readouterr().out
        else:
            printed = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
        for expected in re.findall(r'prints "([^"]+)"', says):
            assert printed == f"{expected}\n", line
    assert run(["goal", "show", newest_goal(capsys), "--json"]) == 0
    calls = json.loads(capsys.readouterr().out)["timeline"]
    retried = [call["call_id"] for call in calls if call["step"] == "/print_label#0"]
    assert retried == ["/print_label#0.1", "/print_label#0.2"]
    assert all(f"`{call_id}`" in page for call_id in retried)


def test_the_answers_of_the_how_to_make_the_bot_that_it_shows(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/how-to/forge-a-bot.md").read_text()
    (answers,) = blocks(page, "json")
    (folder / "answers.json").write_text(answers)
    (shown,) = blocks(page, "console")
    command, _, output = shown.partition("\n")
    assert run(shlex.split(command.removeprefix("$ perdure "))) == 0
    assert capsys.readouterr().out.replace(str(folder.parent / "home"), "/tmp/perdure") == output
    monkeypatch.setattr("sys.stdin", None)
    lines = blocks(page, "sh")[1].splitlines()
    (folder / "my-skill").mkdir()
    (folder / "my-skill/SKILL.md").write_text("---\nname: my-skill\ndescription: Mine.\n---\nDo it.\n")
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        assert run([*words, *(["--yes"] if "delete" in words else [])]) == 0, line


def test_the_five_results_of_the_how_to_are_what_is_made_today(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_HOST", "PERDURE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    results = blocks((ROOT / "docs/how-to/forge-a-bot.md").read_text(), "text")
    assert len(results) == 5
    for result in results:
        command, shows, files = result.split("\n", 2)
        assert run(shlex.split(command.removeprefix("$ perdure "))) == 0
        paths = shows.removeprefix("$ cat ").split()
        assert "".join((folder.parent / "home" / path).read_text() for path in paths) == files
    capsys.readouterr()


def test_the_bot_of_the_tutorial_is_changed_as_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/tutorial.md").read_text()
    answers = [
        {"free_text": "Ada"},
        *[{"option_index": 0}, {"option_index": 0}],
        {"option_index": 1},
        {"option_index": 1},
    ]
    (folder / "answers.json").write_text(json.dumps(answers))
    assert run(["new", "I want a coding assistant", "--answers", "answers.json", "--yes"]) == 0
    (change,) = blocks(page, "json")
    (folder / "change.json").write_text(change)
    soul = folder.parent / "home/bots/ada/SOUL.md"
    soul.write_text(f"{soul.read_text()}- Greet Grace first.\n")
    capsys.readouterr()
    shown = next(block for block in blocks(page, "console") if "--reconfigure ada --answers" in block)
    for part in shown.split("\n$ ")[1:-1]:  # the last one tells times
        command, _, output = part.partition("\n")
        assert run(shlex.split(command.removeprefix("perdure "))) == 0
        printed = capsys.readouterr()
        told = (printed.err + printed.out).replace(str(folder.parent / "home"), "/tmp/perdure")
        assert told.split() == output.split()


def test_the_recording_of_the_wizard_shows_what_is_asked_today(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/wizard.md").read_text()
    shown = " ".join(re.sub(r"»|\[[ x]\]", " ", "\n".join(blocks(page, "console"))).split())
    given: list[dict[str, object]] = [
        {"free_text": "Ada"},
        {"option_index": 0},
        {"option_index": 0},
        {"option_index": 1},
        {"option_indexes": [0, 1]},
        {"option_index": 0},
        {"option_index": 0},
    ]
    for number in range(len(given)):
        (folder / "answers.json").write_text(json.dumps(given[:number]))
        assert run(["new", "I want a coding assistant", "--answers", "answers.json", "--json"]) == 2
        turn = json.loads(capsys.readouterr().out)["current"]["turn"]
        assert turn["question"] in shown
        for option in turn["options"]:
            assert f"{option['label']} {option['description']}" in shown
        if turn["question"] == "What should it do most of the time?":
            assert turn["help"] in shown, "? explains it"
    choices = re.findall(r"Choice\(\"(\w+)\", \"(\w+)\"\)", (ROOT / CONFIRMATION).read_text())
    assert choices, "the confirmation at the end is asked there"
    assert all(f"{label} {why}" in shown for label, why in choices)


def test_the_plan_of_the_how_to_is_a_plan() -> None:
    (plan,) = blocks((ROOT / "docs/how-to/run-a-plan.md").read_text(), "yaml")
    steps = parse_plan(plan, "report.yaml").steps
    assert [step.id for step in steps] == ["fetch", "sure", "send"]
    assert steps[2].condition == Condition("sure", answer="yes"), "who says no sends nothing"


def test_every_key_of_a_step_is_in_the_reference_and_no_other() -> None:
    text, _, policy = (ROOT / "docs/reference/plans.md").read_text().partition("## Retry")
    rows = re.findall(r"^\| `([a-z]+)` \| ?(.*?) ?\|", text, re.MULTILINE)
    assert sorted(key for key, _ in rows) == sorted(STEP_KEYS)
    for key, kinds in ONLY_FOR.items():
        assert dict(rows)[key] == ", ".join(f"`{kind}`" for kind in kinds)
    assert re.findall(r"^\| `([a-z_]+)` \|", policy, re.MULTILINE) == [*KEYS]


def test_the_retry_policy_of_the_reference_is_one() -> None:
    (line,) = blocks((ROOT / "docs/reference/plans.md").read_text().partition("## Retry")[2], "yaml")
    step = parse_plan(f"goal: g\nsteps:\n  - {{id: a, exec: x, {line.strip()}}}", "p.yaml").steps[0]
    assert step.retry == Retry(5, initial=0.5, factor=2, maximum=300, jitter=0.1, give_up_on="signal", deadline=3600)


PROMISES = (  # the specification of the kernel; the page may not say more or less
    "**Events.** When an append returns, the event is on stable storage (SQLite WAL with `synchronous=FULL`, or"
    " PostgreSQL with `synchronous_commit=on`) and survives a kill of any process; it survives power loss if the"
    " disk honours flush. If the call does not return, the event is wholly present or wholly absent, and repeating"
    " the call with the same key never makes a second one.",
    "**Steps.** A step's outcome is recorded at most once, and a recorded outcome is never executed again.",
    "**Side effects.** Before a tool that is not `pure` runs, its intent is recorded. A tool declared `pure` or"
    " `idempotent` may be executed again after a crash, with the same idempotency key. Any other tool is started"
    " at most once per recorded intent: if we stop between start and record, the step becomes *outcome unknown*"
    " and is not repeated until the tool's own check, the policy or a person decides.",
    "**Single writer.** At most one worker can append to a goal. A worker that lost its lease may still be"
    " running a command; it can no longer record anything, and its process group is ended when it can be reached.",
    "We do not promise exactly-once effects on systems that neither share our transaction nor accept a key.",
)


def test_the_promises_stand_word_for_word() -> None:
    section = (ROOT / "docs/concepts.md").read_text().partition("## Goal guarantees")[2].partition("\n### ")[0]
    quotes = re.findall(r"(?:^> .*\n)+", section, re.MULTILINE)
    assert tuple(" ".join(quote.replace("> ", "").split()) for quote in quotes) == PROMISES


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    for file, name in re.findall(r"`(tests/[a-z_/]+\.py)::([a-z0-9_]+)`", page.read_text()):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{name}"


def test_every_test_that_the_page_about_security_names_exists() -> None:
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", (ROOT / "docs/security.md").read_text()))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 60
    assert named - set(re.findall(r"^(?:async )?def (test_\w+)\(", tests, re.MULTILINE)) == set()


def test_every_promise_names_its_tests() -> None:
    section = (ROOT / "docs/concepts.md").read_text().partition("## Goal guarantees")[2].partition("\n## ")[0]
    promises = re.split(r"^> \*\*", section, flags=re.MULTILINE)[1:]
    assert len(promises) == 4
    assert all("\n- `tests/" in promise for promise in promises)


def test_no_page_names_a_registry_or_a_path_of_a_developers_machine() -> None:
    locks = (ROOT / "requirements").glob("*.txt")
    for page in [*DOCS, *locks, ROOT / "Makefile", ROOT / "pyproject.toml"]:
        assert not re.search(r"--(extra-)?index-url|/simple\b|file://|/home/\w+/|/root/", page.read_text()), page


def shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run lines as a person would, with our program on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-eu", "-c", text],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


REPORT = '<testsuite><testcase name="x" file="tests/test_x.py"><failure/></testcase></testsuite>'


def test_every_command_about_the_memory_works(folder: Path) -> None:
    page = (ROOT / "docs/how-to/remember-and-find.md").read_text()
    repository = GitRepository(folder)
    repository.commit("Cache prices", shop__cart_py="1")
    (folder / "report.xml").write_text(REPORT)
    finding, feeding, keeping = blocks(page, "sh")
    found = shell(folder, finding)
    assert (found.returncode, found.stderr) == (0, "")
    assert "Nothing was found" not in found.stdout
    (shown,) = blocks(page, "text")
    lines = [line for line in shown.splitlines() if "01a1" not in line]
    assert [line for line in lines if line not in found.stdout.splitlines()] == []
    for text in (feeding, keeping):
        done = shell(folder, text)
        assert (done.returncode, done.stderr) == (0, "")
    (program,) = blocks(page, "python")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "The cart caches prices [{'kind': 'path', 'value': 'shop/cart.py'" in done.stdout
    (config,) = blocks(page, "toml")
    (folder.parent / "home" / "config.toml").write_text(config)
    assert load_settings().memory == MemorySettings()


def test_what_is_said_about_a_memory_that_is_switched_off_is_true(folder: Path) -> None:
    told = "add --type fact", "ingest revert", "query --paths a", "related --path a", "search a", "status", "verify"
    for words in told:
        done = shell(folder, f"MEMORY_ENABLED=false perdure memory {words}")
        assert (done.returncode, done.stderr) == (0, ""), words
    assert shell(folder, "MEMORY_ENABLED=false perdure memory import /dev/null").returncode == 4


def test_the_bot_and_the_hook_of_the_page_about_pull_requests_work(folder: Path) -> None:
    page = (ROOT / "docs/how-to/memory-in-pull-requests.md").read_text()
    repository = GitRepository(folder)
    repository.commit("one", README_md="1")
    repository.git("checkout", "-q", "-b", "change")
    printing, bot, feeding, hook = blocks(page, "sh")
    (folder / ".git" / "hooks" / "post-commit").write_text(hook)
    (folder / ".git" / "hooks" / "post-commit").chmod(0o755)
    incident = "perdure memory add --type incident --severity high --title 'Prices are stale in the cart'"
    assert (
        shell(folder, f"{incident} --summary 'The cache outlives a change of prices.' --path shop/cart.py").returncode
        == 0
    )
    (folder / "body.md").write_text("Fixes prices.\n")
    printed = shell(folder, printing)
    assert (printed.returncode, printed.stderr) == (0, "")
    (section,) = blocks(page, "markdown")
    assert [line for line in section.splitlines() if "2026" not in line and line not in printed.stdout] == []
    (folder / "shop").mkdir()
    (folder / "shop" / "cart.py").write_text("2")
    commit = "git add shop && git -c user.name=ann -c user.email=ann commit -q -m change"
    told = shell(folder, commit)
    assert told.returncode == 0
    assert "Prices are stale in the cart" in told.stderr, "the hook tells it"
    (folder / "description.md").write_text("Fixes prices.\n")
    texts = []
    for _ in range(2):
        done = shell(folder, bot)
        assert (done.returncode, done.stderr) == (0, "")
        texts.append((folder / "description.md").read_text())
    assert texts[0] == texts[1]
    assert texts[0].startswith("Fixes prices.\n\n<!-- perdure:memory:begin -->\n")
    (folder / "report.xml").write_text(REPORT)
    done = shell(folder, feeding)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Added: 1.")
