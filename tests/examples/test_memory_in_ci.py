"""The pages about GitHub Actions and GitLab CI, and the action: their shell lines, run in clones as a CI makes them."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from perdure import read_records
from tests.memory.repositories import GitRepository

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
SCRIPT = ROOT / "examples" / "memory-action" / "memory-branch.sh"
BEGIN = "<!-- perdure:memory:begin -->"
REPORT = '<testsuite><testcase name="t" file="tests/t.py"><failure>shop/tax.py:3: bad</failure></testcase></testsuite>'
CLONES = {"whole": (), "shallow": ("--depth", "1"), "bare": ("--bare",)}
TIMES = {"whole": 1, "shallow": 2, "bare": 1}
"""How often a job runs: again, it changes nothing."""
GH = """#!/bin/sh
case "$2" in
view) cat "$FORGE/description" ;;
edit) cp "$5" "$FORGE/description" && echo edited >> "$FORGE/calls" ;;
esac
"""
CURL = """#!/bin/sh
case "$*" in
*"-X PUT"*"description@$WORK/body.md"*) cp "$WORK/body.md" "$FORGE/description" && echo edited >> "$FORGE/calls" ;;
*) python3 -c 'import json, sys; print(json.dumps({"description": open(sys.argv[1]).read()}))' "$FORGE/description" ;;
esac
"""


PYTHON = f"""#!/bin/sh
# Its environments are itself, and its pip installs nothing and notes what it was asked for.
case "$1 $2" in
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") printf '%s\\n' "$*" >> "$FORGE/pip" ;;
*) exec {sys.executable} "$@" ;;
esac
"""


@dataclass
class Team:
    """A repository at a host, with one pull request that is open; and the programs of the host."""

    folder: Path
    work: GitRepository
    description: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def bare(self) -> Path:
        return self.folder / "host" / "shop.git"

    def push(self) -> None:
        self.work.git("push", "-q", "origin", "--all")

    def clone(self, how: str, branch: str) -> Path:
        """Clone a branch as a job of a CI does."""
        made = self.folder / f"clone-{len(list(self.folder.glob('clone-*')))}"
        options = [*CLONES[how], "-b", branch] if how != "bare" else CLONES[how]
        self.work.git("clone", "-q", *options, f"file://{self.bare}", str(made))
        if how == "bare":
            self.work.git("-C", str(made), "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        return made

    def run(self, clone: Path, lines: str, more: Mapping[str, str] = os.environ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment, **more}
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", lines],
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def saved(self, branch: str = "perdure-memory") -> list[dict[str, Any]]:
        """The records that the branch has."""
        path = self.folder / "saved.jsonl"
        path.write_text(self.work.git("-C", str(self.bare), "show", f"{branch}:memory.jsonl") + "\n")
        return read_records(path)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    """Somebody has reverted a change of the cart, and somebody else changes the cart again."""
    work = GitRepository(tmp_path / "work")
    work.commit("Begin", README_md="1")
    work.commit("Cache prices", shop__cart_py="1")
    work.git("revert", "--no-edit", "HEAD")
    work.git("clone", "-q", "--bare", str(work.folder), str(tmp_path / "host" / "shop.git"))
    work.git("remote", "add", "origin", str(tmp_path / "host" / "shop.git"))
    work.git("checkout", "-q", "-b", "change")
    work.commit("Cache prices again", shop__cart_py="2")
    work.git("push", "-q", "origin", "change")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in (("gh", GH), ("curl", CURL), ("python", PYTHON), ("python3", PYTHON)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    description = tmp_path / "description"
    description.write_text("Makes the cart quick.\n")
    (tmp_path / "gitconfig").write_text(
        f'[url "{tmp_path}/host/shop.git"]\n\tinsteadOf = https://oauth2:t@gitlab.example/acme/shop.git\n'
    )
    path = f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {
        "PATH": path,
        "FORGE": str(tmp_path),
        "WORK": str(tmp_path),
        "PERDURE_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "GIT_CONFIG_SYSTEM": os.devnull,
        "MEMORY_BRANCH": "perdure-memory",
        "REPO": "acme/shop",
        "BASE": "main",
        "PR": "7",
        "REPORTS": "",
    }
    return Team(tmp_path, work, description, environment)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOW_TO / page).read_text(), re.DOTALL)


HISTORY, LOAD, SHOW, FEED, SAVE, *_ = blocks("memory-in-github-actions.md", "sh")


def job(team: Team, clone: Path, *steps: str, **more: str) -> None:
    """Run steps in a clone, each with a memory that is empty at the first."""
    state = {"MEMORY_STATE_DIR": str(team.folder / f"{clone.name}-memory"), **more}
    for step in (HISTORY, LOAD, *steps):
        done = team.run(clone, step, state)
        assert done.returncode == 0, (step, done.stderr)


@pytest.mark.parametrize("how", CLONES)
def test_a_push_feeds_the_memory_and_a_pull_request_shows_it(team: Team, how: str) -> None:
    job(team, team.clone(how, "change"), SHOW)
    assert team.description.read_text() == "Makes the cart quick.\n", "nothing is known on the first day"
    (team.folder / "report.xml").write_text(REPORT)
    reports = str(team.folder / "report.xml")
    for _ in range(TIMES[how]):
        job(team, team.clone(how, "main"), FEED, SAVE, REPORTS=reports)
    assert sorted(record["type"] for record in team.saved()) == ["revert", "verifier_cluster"]
    assert len(team.work.git("-C", str(team.bare), "log", "--format=%h", "perdure-memory").split()) == 1
    for _ in range(TIMES[how]):
        job(team, team.clone(how, "change"), SHOW)
    text = team.description.read_text()
    assert text.startswith(f"Makes the cart quick.\n\n{BEGIN}\n")
    assert "paths: `shop/cart.py`" in text
    assert (team.folder / "calls").read_text() == "edited\n", "only a change is sent"
    team.work.git("rm", "-q", "shop/cart.py")
    team.work.commit("Leave the cart alone", README_md="2")
    team.push()
    job(team, team.clone(how, "change"), SHOW)
    assert team.description.read_text() == "Makes the cart quick.\n", "the stale section is removed"


def test_jobs_that_save_at_once_lose_no_record(team: Team) -> None:
    clones = [team.clone("shallow", "main") for _ in range(2)]
    states = [{"MEMORY_STATE_DIR": str(team.folder / name)} for name in ("one", "two")]
    for number, (clone, state) in enumerate(zip(clones, states, strict=True)):
        added = f"{LOAD}\nperdure memory add --type lesson --title lesson-{number}"
        assert team.run(clone, added, state).returncode == 0
    for clone, state in zip(clones, states, strict=True):
        done = team.run(clone, SAVE, state)
        assert done.returncode == 0, done.stderr
    assert sorted(record["title"] for record in team.saved()) == ["lesson-0", "lesson-1"]


def test_one_failure_that_two_jobs_saw_is_recorded_once_and_loses_nothing(team: Team) -> None:
    clones = [team.clone("shallow", "main") for _ in range(2)]
    states = [{"MEMORY_STATE_DIR": str(team.folder / name)} for name in ("one", "two")]
    for number, (clone, state) in enumerate(zip(clones, states, strict=True)):
        when = f'<testsuite timestamp="2026-11-15T10:0{number}:00"'
        (clone / "report.xml").write_text(REPORT.replace("<testsuite", when).replace(": bad", f": bad {number}"))
        feed = f"{HISTORY}\n{LOAD}\n{FEED}\nperdure memory add --type lesson --title lesson-{number}"
        done = team.run(clone, feed, {**state, "REPORTS": "report.xml"})
        assert done.returncode == 0, done.stderr
    for clone, state in zip(clones, states, strict=True):
        done = team.run(clone, SAVE, state)
        assert done.returncode == 0, done.stderr
    assert sorted(record["type"] for record in team.saved()) == ["lesson", "lesson", "revert", "verifier_cluster"]


def test_a_bad_line_on_the_branch_stops_nothing_else_and_is_repaired(team: Team) -> None:
    job(team, team.clone("whole", "main"), FEED, SAVE)
    clone = team.clone("whole", "perdure-memory")
    with (clone / "memory.jsonl").open("a") as log:
        log.write("<<<<<<< HEAD\n")
    team.work.git("-C", str(clone), "commit", "-qam", "merge by hand")
    team.work.git("-C", str(clone), "push", "-q")
    clone = team.clone("whole", "main")
    job(team, clone, "perdure memory add --type lesson --title later", SAVE)
    assert [record["type"] for record in team.saved()] == ["revert", "lesson"]
    by_hand(team, "perdure", "memory", "repair")
    assert "<<<" not in team.work.git("-C", str(team.bare), "show", "perdure-memory:memory.jsonl")
    assert [record["type"] for record in team.saved()] == ["revert", "lesson"]


def test_what_a_person_adds_and_forgets_reaches_the_branch_and_stays_so(team: Team) -> None:
    old = team.clone("whole", "main")
    job(team, old, FEED)
    job(team, team.clone("whole", "main"), FEED, SAVE)
    by_hand(team, "perdure", "memory", "add", "--type", "lesson", "--title", "mine", "--path", "shop/cart.py")
    [revert, lesson] = team.saved()
    assert (lesson["title"], lesson["paths"]) == ("mine", ["shop/cart.py"])
    by_hand(team, "perdure", "memory", "forget", revert["id"], "--yes")
    job(team, old, SAVE)
    job(team, team.clone("whole", "main"), FEED, SAVE)
    assert [record["title"] for record in team.saved() if record["type"] != "_tombstone"] == ["mine"]
    assert revert["title"] not in team.work.git("-C", str(team.bare), "show", "perdure-memory:memory.jsonl")


def by_hand(team: Team, *words: str) -> subprocess.CompletedProcess[str]:
    done = team.run(team.clone("whole", "main"), f"sh {SCRIPT} {' '.join(words)}", {})
    assert done.returncode == 0, done.stderr
    return done


def in_another_clone(team: Team, words: str) -> str:
    """Return a shell line that runs a command of the memory by hand in a clone of its own."""
    return f"(cd {team.clone('whole', 'main')} && env -u MEMORY_STATE_DIR sh {SCRIPT} perdure memory {words})"


def on_branch(team: Team, *names: str) -> str:
    """Return the text of the files under these names on the branch."""
    git = ("-C", str(team.bare))
    listed = team.work.git(*git, "ls-tree", "-r", "--name-only", "perdure-memory", *names).split()
    return "\n".join(team.work.git(*git, "show", f"perdure-memory:{name}") for name in listed)


def update_twice_and_compact(team: Team) -> None:
    by_hand(team, "perdure", "memory", "update", "days", "--type", "fact", "--title", "Mondays")
    by_hand(team, "perdure", "memory", "update", "days", "--title", "Tuesdays")
    by_hand(team, "perdure", "memory", "compact")


@pytest.mark.parametrize("how", CLONES)
def test_a_compaction_by_hand_keeps_the_archive_on_the_branch_and_later_jobs_keep_it(team: Team, how: str) -> None:
    update_twice_and_compact(team)
    assert "Mondays" in on_branch(team, "archive")
    assert "Mondays" not in on_branch(team, "memory.jsonl")
    job(team, team.clone(how, "main"), FEED, SAVE)
    assert "Mondays" in on_branch(team, "archive")
    assert sorted(record["type"] for record in team.saved()) == ["fact", "revert"]
    [archived] = [json.loads(line) for line in on_branch(team, "archive").splitlines()]
    by_hand(team, "perdure", "memory", "forget", archived["id"], "--yes")
    assert "Mondays" not in on_branch(team, "archive", "memory.jsonl")
    assert "Tuesdays" in on_branch(team, "memory.jsonl")


def test_a_repair_by_hand_keeps_the_damaged_lines_on_the_branch(team: Team) -> None:
    job(team, team.clone("whole", "main"), FEED, SAVE)
    clone = team.clone("whole", "perdure-memory")
    with (clone / "memory.jsonl").open("a") as log:
        log.write("<<<<<<< HEAD\n")
    team.work.git("-C", str(clone), "commit", "-qam", "merge by hand")
    team.work.git("-C", str(clone), "push", "-q")
    done = by_hand(team, "perdure", "memory", "repair")
    assert "The archive and the quarantine are kept on the branch perdure-memory" in done.stderr
    assert "<<<<<<< HEAD" in on_branch(team, "quarantine")
    assert "<<<<<<< HEAD" not in on_branch(team, "memory.jsonl")


def test_a_compaction_by_hand_that_another_one_overtook_pushes_nothing(team: Team) -> None:
    by_hand(team, "perdure", "memory", "update", "days", "--type", "fact", "--title", "Mondays")
    by_hand(team, "perdure", "memory", "update", "days", "--title", "Tuesdays")
    other = in_another_clone(team, "compact")
    lines = f"sh {SCRIPT} sh -c 'perdure memory compact && {other}'"
    done = team.run(team.clone("whole", "main"), lines, {})
    assert (done.returncode, "Run the command again." in done.stderr) == (1, True)
    assert "Mondays" in on_branch(team, "archive")


def test_what_is_added_by_hand_while_a_job_pushes_is_saved_beside_it(team: Team) -> None:
    other = in_another_clone(team, "add --type fact --title x")
    update_twice_and_compact(team)
    done = team.run(
        team.clone("whole", "main"), f"sh {SCRIPT} sh -c 'perdure memory add --type fact --title y && {other}'", {}
    )
    assert done.returncode == 0, done.stderr
    assert sorted(record["title"] for record in team.saved()) == ["Tuesdays", "x", "y"]
    assert "Mondays" in on_branch(team, "archive")


def test_a_read_by_hand_prints_its_answer_alone(team: Team) -> None:
    by_hand(team, "perdure", "memory", "add", "--type", "fact", "--title", "mine")
    done = by_hand(team, "perdure", "memory", "list")
    assert ("mine" in done.stdout, done.stderr) == (True, "")


def test_a_job_whose_push_is_overtaken_says_so_in_one_line(team: Team) -> None:
    clone = team.clone("whole", "main")
    state = {"MEMORY_STATE_DIR": str(team.folder / "memory")}
    assert team.run(clone, f"{LOAD}\nperdure memory add --type fact --title mine", state).returncode == 0
    hook = clone / ".git" / "hooks" / "pre-push"
    other = in_another_clone(team, "add --type fact --title x")
    hook.write_text(f"#!/bin/sh\nrm $0\nunset GIT_DIR\n{other} > {team.folder}/other 2>&1\n")
    hook.chmod(0o755)
    done = team.run(clone, SAVE, state)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "Another job pushed to perdure-memory first: its records are imported, and the push is repeated."
    ]
    assert sorted(record["title"] for record in team.saved()) == ["mine", "x"]


def test_a_pull_request_that_renames_a_file_shows_its_history(team: Team) -> None:
    team.work.git("checkout", "-q", "main")
    team.work.commit("Price", shop__cart_py="a long text\n" * 20)
    team.work.git("checkout", "-q", "-b", "rename")
    team.work.git("mv", "shop/cart.py", "shop/basket.py")
    team.work.commit("Rename")
    team.push()
    job(team, team.clone("whole", "main"), FEED, SAVE)
    job(team, team.clone("whole", "rename"), SHOW)
    assert "paths: `shop/cart.py`" in team.description.read_text()


def test_a_token_that_may_not_edit_ends_green_with_a_sentence(team: Team) -> None:
    job(team, team.clone("whole", "main"), FEED, SAVE)
    (team.folder / "programs" / "gh").write_text('#!/bin/sh\n[ "$2" = view ] && echo mine\n')
    state = {"MEMORY_STATE_DIR": str(team.folder / "memory")}
    done = team.run(team.clone("whole", "change"), f"{LOAD}\n{SHOW}", state)
    assert done.returncode == 0, done.stderr
    assert "The section was not written: the token needs pull-requests: write." in done.stderr


def test_a_host_that_is_down_is_not_taken_for_an_empty_memory(team: Team) -> None:
    clone = team.clone("whole", "main")
    team.bare.rename(team.bare.with_name("away"))
    state = {"MEMORY_STATE_DIR": str(team.folder / "memory")}
    assert team.run(clone, LOAD, state).returncode != 0


def test_a_save_without_anything_to_save_makes_no_branch(team: Team) -> None:
    done = team.run(team.clone("whole", "main"), SAVE, {"MEMORY_STATE_DIR": str(team.folder / "none")})
    assert done.returncode == 0
    assert "perdure-memory" not in team.work.git("-C", str(team.bare), "branch")


def test_a_shallow_clone_that_is_not_deepened_fails_and_changes_nothing(team: Team) -> None:
    team.description.write_text(f"Mine.\n\n{BEGIN}\n### Memory: related history\n\nold\n<!-- perdure:memory:end -->\n")
    before = team.description.read_text()
    clone = team.clone("shallow", "change")
    state = {"MEMORY_STATE_DIR": str(team.folder / "memory")}
    done = team.run(clone, SHOW.replace("git fetch -q", "git fetch -q --depth 1"), state)
    assert done.returncode != 0
    assert team.description.read_text() == before
    piped = (
        "git diff -z --no-renames --name-only FETCH_HEAD...HEAD | perdure memory related --paths-from - --apply body.md"
    )
    done = team.run(clone, f"cp {team.description} body.md; set +o pipefail; {piped}", state)
    assert (done.returncode, "shallow clone" in done.stderr) == (2, True)
    assert (clone / "body.md").read_text() == before


def test_the_action_runs_the_lines_of_the_page() -> None:
    action = yaml.safe_load((ROOT / "examples" / "memory-action" / "action.yml").read_text())
    steps = {step["name"]: step["run"] for step in action["runs"]["steps"]}
    assert list(steps.values())[3:] == [HISTORY, LOAD, SHOW, FEED, SAVE]
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    named = re.findall(r"inputs\.(\w+)", json.dumps(action))
    assert set(named) == set(action["inputs"])
    assert "${{" not in "".join(steps.values()), "nothing of an event is put into a script"


def test_the_script_for_people_has_the_lines_of_the_page() -> None:
    script = SCRIPT.read_text()
    assert LOAD.removeprefix("set -e\n").removesuffix("fi\n") in script
    imports = ("perdure memory import", "git ls-tree --full-tree", "tree=$({")
    lines = [line for line in SAVE.splitlines() if not any(each in line for each in imports)]
    assert all(line in script.splitlines() for line in lines)


@pytest.mark.parametrize("source", ["", "git+https://example.org/o/perdure@v1", "perdure"])
def test_the_action_installs_perdure_from_its_repository_and_never_by_its_name(team: Team, source: str) -> None:
    action = yaml.safe_load((ROOT / "examples" / "memory-action" / "action.yml").read_text())
    lines = action["runs"]["steps"][0]["run"]
    path, temp = team.folder / "path", team.folder / "temp"
    more = {"GITHUB_PATH": str(path), "RUNNER_TEMP": str(temp), "PERDURE_SOURCE": source}
    done = team.run(team.folder, lines, {**more, "GITHUB_ACTION_PATH": str(ROOT / "examples" / "memory-action")})
    if source == "perdure":
        assert done.returncode == 1
        assert "source is perdure, which is neither a folder nor an address." in done.stdout
        assert not (team.folder / "pip").exists()
        return
    assert done.returncode == 0, done.stderr
    assert (team.folder / "pip").read_text() == f"-m pip install -q {source or ROOT}\n"
    assert path.read_text() == f"{temp}/perdure/bin\n"


def test_a_copy_of_the_action_says_that_it_needs_a_source(team: Team) -> None:
    action = yaml.safe_load((ROOT / "examples" / "memory-action" / "action.yml").read_text())
    copy = team.folder / ".github" / "actions" / "memory"
    copy.mkdir(parents=True)
    done = team.run(copy, action["runs"]["steps"][0]["run"], {"GITHUB_ACTION_PATH": str(copy), "PERDURE_SOURCE": ""})
    assert (done.returncode, "Set its input source" in done.stdout) == (1, True)


def test_no_page_installs_perdure_by_its_name() -> None:
    for page in (*HOW_TO.glob("memory-*.md"), ROOT / "examples" / "memory-action" / "action.yml"):
        assert not re.search(r"pip install[^\n]* perdure\b", page.read_text()), page


def test_the_jobs_of_the_pages_record_failed_tests_too() -> None:
    workflow = yaml.safe_load(blocks("memory-in-github-actions.md", "yaml")[0])
    upload = workflow["jobs"]["test"]["steps"][-1]
    assert (upload["if"], workflow["jobs"]["memory"]["if"]) == ("always()", "always()")
    assert workflow["jobs"]["memory"]["needs"] == "test"
    assert workflow["jobs"]["test"]["permissions"] == {"contents": "read"}
    config = yaml.safe_load(blocks("memory-in-gitlab-ci.md", "yaml")[0])
    assert config["test"]["artifacts"] == {"when": "always", "paths": ["report.xml"]}
    assert (config["memory-record"]["stage"], config["memory-record"]["rules"][0]["when"]) == (".post", "always")


def test_the_places_of_the_action_are_named(team: Team) -> None:
    action = yaml.safe_load((ROOT / "examples" / "memory-action" / "action.yml").read_text())
    named = team.folder / "env"
    more = {"GITHUB_ENV": str(named), "RUNNER_TEMP": "/t", "GITHUB_REPOSITORY": "a/b", "BRANCH": "m"}
    assert team.run(team.folder, action["runs"]["steps"][1]["run"], more).returncode == 0
    assert named.read_text().split() == ["MEMORY_STATE_DIR=/t/memory", "MEMORY_BRANCH=m", "WORK=/t", "REPO=a/b"]


def test_the_workflows_of_the_pages_are_yaml() -> None:
    for page in ("memory-in-github-actions.md", "memory-in-gitlab-ci.md"):
        assert all(yaml.safe_load(text) for text in blocks(page, "yaml"))


GITLAB = {
    "MEMORY_TOKEN": "t",
    "PERDURE_SOURCE": "git+https://gitlab.example/tools/perdure.git@v1",
    "CI_SERVER_URL": "https://gitlab.example",
    "CI_PROJECT_PATH": "acme/shop",
    "CI_MERGE_REQUEST_PROJECT_ID": "1",
    "CI_API_V4_URL": "https://gitlab.example/api/v4",
    "CI_MERGE_REQUEST_IID": "7",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
}


def gitlab(team: Team, clone: Path, name: str, config: dict[str, Any], **more: str) -> subprocess.CompletedProcess[str]:
    """Run a job as a runner does: all lines in one shell, in a checkout."""
    sha = team.work.git("-C", str(clone), "rev-parse", "HEAD")
    given = config[".memory"]["variables"]
    variables = {key: value.replace("$CI_PROJECT_DIR", str(clone)) for key, value in given.items()}
    lines = "\n".join([*config[".memory"]["before_script"], *config[name]["script"]])
    return team.run(clone, lines, {**GITLAB, **variables, "CI_COMMIT_SHA": sha, **more})


@pytest.mark.parametrize("how", CLONES)
def test_the_jobs_of_gitlab_work(team: Team, how: str) -> None:
    config = yaml.safe_load(blocks("memory-in-gitlab-ci.md", "yaml")[0])

    def run(name: str, branch: str, *, report: str | None = None) -> None:
        clone = team.clone(how, branch)
        if report is not None:
            (clone / "report.xml").write_text(report)
        done = gitlab(team, clone, name, config)
        assert done.returncode == 0, done.stderr

    for _ in range(TIMES[how]):
        run("memory-record", "main", report=REPORT)
    assert sorted(record["type"] for record in team.saved()) == ["revert", "verifier_cluster"]
    for _ in range(TIMES[how]):
        run("memory-related", "change")
    assert team.description.read_text().startswith(f"Makes the cart quick.\n\n{BEGIN}\n")
    assert (team.folder / "calls").read_text() == "edited\n"
    assert set((team.folder / "pip").read_text().splitlines()) == {f"-m pip install -q {GITLAB['PERDURE_SOURCE']}"}


@pytest.mark.parametrize("name", ["memory-related", "memory-record"])
def test_a_job_of_gitlab_without_a_token_ends_green_with_a_sentence(team: Team, name: str) -> None:
    config = yaml.safe_load(blocks("memory-in-gitlab-ci.md", "yaml")[0])
    done = gitlab(team, team.clone("whole", "change"), name, config, MEMORY_TOKEN="")
    assert (done.returncode, "MEMORY_TOKEN is not set here" in done.stdout) == (0, True)
    done = gitlab(team, team.clone("whole", "change"), name, config, PERDURE_SOURCE="perdure")
    assert (done.returncode, "Set PERDURE_SOURCE to the address" in done.stdout) == (1, True)
    assert not (team.folder / "pip").exists()


def test_a_cache_of_gitlab_keeps_the_memory(team: Team) -> None:
    whole, cached = (yaml.safe_load(text) for text in blocks("memory-in-gitlab-ci.md", "yaml"))
    whole[".memory"]["variables"] |= cached[".memory"]["variables"]
    reader, writer = cached[".memory"]["cache"], cached["memory-record"]["cache"]
    [kept] = reader["paths"]
    assert reader["unprotect"]
    assert (reader["policy"], writer) == ("pull", {**reader, "policy": "pull-push"})
    clone = team.clone("whole", "main")
    assert gitlab(team, clone, "memory-record", whole).returncode == 0
    assert "perdure-memory" not in team.work.git("-C", str(team.bare), "branch")
    later = team.clone("whole", "change")
    shutil.copytree(clone / kept, later / kept)
    done = gitlab(team, later, "memory-related", whole)
    assert done.returncode == 0, done.stderr
    assert BEGIN in team.description.read_text()
