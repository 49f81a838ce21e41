"""`perdure new` without a terminal: from a list of answers, by what is suggested, resumed, reconfigured, refused."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.app import open_home
from perdure.app.builder.sessions import SessionView
from perdure.errors import Conflict
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.forge.askers import AnswerList
from perdure.interfaces.cli.forge.interview import run_interview
from perdure.interfaces.cli.remote.ports.builder import BuilderPorts
from perdure.settings import load_settings
from tests.interfaces.cli.interviews import (
    FIRST,
    MODEL,
    SECOND,
    WISH,
    YES,
    begun,
    coding,
    forged,
    front_of,
    said,
    written,
)
from tests.interfaces.cli.terminal import Terminal


@pytest.fixture
def bots(ready: Path) -> Path:
    return ready.parent / "home" / "bots"


def test_a_list_of_answers_makes_a_bot_with_exactly_the_chosen_model(perdure: Terminal, bots: Path) -> None:
    result = forged(perdure, answers=coding())
    assert (result["bot_slug"], result["bot_name"], result["version"]) == ("ada", "Ada", 1)
    assert result["skills_attached"] == ["code-review", "code-generation"]
    identity = front_of(bots / "ada" / "IDENTITY.md")
    assert (identity["provider"], identity["model"]) == ("ollama", MODEL)
    assert (identity["temperature"], identity["max_tokens"]) == (0.2, 4096)
    assert perdure.json("bot", "show", "ada")["model_config"] == {
        "model": MODEL,
        "temperature": 0.2,
        "max_tokens": 4096,
    }
    assert perdure.json("draft", "list") == {"drafts": []}


def test_a_temperature_that_was_typed_is_the_one_in_the_file(perdure: Terminal, bots: Path) -> None:
    forged(perdure, answers=coding("Eve"))
    forged(perdure, "--reconfigure", "eve", answers=[said("settings"), said("1.25"), FIRST, YES])
    assert front_of(bots / "eve" / "IDENTITY.md")["temperature"] == 1.25


def test_a_person_learns_what_was_made_and_how_to_continue(perdure: Terminal, bots: Path) -> None:
    assert perdure("new", WISH, "--answers", written(coding())) == 0
    assert perdure.out == (
        "Ada is ready: ada, version 1.\n"
        f"  {bots}/ada/SOUL.md\n  {bots}/ada/IDENTITY.md\n  {bots}/ada/USER.md\n"
        "  skills: code-review, code-generation\n"
        f"  model: {MODEL}, temperature 0.2, up to 4096 tokens\n"
        "Talk to it: perdure chat ada\nShow it:    perdure bot show ada\n"
        "Change it:  perdure new --reconfigure ada\n"
    )


def test_what_may_be_typed_is_said_while_it_is_asked_and_nowhere_else(perdure: Terminal, bots: Path) -> None:
    forged(perdure, answers=coding())
    assert "(Other" not in (bots / "ada" / "USER.md").read_text()
    assert perdure("bot", "explain", "ada", "IDENTITY.md:5") == 0
    assert perdure.out.endswith(f"asked: Which model should answer? Answered: {MODEL}\n")


def test_yes_takes_what_is_suggested(perdure: Terminal) -> None:
    result = forged(perdure)
    assert perdure.json("bot", "show", result["bot_slug"])["tone"] == "technical"


def test_yes_fills_what_a_list_leaves_open(perdure: Terminal) -> None:
    assert perdure("new", WISH, "--answers", written([said("Ada")]), "--yes") == 0
    assert perdure.out.startswith("Ada is ready: ada, version 1.")


def test_yes_says_what_it_knows_to_a_caller_that_asks_for_more(perdure: Terminal) -> None:
    result = forged(perdure, "research")
    soul = perdure.json("bot", "show", result["bot_slug"], "--prompt")["prompt"]
    assert "research\nresearch" not in soul


@pytest.mark.parametrize(
    ("wish", "fewest", "most"),
    [("a timer for pasta", 3, 5), ("a research analyst who reads papers on climate for my team", 6, 10)],
)
def test_small_bots_need_few_questions_and_researchers_more(
    perdure: Terminal, wish: str, fewest: int, most: int
) -> None:
    answers = [FIRST] * 20
    count = 0
    session_id = begun(perdure, wish=wish)
    while (turn := perdure.json("draft", "show", session_id))["turn"]["action"] != "ready_to_assemble":
        is_question = turn["turn"]["action"] == "ask_question"
        assert not is_question or all(option["description"] for option in turn["turn"]["options"])
        assert perdure("draft", "resume", session_id, "--answers", written([answers[0] if is_question else YES])) == 2
        count += is_question
    assert fewest <= count <= most
    assert turn["question_count"] == count


def test_a_second_bot_is_offered_what_was_chosen_for_the_first_with_the_reason(perdure: Terminal) -> None:
    forged(perdure, answers=coding(tone=SECOND))
    session_id = begun(perdure, FIRST, FIRST, FIRST)
    turn = perdure.json("draft", "show", session_id)["turn"]
    assert turn["suggestion"] == {"option_id": "friendly", "reason": "your last coding bot was friendly"}
    assert perdure("draft", "resume", session_id, "--answers", written([FIRST, FIRST])) == 2
    turn = perdure.json("draft", "show", session_id)["turn"]
    assert turn["suggestion"] == {"option_id": MODEL, "reason": f"your last coding bot uses {MODEL}"}
    assert perdure("draft", "resume", session_id, "--yes") == 0
    assert MODEL in perdure.out


def test_answers_that_run_out_keep_the_draft_and_say_what_is_asked(perdure: Terminal) -> None:
    assert perdure("new", WISH, "--answers", written([said("Ada")])) == 2
    told = perdure.err
    (draft,) = perdure.json("draft", "list")["drafts"]
    again = f"perdure new --resume {draft['session_id']}"
    assert told.startswith(
        "perdure: The list has no more answers. Pending question: Which language does it work with most?"
    )
    assert f"Nothing is lost. Resume with: {again}\n" in told
    assert "\n  0: Python: " in told
    assert perdure(*shlex.split(again)[1:], "--yes") == 0
    assert perdure.out.startswith("Ada is ready")


def test_the_command_to_continue_names_the_home_that_was_used(perdure: Terminal, tmp_path: Path) -> None:
    home = str(tmp_path / "another home")
    assert perdure("new", WISH, "--answers", written([]), "--home", home) == 2
    again = perdure.err.partition("Resume with: ")[2].splitlines()[0]
    assert shlex.split(again)[-2:] == ["--home", home]
    assert perdure(*shlex.split(again)[1:], "--yes") == 0


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"option_index": 9}, "There is no option 9; the options are 0 to "),
        ({"option_index": "0"}, "The answer has an invalid option_index."),
        ({"confirm": True}, "The answer does not fit the pending turn."),
        ({"free_text": " \n"}, "The answer is empty."),
        ({"free_text": "a\0b"}, "The answer contains control characters."),
        ({"free_text": "\ud800"}, "The answer contains a lone surrogate"),
        ({"free_text": "a" * 300}, "The answer does not fit name: String should have at most 120 characters."),
        ("back", "This is the first phase; there is no earlier one."),
        (None, "The answer must be one field with its value."),
        ([[[]]], "The answer must be one field with its value."),
    ],
    ids=str,
)
def test_a_wrong_answer_keeps_the_draft_and_names_the_exact_command(perdure: Terminal, answer: Any, why: str) -> None:
    assert perdure("new", WISH, "--answers", written([answer, *coding()])) == 2
    assert perdure.err.startswith(f"perdure: Answer 1 of the list: {why}")
    again = perdure.err.partition("Resume with: ")[2].splitlines()[0]
    assert perdure(*shlex.split(again)[1:], "--answers", written(coding())) == 0


def test_a_wrong_answer_is_one_problem_for_a_program(perdure: Terminal) -> None:
    problem = perdure.json("new", WISH, "--answers", written([{"option_index": 9}]))
    assert problem["code"] == "invalid"
    assert problem["errors"][0]["detail"].startswith("0: ")
    assert problem["current"]["turn"]["question"] == "What should it be called?"
    again = ["draft", "resume", problem["current"]["session_id"], "--answers", written([said("Ada"), 7])]
    assert perdure.json(*again)["detail"].startswith("Answer 2 of the list: ")


@pytest.mark.parametrize("text", ["", "{", "{}", '"back"', "[" * 100_000, "[1" + " " * (1 << 20), "\udcff"])
def test_a_file_that_holds_no_list_of_answers_is_refused_before_anything_begins(perdure: Terminal, text: str) -> None:
    Path("answers.json").write_bytes(text.encode(errors="surrogateescape"))
    assert perdure("new", WISH, "--answers", "answers.json") == 2
    assert "answers.json" in perdure.err
    assert perdure.json("draft", "list") == {"drafts": []}


def test_answers_come_from_a_pipe_too_and_a_named_one_is_refused(perdure: Terminal) -> None:
    os.mkfifo("pipe")
    assert perdure("new", WISH, "--answers", "pipe") == 2
    assert "pipe is a pipe, not a regular file" in perdure.err
    line = f"{sys.executable} -m perdure new '{WISH}' --json --answers /dev/stdin"
    done = subprocess.run(line, shell=True, input=json.dumps(coding()), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert perdure("new", WISH, "--answers", "nowhere.json") == 3
    assert perdure("new", WISH, "--answers", ".") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["--no-input"], ["--resume"], ["--reconfigure", "coding-assistant"]], ids=str
)
def test_without_a_terminal_answers_must_be_given(perdure: Terminal, arguments: list[str]) -> None:
    forged(perdure)
    begun(perdure)
    assert perdure("new", *arguments) == 2
    assert perdure.err.startswith("perdure: There is no terminal to ask on. Pass the answers with --answers FILE")


def test_a_wish_must_be_said_where_no_person_can_be_asked(perdure: Terminal) -> None:
    assert perdure("new", "--yes") == 2
    assert "Describe the bot: perdure new" in perdure.err
    assert perdure("new", "", "--yes") == 2
    assert perdure("new", "\x1b[2J", "--yes") == 2
    assert "\x1b" not in perdure.err


def test_resume_takes_the_newest_draft_or_the_one_that_is_named(perdure: Terminal) -> None:
    assert perdure("new", "--resume", "--yes") == 2
    assert "There is no draft to resume" in perdure.err
    older, newer = begun(perdure, said("Older")), begun(perdure, said("Newer"))
    assert perdure("new", "--resume", "--answers", written([])) == 2
    assert newer in perdure.err
    unique = next(older[:n] for n in range(1, 37) if not newer.startswith(older[:n]))
    assert perdure("new", "--resume", unique, "--yes") == 3
    assert f"Did you mean {older}? Commands that change a draft need the whole id." in perdure.err
    assert perdure("new", "--resume", older.upper(), "--yes") == 0
    assert perdure.out.startswith("Older is ready")


def test_a_beginning_that_several_ids_share_is_reported_with_some_of_them(perdure: Terminal) -> None:
    ids = [begun(perdure, wish=f"{WISH} {number}") for number in range(3)]
    assert perdure("draft", "show", ids[0][:4]) == 4
    assert perdure.err.startswith(f"perdure: 3 drafts have ids with the prefix '{ids[0][:4]}'. Type a longer prefix.\n")
    assert f"  {ids[1]}  {WISH} 1\n" in perdure.err


def test_a_session_that_is_over_says_what_it_has_made(perdure: Terminal) -> None:
    session_id = begun(perdure, said("Ada"))
    assert perdure("new", "--resume", session_id, "--yes") == 0
    assert perdure("new", "--resume", session_id, "--yes") == 3
    assert "it made version 1 of the bot ada" in perdure.err


def test_a_wrong_id_is_named_before_the_missing_terminal(perdure: Terminal) -> None:
    forged(perdure)
    for words in (["new", "--resume", "nonsense"], ["draft", "resume", "nonsense"]):
        assert perdure(*words, "--no-input") == 3
        assert "No draft has the id 'nonsense'." in perdure.err
    assert perdure("new", "--reconfigure", "unknown", "--no-input") == 3
    assert "There is no bot 'unknown'. `perdure bot list` shows the bots." in " ".join(perdure.err.split())
    assert perdure("bot", "rollback", "coding-assistant", "9") == 3
    assert "`perdure bot versions coding-assistant` lists its versions." in " ".join(perdure.err.split())


def test_a_text_is_not_the_archive_of_a_bot(perdure: Terminal, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Notes")
    assert perdure("bot", "import", str(tmp_path / "README.md")) == 2
    assert "is not an archive of a bot. `perdure bot export SLUG` writes one." in " ".join(perdure.err.split())


def test_resume_and_reconfigure_are_two_things(perdure: Terminal) -> None:
    assert perdure("new", "--resume", "--reconfigure", "ada", "--yes") == 2


class Rival(AnswerList):
    """A list of answers, whose session somebody else answers first."""

    def __init__(self, answers: list[Any], rival: Any) -> None:
        super().__init__(answers)
        self._rival = rival

    async def answer(self, session: SessionView) -> Any:
        """See Asker.answer."""
        await self._rival(session.session_id, FIRST)
        return await super().answer(session)


async def test_who_answers_second_is_shown_what_is_asked_now(ready: Path) -> None:
    options = Options(json=False, home=str(ready / "own"), verbose=False, debug=False, no_input=True)
    async with open_home(load_settings({"home": options.home})) as p:
        session = await p.forge.start(WISH)
        with pytest.raises(Conflict, match="has revision 2.*Pending question: Which language.*Resume with: ") as raised:
            await run_interview(
                options, BuilderPorts(p.forge, p.forge, p.forge, None), session, Rival([SECOND], p.forge.answer)
            )
        assert raised.value.current == (await p.forge.get(session.session_id)).wire()
        assert raised.value.current["question_count"] == 1


def test_reconfigure_keeps_id_slug_hand_edits_and_skills_and_adds_one_version(perdure: Terminal, bots: Path) -> None:
    first = forged(perdure, answers=coding())
    soul, skill = bots / "ada" / "SOUL.md", bots / "ada" / "skills" / "code-review" / "SKILL.md"
    soul.write_text(f"{soul.read_text()}\nAlways greet Grace.\n")
    skill.write_text(f"{skill.read_text()}\nMine.\n")
    answers = [said("settings"), said("0.35"), said("12,345"), YES]
    second = forged(perdure, "--reconfigure", "ada", answers=answers)
    assert (second["bot_id"], second["bot_slug"], second["version"]) == (first["bot_id"], "ada", 2)
    assert second["skills_attached"] == first["skills_attached"]
    assert "Always greet Grace.\n" in soul.read_text()
    assert skill.read_text().endswith("\nMine.\n")
    assert perdure.json("bot", "show", "ada")["model_config"] == {
        "model": MODEL,
        "temperature": 0.35,
        "max_tokens": 12345,
    }
    assert [each["number"] for each in perdure.json("bot", "versions", "ada")["versions"]] == [2, 1]


def test_a_rule_added_by_hand_and_one_added_by_forge_are_both_in_the_file(perdure: Terminal, bots: Path) -> None:
    forged(perdure, answers=coding())
    soul = bots / "ada" / "SOUL.md"
    soul.write_text(f"{soul.read_text()}- Never touch the folder vendor.\n")
    assert perdure("new", "--reconfigure", "ada", "also never push to main", "--yes") == 0
    assert "+- Never push to main.\n" in perdure.err
    assert "- Never push to main.\n- Never touch the folder vendor.\n" in soul.read_text()
    assert not (bots / "ada" / "SOUL.md.new").exists()


def test_a_conflict_with_hand_edits_is_reported_with_the_name_of_the_file(perdure: Terminal, bots: Path) -> None:
    forged(perdure, answers=coding())
    soul = bots / "ada" / "SOUL.md"
    soul.write_text(f"{soul.read_text()}which I mean.\n")
    assert perdure("new", "--reconfigure", "ada", "also never push to main", "--yes") == 0
    assert "Your edits of SOUL.md conflict with the change" in perdure.err
    assert "Nothing would change" not in perdure.err
    assert "SOUL.md lacks a part of the change" in perdure.out
    assert "- Never push to main.\n" in (bots / "ada" / "SOUL.md.new").read_text()


def test_reconfigure_shows_a_diff_before_it_is_confirmed(perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    answers = [said("name"), said("Ada II")]
    assert perdure("new", "--reconfigure", "ada", "--answers", written(answers)) == 2
    assert "+display_name: Ada II\n" in perdure.err
    assert perdure.json("bot", "show", "ada")["name"] == "Ada"
    found = perdure.json("new", "--resume", "--answers", written([YES]))
    assert "+display_name: Ada II\n" in found["changes"]["diffs"]["IDENTITY.md"]
    assert perdure.json("bot", "show", "ada")["name"] == "Ada II"


def test_a_bot_that_was_changed_meanwhile_is_not_overwritten(perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    assert perdure("new", "--reconfigure", "ada", "--answers", written([said("name"), said("Late")])) == 2
    forged(perdure, "--reconfigure", "ada", answers=[said("name"), said("Early"), YES])
    assert perdure("new", "--resume", "--yes") == 4
    assert "was changed since this session began" in perdure.err
    assert perdure.json("bot", "show", "ada")["name"] == "Early"


def test_a_bot_that_is_not_there_cannot_be_reconfigured(perdure: Terminal) -> None:
    assert perdure("new", "--reconfigure", "nobody", "--yes") == 3
    assert perdure("new", "--reconfigure", "../x", "--yes") == 2


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Ada: the first",
            "\"quoted\" 'twice'",
            "two\nlines",
            "---",
            "../../etc/passwd",
            "🦄",
            "🦄 Ada",
            "CON",
            "nul",
        ),
        *(
            "COM1.txt",
            "a" * 120,
            ".hidden",
            "- dash",
            "\u0410da",
            "\uff41\uff44\uff41",
            "[bold]x[/bold]",
            "null",
            "1e3",
            "{x: y}",
            "# x",
        ),
    ],
)
def test_any_name_gets_a_safe_slug_and_comes_back_as_it_was_said(perdure: Terminal, bots: Path, name: str) -> None:
    result = forged(perdure, answers=coding(name))
    slug = result["bot_slug"]
    assert slug.replace("-", "").isalnum()
    assert slug.isascii()
    assert [path.name for path in bots.iterdir() if not path.name.startswith(".")] == [slug]
    assert result["bot_name"] == " ".join(name.split())
    assert perdure.json("bot", "show", slug)["name"] == " ".join(name.split())
    assert perdure("bot", "show", slug) == 0
    assert perdure.json("bot", "verify", slug)["problems"] == []


def test_names_that_look_alike_are_two_bots(perdure: Terminal) -> None:
    slugs = [forged(perdure, answers=coding(name))["bot_slug"] for name in ("Ada", "\u0410da", "ada", "ADA")]
    assert len(set(slugs)) == 4


def test_nothing_but_a_person_needs_the_library_of_the_wizard(ready: Path) -> None:
    program = (
        "import sys\nfrom perdure.interfaces.cli.errors import run\n"
        f"assert run(['new', {WISH!r}, '--yes', '--json']) == 0\n"
        "for noun in ('draft', 'bot', 'skill', 'goal'): run([noun, 'list'])\n"
        "run(['--help'])\n"
        "print(sorted({'questionary', 'prompt_toolkit', 'wcwidth'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ready)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "answer",
    [
        {"k" * 500_000: 1},
        {"back": "k" * 500_000},
        {"back": [["k"] * 100_000]},
        {"option_index": 10**4000},
    ],
    ids=["kind", "phase", "list", "number"],
)
def test_an_answer_that_is_none_is_not_repeated_at_length(perdure: Terminal, answer: Any) -> None:
    assert perdure("new", WISH, "--answers", written([answer])) == 2
    assert "Nothing is lost" in perdure.err
    assert len(perdure.err) < 2_000


def test_of_an_answer_that_says_two_things_none_is_taken(perdure: Terminal) -> None:
    Path("answers.json").write_text('[{"option_index": 0, "option_index": 1}]')
    assert perdure("new", WISH, "--answers", "answers.json") == 2
    assert "has the key 'option_index' twice in one object" in perdure.err
    assert perdure.json("draft", "list") == {"drafts": []}


@pytest.mark.parametrize("almost", [1, 1.0, "true", None])
def test_only_yes_builds(perdure: Terminal, almost: object) -> None:
    assert perdure("new", WISH, "--answers", written([*coding()[:-1], {"confirm": almost}])) == 2
    assert perdure.json("bot", "list") == {"bots": []}
    assert perdure("draft", "resume", perdure.json("draft", "list")["drafts"][0]["session_id"], "--yes") == 0


@pytest.mark.parametrize(
    ("request_text", "line"),
    [
        ("make it friendlier", "tone: friendly"),
        ("rename it to Alfred", "name: Alfred"),
        ("call it Kubi, and don't swear at me", "- Do not swear at the user."),
        ("never swear", "- Never swear."),
    ],
)
def test_a_change_said_in_words_is_applied(perdure: Terminal, bots: Path, request_text: str, line: str) -> None:
    forged(perdure, answers=coding())
    forged(perdure, "--reconfigure", "ada", "make it more formal, and never guess")
    assert forged(perdure, "--reconfigure", "ada", request_text)["version"] == 3
    soul = (bots / "ada" / "SOUL.md").read_text().splitlines()
    assert line in soul
    assert "- Never guess." in soul


@pytest.mark.parametrize("request_text", ["make it friendlier", "less formal, please", "bake bread", ""])
def test_a_reconfiguration_that_changes_nothing_makes_no_version(perdure: Terminal, request_text: str) -> None:
    forged(perdure, answers=coding(tone=said("friendly")))
    assert perdure("new", "--reconfigure", "ada", request_text, "--yes") == 0
    assert "Nothing changed; version 1 stays current.\n" in perdure.out
    assert ("names no tone" in perdure.out) == (request_text in ("less formal, please", "bake bread"))
    assert len(perdure.json("bot", "versions", "ada")["versions"]) == 1
    assert len(perdure.json("choice", "list")["choices"]) == 1
    assert perdure.json("draft", "list") == {"drafts": []}


@pytest.mark.parametrize(("wish", "is_python"), [(WISH, False), (f"{WISH} for Python", True)])
def test_no_language_is_written_that_was_not_named(perdure: Terminal, bots: Path, wish: str, is_python: bool) -> None:
    slug = forged(perdure, wish)["bot_slug"]
    assert ("Python" in (bots / slug / "SOUL.md").read_text()) == is_python


def test_answers_speak_of_the_person_in_the_third_person(perdure: Terminal, bots: Path) -> None:
    answers = [
        said("Ada"),
        said("what my team uses"),
        FIRST,
        said("like my aunt"),
        said("never page me"),
        FIRST,
        FIRST,
        YES,
    ]
    forged(perdure, answers=answers)
    soul = (bots / "ada" / "SOUL.md").read_text()
    assert "Work mainly in what their team uses;" in soul
    assert "tone: like their aunt" in soul
    assert "- never page the user" in soul


def test_purposes_and_categories_are_shown_by_their_title(perdure: Terminal) -> None:
    forged(perdure, "a timer for pasta")
    for noun in ("bot", "choice"):
        assert perdure(noun, "list") == 0
        assert "everyday tasks" in perdure.out
        assert "_" not in perdure.out
    assert perdure.json("bot", "list")["bots"][0]["category"] == "simple_utility"


def test_a_draft_of_a_deleted_bot_is_refused(perdure: Terminal) -> None:
    forged(perdure, answers=coding())
    assert perdure("new", "--reconfigure", "ada", "--answers", written([])) == 2
    session_id = perdure.json("draft", "list")["drafts"][0]["session_id"]
    assert perdure("bot", "delete", "ada", "--yes") == 0
    assert perdure("new", "--resume", session_id, "--yes") == 3
    assert "There is no bot 'ada'." in perdure.err
    assert f"perdure draft delete {session_id}" in perdure.err
    assert perdure("draft", "delete", session_id, "--yes") == 0
