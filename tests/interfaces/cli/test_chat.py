"""`perdure chat`: one message, a terminal, and the same with a server."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from perdure.app import Perdure
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from tests.interfaces.cli.on_terminal import CTRL_C, ENTER, Program, Start
from tests.interfaces.cli.remote import Both
from tests.interfaces.cli.terminal import Terminal

LONG = "A long answer with many words. " * 8


@pytest.fixture
def server(default_model: ModelServer) -> ModelServer:
    return default_model


def said(perdure: Terminal, *arguments: str, code: int = 0) -> Terminal:
    assert perdure("chat", *arguments) == code
    return perdure


def asked(perdure: Terminal, *arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said(perdure, *arguments, "--json", code=code).out)
    return found


def test_a_message_is_answered_and_the_conversation_continued(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    assert said(perdure, "Hello there").out == "Answer 1.\n"
    first = asked(perdure, "--continue", "And more?")
    assert (first["text"], first["waiting_for"]) == ("Answer 2.", "message")
    again = asked(perdure, "--resume", first["goal_id"], "Third?")
    assert (again["goal_id"], again["text"]) == (first["goal_id"], "Answer 3.")
    fork = asked(perdure, "--fork", f"{first['goal_id']}@4", "Or?")
    assert (fork["goal_id"] != first["goal_id"], fork["text"]) == (True, "Answer 2.")
    assert fork["goal_id"] in said(perdure, "--list").out


def listed(perdure: Terminal, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(perdure, *arguments)["conversations"]
    return found


def test_conversations_that_wait_for_something_else_are_listed_and_continued(
    perdure: Terminal, server: ModelServer
) -> None:
    server.script.add(
        ScriptedAnswer("First.", match="One thing"),
        ScriptedAnswer(calls=(ScriptedCall("exec", {"argv": ["true"]}),), match="Run it"),
        ScriptedAnswer(status=401, message="The key is wrong.", match="Three"),
        ScriptedAnswer("Third.", match="Again"),
    )
    first = asked(perdure, "One thing?")["goal_id"]
    second = asked(perdure, "Run it.", code=5)["goal_id"]
    third = asked(perdure, "Three things?", code=8)["goal_id"]
    found = listed(perdure, "--list")
    assert [each["goal"]["id"] for each in found] == [third, second, first]
    assert [each["goal"]["waiting_for"] for each in found] == ["model", "person", "message"]
    assert [each["title"] for each in listed(perdure, "--resume")] == ["Three things?", "Run it.", "One thing?"]
    assert asked(perdure, "--list", "--limit", "2")["has_more"]
    assert "waiting: person" in said(perdure, "--list").out
    assert asked(perdure, "--continue", "Again?")["goal_id"] == third


def test_conversations_with_all_bots_are_listed_with_the_name_of_the_bot(server: ModelServer, both: Both) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    wish = ("new", "I want a coding assistant", "--yes", "--engine", "builtin")
    slug = both.local_json(*wish)["result"]["bot_slug"]
    ids = [both.local_json("chat", *bot, "Hello there")["goal_id"] for bot in ((), (slug,), ())]
    listing = both.same_json("chat", "--list")
    assert [each["goal"]["id"] for each in listing["conversations"]] == ids[::-1]
    assert [each["goal"]["id"] for each in both.same_json("chat", slug, "--list")["conversations"]] == [ids[1]]
    found = both.same_json("chat", "--list", "--limit", "2")
    assert ([each["goal"]["bot"] for each in found["conversations"]], found["has_more"]) == ([None, slug], True)
    assert both.local("chat", "--list") == 0
    assert f"  {slug}  " in both.perdure.out


def test_an_ended_conversation_is_listed_and_not_continued(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    first, last = (asked(perdure, f"Question number {n}?")["goal_id"] for n in (1, 2))
    assert perdure("goal", "cancel", last) == 0
    assert [each["goal"]["status"] for each in listed(perdure, "--list")] == ["cancelled", "waiting"]
    assert asked(perdure, "--continue", "And more?")["goal_id"] == first


def test_an_empty_list_names_the_command_that_begins_a_conversation(perdure: Terminal, server: ModelServer) -> None:
    assert server.url
    assert "perdure chat assistant Hello" in said(perdure, "--list").out
    assert said(perdure, "no-such-bot", "--list", code=3).err


def frames(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_jsonl_prints_the_frames_of_the_socket(server: ModelServer, both: Both) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer \x1b {n}.") for n in (1, 2, 3)))
    for talk in (both.local, both.remote):
        assert talk("chat", "--jsonl", "Hello there") == 0
        found = frames(both.perdure.out)
        events = [frame["event"]["type"] for frame in found if frame["type"] == "event"]
        assert (events[:2], events[-1]) == (["goal", "message"], "model_turn")
        pieces = [frame["text"] for frame in found if frame["type"] in ("partial", "delta")]
        assert "".join(pieces) in found[-1]["event"]["payload"]["parts"][0]["text"]
    assert both.local("chat", "--json", "--jsonl", "Hello there") == 2


def test_jsonl_of_a_continued_conversation_begins_with_its_message(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(ScriptedAnswer("First."), ScriptedAnswer(calls=(ScriptedCall("exec", {"argv": ["true"]}),)))
    said(perdure, "Hello there")
    found = frames(said(perdure, "--continue", "--jsonl", "Run it.", code=5).out)
    events = [frame["event"] for frame in found if frame["type"] == "event"]
    assert (events[0]["type"], events[0]["payload"]["text"]) == ("message", "Run it.")
    assert "It waits for your approval of exec" in perdure.err


def test_escapes_of_a_model_are_shown_as_text(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(ScriptedAnswer("\x1b[31mred\x1b]8;;http://evil\x07 <script>"))
    shown = said(perdure, "Hello there").out
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


def test_a_call_that_waits_for_approval_is_exit_5(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(ScriptedAnswer(calls=(ScriptedCall("exec", {"argv": ["true"]}),)))
    assert asked(perdure, "Run it.", code=5)["waiting_for"] == "person"


def test_a_model_that_does_not_answer_is_exit_8(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(ScriptedAnswer(status=401, message="The key is wrong."))
    assert "perdure model login" in said(perdure, "Hello there", code=8).err


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a model server that does not run."""
    with ModelServer() as ended:
        url = ended.url
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    return url


def test_a_server_that_does_not_run_is_named_with_the_next_commands(
    perdure: Terminal, server: ModelServer, no_server: str
) -> None:
    assert server.url != no_server
    lines = said(perdure, "Hello there", code=8).err.splitlines()
    assert lines[0].startswith(f"perdure: openai:scripted cannot be reached at {no_server}: ")
    assert lines[1] == "  perdure model test openai:scripted"
    (goal,) = perdure.json("goal", "list")["goals"]
    assert lines[-1] == f"  perdure chat --resume {goal['id']}"


def test_a_chat_shows_that_it_waits_for_the_model(server: ModelServer, start: Start, no_server: str) -> None:
    assert server.url != no_server
    program = leading(start)
    program.press("Hello there", ENTER)
    program.until("Waiting for")
    program.until("tried 4 times")
    program.press(CTRL_C)
    program.until("assistant>")
    program.press("/exit", ENTER)
    assert program.end()[0] == 0


def test_without_a_model_nothing_is_recorded(perdure: Terminal) -> None:
    assert "No model is configured" in said(perdure, "Hello there", code=8).err
    assert perdure.json("goal", "list")["goals"] == []


def test_without_a_model_no_prompt_is_shown(start: Start, both: Both) -> None:
    for place in ((), ("--url", both.url)):
        code, shown, _ = start("chat", *place).end()
        assert (code, "perdure model default PROVIDER:NAME" in shown) == (8, True)
        assert "assistant>" not in shown


def test_what_cannot_be_a_conversation_is_rejected(perdure: Terminal, server: ModelServer) -> None:
    assert server.url
    assert "There is no terminal" in said(perdure, code=2).err
    assert "ID@SEQ" in said(perdure, "--fork", "x", "Hello there", code=2).err
    assert "no conversation" in said(perdure, "--continue", "Hello there", code=3).err
    assert said(perdure, "no-such-bot", "Hello there", code=3).err


def test_a_server_answers_as_a_home_does(server: ModelServer, both: Both) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    first = both.remote_json("chat", "Hello there")
    assert first["text"] == "Answer 1."
    assert both.remote_json("chat", "--continue", "More?")["text"] == "Answer 2."
    fork = both.remote_json("chat", "--fork", f"{first['goal_id']}@4", "Or?")
    assert (fork["goal_id"] != first["goal_id"], fork["text"]) == (True, "Answer 2.")
    found = both.remote_json("chat", "--list")
    assert [each["goal"]["id"] for each in found["conversations"]] == [fork["goal_id"], first["goal_id"]]
    assert found == both.local_json("chat", "--list")


def test_a_person_talks_stops_an_answer_approves_a_call_and_leaves(server: ModelServer, start: Start) -> None:
    call = ScriptedCall("exec", {"argv": ["echo", "hello"]})
    server.script.add(
        ScriptedAnswer("# First\n\nHello **you**."),
        ScriptedAnswer(LONG, hold_after=2),
        ScriptedAnswer(calls=(call,)),
        ScriptedAnswer("It said hello."),
    )
    program = start("chat")
    program.until("assistant>")
    program.press("Hello there", ENTER)
    program.until("Hello you.")
    program.press("More", ENTER)
    program.until("A long")
    program.press(CTRL_C)
    program.until("(stopped)")
    program.press("Run it.", ENTER)
    program.until("allow? [y/n]")
    program.press("y", ENTER)
    program.until("It said hello.")
    program.press("/nonsense", ENTER)
    program.until("Unknown command /nonsense. /help lists all.")
    program.press("/quit", ENTER)
    program.until("Did you mean /exit?")
    program.press("/exit", ENTER)
    code, shown, out = program.end()
    assert (code, "perdure chat --resume" in shown + out) == (0, True)


def leading(start: Start, *arguments: str) -> Program:
    """Start a conversation in a terminal, and wait for the prompt."""
    program = start("chat", *arguments)
    program.until("assistant>")
    return program


def test_a_call_is_shown_whole_before_it_is_approved(server: ModelServer, start: Start) -> None:
    long = "x" * 200
    server.script.add(
        ScriptedAnswer(calls=(ScriptedCall("exec", {"argv": ["echo", long]}),)), ScriptedAnswer("Denied.")
    )
    program = leading(start)
    program.press("Run it.", ENTER)
    assert long in program.until("allow? [y/n]").replace("\r\n", ""), "the terminal has wrapped it"
    program.press("n", ENTER)
    program.until("Denied.")
    program.press("/exit", ENTER)
    assert program.end()[0] == 0


def test_the_policy_is_changed_in_a_fork(perdure: Terminal, server: ModelServer, start: Start) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2)))
    program = leading(start)
    program.press("/policy", ENTER)
    program.until("Policy: that of the settings")
    program.press("Hello there", ENTER)
    program.until("Answer 1.")
    program.press("/policy nonsense", ENTER)
    program.until("Unknown policy preset")
    program.press("/policy read-only", ENTER)
    program.until("Policy: read-only, in the fork")
    program.press("Once more", ENTER)
    program.until("Answer 2.")
    program.press("/exit", ENTER)
    assert program.end()[0] == 0
    fork, first = (each["goal"] for each in listed(perdure, "--list"))
    assert fork["forked_from"]["goal_id"] == first["id"]
    assert perdure.json("goal", "show", fork["id"])["policy"]["preset"] == "read-only"


def test_a_word_that_is_not_a_bot_is_named_before_the_first_prompt(server: ModelServer, start: Start) -> None:
    assert server.url
    for flags, instead in (
        ((), "perdure chat assistant hi"),
        (("--continue",), "perdure chat --continue assistant hi"),
    ):
        code, shown, _ = start("chat", *flags, "hi").end()
        assert (code, instead in shown) == (3, True)
        assert "A single word is read as the name of a bot." in " ".join(shown.split())


async def begin(home: Path) -> None:
    """Begin a conversation that nothing answers, as after a kill before the answer is recorded."""
    async with Perdure.open(home) as p:
        new = await p.goals.conversations.new("Are you there?", model="openai:scripted")
        await p.goals.enqueue(new, queue="cli")


def test_an_answer_that_ended_with_its_process_is_resumed(server: ModelServer, ready: Path, start: Start) -> None:
    server.script.add(ScriptedAnswer("Answer 1."))
    asyncio.run(begin(ready.parent / "home"))
    program = start("chat", "--continue")
    shown = program.until("Answer 1.")
    assert "> Are you there?" in shown
    assert "This message has no answer yet. The model is asked again." in shown
    program.press("/exit", ENTER)
    assert program.end()[0] == 0


def test_a_terminal_that_closes_during_an_answer_leaves_a_message_that_is_asked_again(
    server: ModelServer, ready: Path, start: Start
) -> None:
    server.script.add(ScriptedAnswer("The first."), ScriptedAnswer(f"{LONG}\n\nThe second.", hold_after=2))
    assert ready
    program = leading(start)
    program.press("Hello there", ENTER)
    program.until("The first.")
    program.press("And more?", ENTER)
    program.until("A long")
    program.kill(signal.SIGHUP)
    assert program.end()[0] != 0
    server.release()
    again = start("chat", "--continue")
    shown = again.until("The second.")
    assert "> And more?" in shown
    assert "This message has no answer yet." in shown
    assert "The first." not in shown, "it answered another message"
    again.press("/exit", ENTER)
    assert again.end()[0] == 0


def test_a_model_that_failed_is_asked_again_when_the_conversation_is_continued(
    perdure: Terminal, server: ModelServer, start: Start
) -> None:
    server.script.add(ScriptedAnswer(status=401, message="The key is wrong."), ScriptedAnswer("Answer 1."))
    said(perdure, "Hello there", code=8)
    program = start("chat", "--continue")
    assert "The model is asked again." in program.until("Answer 1.")
    program.press("/exit", ENTER)
    assert program.end()[0] == 0


def test_a_fork_lists_the_events_and_says_where_both_conversations_are(
    perdure: Terminal, server: ModelServer, start: Start
) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2)))
    first = asked(perdure, "Hello there")["goal_id"]
    program = start("chat", "--continue", "--model", "openai-chat:other")
    assert "Hello there" in program.until("assistant>")
    program.press("/model", ENTER)
    program.until("Model: openai-chat:other")
    program.press("/fork", ENTER)
    listing = program.until("/fork 4 continues")
    assert "2  > Hello there" in listing
    assert "4  Answer 1." in listing
    program.press("/fork 4", ENTER)
    program.until(", after event 4.")
    program.until(first)
    program.press("/exit", ENTER)
    assert program.end()[0] == 0
    assert len(listed(perdure, "--list")) == 2


def test_a_call_whose_outcome_is_unknown_is_decided_in_place(server: ModelServer, ready: Path, start: Start) -> None:
    call = ScriptedCall("exec", {"argv": ["sh", "-c", "kill -9 $PPID"]})
    server.script.add(ScriptedAnswer(calls=(call,)), ScriptedAnswer("It was skipped."))
    assert ready
    program = start("chat")
    program.until("assistant>")
    program.press("Run it.", ENTER)
    program.until("allow? [y/n]")
    program.press("y", ENTER)
    assert program.end()[0] != 0, "the call has ended its own worker"
    again = start("chat", "--continue")
    again.until("Did the call have its effect?")
    again.press("skip", ENTER)
    again.until("It was skipped.")
    again.press("/exit", ENTER)
    assert again.end()[0] == 0


def test_options_of_a_continued_conversation_are_not_dropped(perdure: Terminal, server: ModelServer) -> None:
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in (1, 2, 3)))
    first = asked(perdure, "Hello there")["goal_id"]
    assert asked(perdure, "--resume", first, "third", "--model", "openai-chat:other")["text"] == "Answer 2."
    assert asked(perdure, "--resume", first, "fourth")["text"] == "Answer 3.", "a word is a message of a named one"
    assert "/policy changes it" in said(perdure, "--continue", "More?", "--policy", "ask", code=2).err
    assert [request.body["model"] for request in server.requests] == ["scripted", "other", "other"]


def six_answers(server: ModelServer) -> None:
    server.script.add(ScriptedAnswer("They asked twice.", match="PERSON:"))
    server.script.add(*(ScriptedAnswer(f"Answer {n}.") for n in range(1, 8)))


def test_a_conversation_is_compacted(perdure: Terminal, server: ModelServer, start: Start) -> None:
    six_answers(server)
    for n in range(1, 7):
        said(perdure, *(["--continue"] if n > 1 else []), f"Question number {n}?")
    program = start("chat", "--continue")
    assert "> Question number 6?" in program.until("Answer 6.")
    program.press("/compact", ENTER)
    program.until("They asked twice.")
    program.press("/compact", ENTER)
    program.until("There is nothing to summarise")
    program.press("And now?", ENTER)
    program.until("Answer 5.")  # the request has two turns fewer
    program.press("/exit", ENTER)
    assert program.end()[0] == 0


def test_slash_commands_work_with_a_server(server: ModelServer, start: Start, both: Both) -> None:
    six_answers(server)
    token = ("--url", both.url)
    program = leading(start, *token)
    for n in range(1, 7):
        program.press(f"Question {n}?", ENTER)
        program.until(f"Answer {n}.")
    for command, reply in (
        ("/cost", "tokens"),
        ("/model", "Model: openai:scripted"),
        ("/compact", "They asked twice."),
        ("/policy read-only", "Policy: read-only, in the fork"),
        ("/remember The cart caches prices.", "Remembered as"),
        ("/undo", "Continued before: Question 6?"),
        ("/retry", "Answer"),
        ("/clear", "begins a new conversation"),
        ("/approve", "No call waits"),
    ):
        program.press(command, ENTER)
        program.until(reply)
    program.press("/exit", ENTER)
    assert program.end()[0] == 0
