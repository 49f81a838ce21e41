"""`perdure draft`: interviews that are not finished, also damaged ones and very many."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from tests.interfaces.cli.interviews import WISH, begun, coding, said, written
from tests.interfaces.cli.terminal import Terminal


@pytest.fixture
def database(ready: Path) -> Path:
    return ready.parent / "home" / "perdure.db"


@contextmanager
def tampering(database: Path) -> Iterator[sqlite3.Connection]:
    """Change the database behind our back."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        yield connection
        connection.commit()


def test_no_drafts_is_a_sentence(perdure: Terminal) -> None:
    assert perdure("draft", "list") == 0
    assert perdure.out == "There are no drafts. `perdure new` starts one.\n"


def test_drafts_are_listed_the_newest_change_first(perdure: Terminal) -> None:
    older, newer = begun(perdure, wish="a timer for pasta"), begun(perdure, said("Ada"))
    assert perdure("draft", "resume", older, "--answers", written([{"option_index": 0}])) == 2
    drafts = perdure.json("draft", "list")["drafts"]
    assert [each["session_id"] for each in drafts] == [older, newer]
    assert set(drafts[0]) == {"session_id", "initial_description", "phase", "mode", "revision", "updated_at"}
    assert perdure("draft", "ls", "--limit", "1") == 0
    assert perdure.out.splitlines()[0].split() == ["draft", "phase", "changed", "(UTC)", "description"]
    assert older in perdure.out
    assert newer not in perdure.out


def test_a_draft_shows_what_is_asked_with_all_options(perdure: Terminal) -> None:
    session_id = begun(perdure, said("Ada"))
    assert perdure("draft", "show", session_id) == 0
    assert (
        f"{WISH}\nbasics, 1 answered, revision 2\n  What should it be called? Ada\nPending question: Which"
        in perdure.out
    )
    assert "\n  0: Python: " in perdure.out
    assert perdure.out.endswith(f"Resume: perdure new --resume {session_id}\n")
    shown = perdure.json("draft", "show", session_id)
    assert shown["turn"]["action"] == "ask_question"
    [exchange] = shown["conversation"]
    assert exchange["options"][0] == "Coding Assistant"
    assert {key: exchange[key] for key in ("phase", "question", "answer")} == {
        "phase": "basics",
        "question": "What should it be called?",
        "answer": "Ada",
    }
    assert shown["preview"]["name"] == "Ada"


def test_a_draft_at_its_end_is_shown_too(perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1])
    assert perdure("draft", "show", session_id) == 0
    assert "Pending question: All questions are answered. Build the bot?\n" in perdure.out


def test_resume_continues_where_it_was(perdure: Terminal) -> None:
    session_id = begun(perdure, said("Ada"))
    assert perdure("draft", "resume", session_id, "--no-input") == 2
    assert perdure("draft", "resume", session_id, "--yes") == 0
    assert perdure.out.startswith("Ada is ready: ada, version 1.")


def test_a_step_back_keeps_the_answers_of_the_later_questions(perdure: Terminal) -> None:
    session_id = begun(perdure, *coding()[:-1], {"back": "basics"})
    assert perdure("draft", "show", session_id) == 0
    assert "basics, 0 answered, 7 stored from before you went back" in perdure.out
    assert "  asked again: Which model should answer? ollama:llama3.2\n" in perdure.out
    assert perdure("new", "--resume", session_id, "--answers", written([said("Eve")]), "--yes") == 0
    assert perdure.out.startswith("Eve is ready: eve, version 1.")
    assert "model: ollama:llama3.2" in perdure.out
    assert perdure.json("bot", "show", "eve")["tone"] == "friendly"


def test_a_deleted_draft_is_gone_and_no_person_deletes_by_accident(perdure: Terminal) -> None:
    session_id = begun(perdure)
    assert perdure("draft", "delete", session_id) == 4
    assert "needs a confirmation. Use --yes." in perdure.err
    assert perdure("draft", "delete", session_id, "--yes") == 0
    assert perdure.out == f"Deleted {session_id}.\n"
    assert perdure("draft", "show", session_id) == 3
    assert perdure("draft", "delete", session_id, "--yes") == 3


@pytest.mark.parametrize("verb", ["show", "resume", "delete"])
@pytest.mark.parametrize("name", ["zz", "", "../x", "%", "0190a1b2-c3d4-7e5f-8a6b-0123456789ab", "\x1b[2J"])
def test_a_draft_that_is_not_there_is_not_found(perdure: Terminal, verb: str, name: str) -> None:
    begun(perdure)
    how = [] if verb == "show" else ["--yes"]
    assert perdure("draft", verb, *how, "--", name) == 3
    assert "\x1b" not in perdure.err
    assert len(perdure.json("draft", "list")["drafts"]) == 1


DAMAGE = ["not json", "{}", "[1]", "null", "", "\\ud800", '{"session_id": "0190a1b2"}']


@pytest.mark.parametrize("state", DAMAGE)
def test_a_damaged_draft_is_named_hides_no_other_and_can_be_deleted(
    perdure: Terminal, database: Path, state: str
) -> None:
    damaged, well = begun(perdure), begun(perdure, said("Ada"))
    with tampering(database) as connection:
        connection.execute("UPDATE builder_drafts SET state_json = ? WHERE session_id = ?", [state, damaged])
    assert {each["session_id"] for each in perdure.json("draft", "list")["drafts"]} == {damaged, well}
    for words in (["draft", "show"], ["draft", "resume", "--yes"], ["new", "--yes", "--resume"]):
        assert perdure(*words, damaged) == 7
        assert damaged in perdure.err
    assert perdure("new", "--yes", "--resume", well) == 0
    assert perdure("draft", "delete", "--yes", damaged) == 0


@pytest.mark.parametrize("column", ["phase", "mode"])
def test_a_draft_of_an_unknown_kind_hides_no_other(perdure: Terminal, database: Path, column: str) -> None:
    damaged, well = begun(perdure), begun(perdure, said("Ada"))
    with tampering(database) as connection:
        connection.execute(f"UPDATE builder_drafts SET {column} = 'strange' WHERE session_id = ?", [damaged])
    assert perdure("draft", "list") == 0
    assert damaged in perdure.out
    assert well in perdure.out
    assert perdure("draft", "show", damaged) == 7
    assert damaged in perdure.err


def test_a_draft_of_a_newer_perdure_is_refused_by_name(perdure: Terminal, database: Path) -> None:
    session_id = begun(perdure)
    with tampering(database) as connection:
        connection.execute("UPDATE builder_drafts SET schema_version = 99")
    assert perdure("new", "--resume", "--yes") == 4
    assert session_id in perdure.err


def test_hostile_wishes_change_no_terminal(perdure: Terminal) -> None:
    begun(perdure, wish="a timer [red]x[/red] \u202e --- ../ '\"; DROP TABLE bots")
    assert perdure("draft", "list") == 0
    assert "[red]x[/red] \\u202e" in perdure.out


def test_ten_thousand_drafts_are_listed_and_found(
    perdure: Terminal, database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session_id = begun(perdure, said("Ada"))
    with tampering(database) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(builder_drafts)") if row[1] != "session_id"]
        rest = ", ".join(columns)
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) INSERT INTO builder_drafts"
            f" (session_id, {rest}) SELECT printf('%08x-0000-7000-8000-%012x', i, i), {rest} FROM n, builder_drafts"
        )
    assert len(perdure.json("draft", "list")["drafts"]) == 50
    assert len(perdure.json("draft", "list", "--limit", "1000")["drafts"]) == 1000
    assert perdure.json("draft", "show", session_id[:13])["session_id"] == session_id
    assert perdure("draft", "show", "0000") == 4
    assert perdure.err.startswith("perdure: More than 5 drafts have ids with the prefix '0000'.")
    assert len(perdure.err.splitlines()) == 6
    assert run(["draft", "list", "--limit", "1001"]) == 2
    capsys.readouterr()
    shutil.rmtree(database.parent)
