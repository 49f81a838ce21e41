"""Plan files: what is written is what is meant, and what makes no sense is refused with its line."""

import contextlib
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure import Invalid
from perdure.minds.plan.plan import Condition, Exec, Pause, Question, StepWork, UseTool
from perdure.minds.plan.plan_file import Plan, PlanStep, parse_plan, plan_text
from perdure.minds.retry import Retry

WHOLE = """\
goal: nightly report
steps:
  - id: fetch
    exec: ["curl", "-fsS", "https://example.org/data"]
    effect: idempotent
    retry: {attempts: 4, initial: 10s}
    timeout: 2m
  - id: send
    needs: [fetch]
    exec: ./send.sh "a b"
    check: ./was-it-sent.sh
    if: {step: fetch, is: done}
    env: {MODE: fast, LEVEL: 3}
    cwd: out/here
  - id: sure
    ask: {question: "Publish?", options: [yes, no]}
  - id: later
    wait: 1d
  - id: look
    tool: read_file
    with: {path: a.txt, lines: [1, 2.5, true, no, null, "7"]}
"""


def plan(steps: str) -> str:
    return "goal: g\nsteps:\n" + textwrap.indent(textwrap.dedent(steps).strip("\n"), "  ")


def work(line: str) -> StepWork:
    return parse_plan(plan(f"- {{id: a, {line}}}"), "p.yaml").steps[0].work


def refused(text: str) -> list[str]:
    with pytest.raises(Invalid) as caught:
        parse_plan(text, "p.yaml")
    assert caught.value.detail == caught.value.errors[0]
    return [*caught.value.errors]


def test_the_whole_format_is_read() -> None:
    arguments = {"path": "a.txt", "lines": [1, 2.5, True, "no", None, "7"]}
    assert parse_plan(WHOLE, "p.yaml") == Plan(
        "nightly report",
        (
            PlanStep(
                "fetch",
                Exec(("curl", "-fsS", "https://example.org/data"), timeout_s=120),
                effect="idempotent",
                retry=Retry(4, initial=10),
            ),
            PlanStep(
                "send",
                Exec(
                    ("./send.sh", "a b"),
                    check=("./was-it-sent.sh",),
                    env={"MODE": "fast", "LEVEL": "3"},
                    cwd="out/here",
                ),
                needs=("fetch",),
                condition=Condition("fetch", "done"),
            ),
            PlanStep("sure", Question("Publish?", ("yes", "no"))),
            PlanStep("later", Pause(seconds=86_400)),
            PlanStep("look", UseTool("read_file", arguments)),
        ),
    )


def test_a_plan_that_was_stored_is_read_again() -> None:
    assert parse_plan(WHOLE, "p.yaml") == parse_plan(plan_text(WHOLE.encode(), "other"), "plan")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("exec: [sleep, 1, no, true, 010]", Exec(("sleep", "1", "no", "true", "010"))),
        ("exec: a 'b c'", Exec(("a", "b c"))),
        ("exec: ['a', '|', '$B'], check: [c, '>', d]", Exec(("a", "|", "$B"), check=("c", ">", "d"))),
        ("exec: 'a | b', shell: true", Exec(("a | b",), is_shell=True)),
        ("exec: a, shell: false", Exec(("a",))),
        ("exec: 'a | b', check: 'c && d', shell: true", Exec(("a | b",), is_shell=True, check=("sh", "-c", "c && d"))),
        ("exec: a, cwd: b/../c", Exec(("a",), cwd="b/../c")),
        ("exec: a, cwd: /b", Exec(("a",), cwd="/b")),
        ("ask: {question: 'Sure?'}", Question("Sure?")),
        ("wait: 90s", Pause(seconds=90)),
        ("wait: 2h", Pause(seconds=7200)),
        ("wait: 250ms", Pause(seconds=0.25)),
        ("exec: a, timeout: 2.5s", Exec(("a",), timeout_s=2.5)),
        ("wait: 2000-01-01T01:00:00.5+01:00", Pause(until_us=946_684_800_500_000)),
        ("tool: x", UseTool("x")),
    ],
)
def test_what_a_step_does_is_read(line: str, expected: StepWork) -> None:
    assert work(line) == expected


@pytest.mark.parametrize("options", ["", ", options: [yes, no]"])
def test_a_condition_may_look_at_an_answer(options: str) -> None:
    text = plan(
        f"- {{id: a, exec: x, needs: [b], if: {{step: b, answer: yes}}}}\n- {{id: b, ask: {{question: q{options}}}}}"
    )
    assert parse_plan(text, "p").steps[0].condition == Condition("b", answer="yes")


def test_the_goal_may_be_a_word_that_other_yaml_takes_for_a_boolean() -> None:
    assert parse_plan("goal: on\nsteps: [{id: off, exec: [x]}]", "p").steps[0].id == "off"


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ("- {id: a, exec: x, need: [b]}", "3: Step 'a' has no key 'need'; did you mean 'needs'?"),
        ("- {id: a, exec: x, zzz: 1}", "3: Step 'a' has no key 'zzz'."),
        ("- {exec: x}", "3: A step needs 'id'."),
        ("- {id: A, exec: x}", "3: 'A' is not a valid id"),
        ("- {id: ''  , exec: x}", "3: '' is not a valid id"),
        (f"- {{id: {'a' * 65}, exec: x}}", "is not a valid id"),
        ("- {id: a, exec: x}\n- {id: a, exec: x}", "4: There are two steps 'a'; the other is on line 3."),
        ("- {id: a-b, exec: x}\n- {id: a_b, exec: x}", "4: Steps 'a-b' and 'a_b' would both set PERDURE_OUT_A_B."),
        ("- {id: a, exec: x, needs: [fetsh]}\n- {id: fetch, exec: x}", "which is not a step; did you mean 'fetch'?"),
        ("- {id: a, exec: x, needs: b}", "3: 'needs' of step 'a': Expected a list, found 'b'."),
        ("- {id: a, exec: x, needs: [b, b]}\n- {id: b, exec: x}", "3: 'b' is in this list twice."),
        ("- {id: a, exec: x, needs: [a]}", "3: Steps need each other in a circle: a needs a."),
        ("- {id: a, exec: x, if: {step: b, is: done}}", "3: The if of step 'a' refers to 'b', which is not a step."),
        ("- {id: a, exec: x, if: {step: b, is: done}}\n- {id: b, exec: x}", "3: The if of step 'a' refers to 'b'; add"),
        ("- {id: a, exec: x, if: {step: b}}", "3: 'if' of step 'a' has one of 'is' or 'answer'; this one has neither."),
        ("- {id: a, exec: x, if: {step: b, is: done, answer: x}}", "'is' or 'answer'; this one has both."),
        (
            "- {id: a, exec: x, if: {step: b, answer: x}}\n- {id: b, ask: {question: q}}",
            "3: The if of step 'a' refers to",
        ),
        (
            "- {id: a, exec: x, needs: [b], if: {step: b, answer: x}}\n- {id: b, exec: x}",
            "3: The if of step 'a' refers to the answer to 'b', which is not a question; use 'is'.",
        ),
        (
            "- {id: a, exec: x, needs: [b], if: {step: b, answer: c}}\n- {id: b, ask: {question: q, options: [d, e]}}",
            "3: The if of step 'a' refers to the answer 'c'; 'b' has the options d, e.",
        ),
        ("- {id: a, exec: x, needs: [b], if: {step: b, answer: ''}}\n- {id: b, ask: {question: q}}", "an empty one"),
        ("- {id: a, exec: x, if: {is: done}}", "3: 'if' of step 'a' needs 'step'."),
        ("- {id: a, exec: x, if: {step: b, is: ok}}", "3: Expected done or failed or skipped, found 'ok'."),
        ("- {id: a}", "3: A step has one of exec, ask, wait or tool; this one has none of them."),
        ("- {id: a, exec: x, wait: 1s}", "this one has exec and wait."),
        ("- {id: a, exec: []}", "3: A command needs the name of a program."),
        ("- {id: a, exec: ['']}", "3: A command needs the name of a program."),
        ("- {id: a, exec: ' '}", "3: Expected a string that is not empty, found an empty one."),
        ("- {id: a, exec: }", "3: 'exec' of step 'a': Expected a string, found nothing."),
        ("- {id: a, exec: [x, {y: 1}]}", "3: Expected a string, found a mapping."),
        ('- {id: a, exec: "x \'y"}', "3: The command cannot be split into words: no closing quotation."),
        ("- {id: a, exec: x | y}", "3: | is shell syntax"),
        ("- {id: a, exec: x, check: test -e $A}", "3: $A is shell syntax"),
        ("- id: a\n  exec: |\n    x\n    y", "4: A line end is shell syntax"),
        ("- {id: a, exec: [x], shell: true}", "3: With shell: true the command is one text, not a list."),
        ("- {id: a, exec: x, shell: yes}", "3: Expected true or false, found 'yes'."),
        ("- {id: a, exec: x, shell: 'true'}", "3: Expected true or false, found 'true'."),
        ("- {id: a, exec: x, effect: twice}", "3: Expected pure or idempotent or once, found 'twice'."),
        ("- {id: a, exec: x, retry: 3}", "3: 'retry' of step 'a' must be a mapping (key: value), not '3'."),
        ("- {id: a, exec: x, retry: {initial: 1s}}", "3: 'retry' of step 'a' needs 'attempts'."),
        (
            "- {id: a, exec: x, retry: {attempts: -1}}",
            "3: 'attempts' of 'retry' of step 'a': Expected a whole number from 0 to 9999",
        ),
        (
            "- {id: a, exec: x, retry: {times: 3, wait: 1s}}",
            "3: 'retry' of step 'a' has no key 'times'. Use 'attempts', which counts the first attempt too",
        ),
        (
            "- {id: a, exec: x, retry: {attempts: 2, wait: 1s}}",
            "3: 'retry' of step 'a' has no key 'wait'. Use 'initial'",
        ),
        ("- {id: a, exec: x, retry: {attempts: 0}}", "3: 'attempts' of 'retry' of step 'a': Expected at least 1"),
        (
            "- {id: a, exec: x, retry: {attempts: 2, initial: soon}}",
            "3: 'initial' of 'retry' of step 'a': Expected a duration such as 500ms, 10s, 5m, 2h or 1d, found 'soon'.",
        ),
        ("- {id: a, exec: x, retry: {attempts: 2, deadline: 99999d}}", "3: A duration is at most 36500d"),
        ("- {id: a, exec: x, retry: {attempts: 2, factor: much}}", "3: Expected a number, found 'much'."),
        ("- {id: a, exec: x, retry: {attempts: 2, factor: 0.5}}", "3: Invalid retry: factor must be a number from 1"),
        (
            "- {id: a, exec: x, retry: {attempts: 2, initial: 1m, maximum: 1s}}",
            "3: 'retry' of step 'a': Invalid retry: initial (60 s) is above maximum (1 s).",
        ),
        ("- {id: a, exec: x, retry: {attempts: 2, retry_on: []}}", "3: Invalid retry: retry_on is empty"),
        ("- {id: a, exec: x, retry: {attempts: 2, retry_on: [a, a]}}", "3: 'a' is in this list twice."),
        ("- {id: a, exec: x, retry: {attempts: '3'}}", "3: Expected a whole number from 0 to 9999, found '3'."),
        ("- {id: a, wait: 1970-01-02T00:00:00Z}", "3: Expected a time between 1971 and 9998"),
        ("- {id: a, exec: x, timeout: 10}", "3: Expected a duration such as 500ms, 10s, 5m, 2h or 1d, found '10'."),
        ("- {id: a, exec: x, timeout: 0s}", "3: A timeout must be longer than 0s"),
        ("- {id: a, wait: 99999d}", "3: A duration is at most 36500d"),
        ("- {id: a, wait: soon}", "3: Expected a duration such as 10s or a time such as"),
        ("- {id: a, wait: 2030-01-01T00:00:00}", "has no time zone"),
        ("- {id: a, wait: 1s, timeout: 1s}", "3: 'timeout' goes with exec, not with wait."),
        ("- {id: a, exec: x, with: {}}", "3: 'with' goes with tool, not with exec."),
        ("- {id: a, tool: x, with: [1]}", "3: with must be a mapping (key: value), not a list."),
        ("- {id: a, tool: x, with: {n: 99999999999999999999}}", "3: A whole number must fit into 64 bits"),
        ("- {id: a, tool: x, with: {m: {k: [1]}, n: 1e999}}", "3: This number is too big"),
        ("- {id: a, ask: 'Sure?'}", "3: 'ask' of step 'a' must be a mapping (key: value), not 'Sure?'."),
        ("- {id: a, ask: {options: [a]}}", "3: 'ask' of step 'a' needs 'question'."),
        ("- {id: a, ask: {question: q, options: []}}", "3: A list of options needs at least one"),
        ("- {id: a, exec: x, cwd: ..}", "3: cwd must lie inside the goal's folder, found '..'."),
        ("- {id: a, exec: x, cwd: b/../../c}", "3: cwd must lie inside the goal's folder"),
        ("- {id: a, exec: x, env: {1A: x}}", "3: '1A' is not a valid name of an environment variable."),
        ("- {id: a, exec: x, env: {PERDURE_OUT_B: x}}", "3: 'PERDURE_OUT_B' is set by Perdure itself"),
        ("- {id: a, exec: x, env: {PERDURE_GOAL_ID: x}}", "3: 'PERDURE_GOAL_ID' is set by Perdure itself"),
        ("- {id: a, exec: x, env: {PERDURE_LEFT_OUT: x}}", "3: 'PERDURE_LEFT_OUT' is set by Perdure itself"),
        ("- {id: a, exec: x, id: b}", "3: Step 'a' has the key 'id' twice."),
        ("- {id: a, exec: x, [b]: c}", "3: A key must be text, not a list."),
        ("- hello", "3: A step must be a mapping (key: value), not 'hello'."),
        ('- {id: a, exec: ["x\\0"]}', "3: A text contains a NUL character."),
        ('- {id: a, exec: ["\\ud800"]}', "3: A text contains a lone surrogate"),
        ("- &a {id: a, exec: x}", "3: Anchors (&) and aliases (*) are not allowed"),
        ("- {id: a, exec: *b}", "3: Anchors (&) and aliases (*) are not allowed"),
        ("- {id: !!str a, exec: x}", "3: Tags (tag:yaml.org,2002:str) are not allowed"),
        ("- {id: a, exec: x", "not valid YAML"),
        ("- id: a\n\texec: x", "4: A tab cannot indent in YAML; use spaces."),
    ],
)
def test_a_step_that_is_invalid_is_refused_with_its_line(steps: str, error: str) -> None:
    line, _, sentence = error.partition(": ") if error[0].isdigit() else ("", "", error)
    found = refused(plan(steps))[0]
    assert found.startswith(f"p.yaml:{line}")
    assert sentence in found


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "p.yaml:1: The file is empty"),
        ("# nothing", "p.yaml:1: The file is empty"),
        ("- a", "p.yaml:1: A plan must be a mapping"),
        ("goal: g", "p.yaml:1: A plan needs 'steps'."),
        ("steps: [{id: a, exec: x}]", "p.yaml:1: A plan needs 'goal'."),
        ("goal: g\nsteps: []", "p.yaml:2: 'steps' must be a list of at least one step, found an empty list."),
        ("goal: g\nsteps: {a: 1}", "p.yaml:2: 'steps' must be a list of at least one step, found a mapping."),
        ("goal: g\nsteps:", "found nothing."),
        ("goal: g\nsteps: [{id: a, exec: x}]\njobs: 3", "p.yaml:3: A plan has no key 'jobs'. Valid keys: goal, steps."),
        ("goal: g\n--- \ngoal: h", "p.yaml:2: This is not valid YAML"),
        ("goal: g\n\0", "p.yaml:2: The file contains a NUL character."),
        ("goal: g\n\udc80", "p.yaml:2: The file is not UTF-8."),
        ("goal: g\n\x07", "p.yaml:2: The character U+0007 is not allowed in YAML."),
        ('goal: g\nsteps: "\\Uffffffff"', "p.yaml:2: This is not valid YAML"),
        (f"%YAML {'9' * 5000}.1\n---\ngoal: g", "p.yaml:1: This is not valid YAML"),
        (f"[{'a,' * 20_001}]", "p.yaml:1: The file has more than 20000 values."),
        (f"goal: g\nsteps: [{'a,' * 1001}]", "p.yaml:2: A plan has at most 1000 steps, found 1001."),
        ("[" * 50_000, "p.yaml:1: This is nested more than 32 levels deep."),
        ("#" * (1024 * 1024 + 1), "p.yaml:1: The file is larger than 1024 KiB."),
    ],
)
def test_a_file_that_is_no_plan_is_refused(text: str, error: str) -> None:
    assert error in refused(text)[0]


@settings(deadline=None)  # a busy machine is no failure
@given(st.text() | st.text(alphabet="goalsteps:idxc[]{}-&*!|>%@'\"\\ \n\t#,?~0"))
def test_any_text_is_a_plan_or_is_refused(text: str) -> None:
    with contextlib.suppress(Invalid):
        parse_plan(text, "p.yaml")


@settings(deadline=None)  # a busy machine is no failure
@given(st.integers(0, len(WHOLE)), st.integers(0, 9), st.text(max_size=3))
def test_a_plan_with_a_slip_of_the_pen_is_a_plan_or_is_refused(at: int, gone: int, new: str) -> None:
    with contextlib.suppress(Invalid):
        parse_plan(WHOLE[:at] + new + WHOLE[at + gone :], "p.yaml")


def test_every_problem_is_listed_in_the_order_of_the_file() -> None:
    errors = refused(plan("- {id: a, exec: x, needs: [c], cwd: ../x}\n- {id: B, exec: []}\n- {id: d, wait: x, foo: 1}"))
    assert [error.split(":")[1] for error in errors] == ["3", "3", "4", "4", "5", "5"]


def test_no_more_problems_are_listed_than_anybody_reads() -> None:
    assert len(refused(plan("- hello\n" * 1000))) == 100


def test_a_cycle_is_listed_in_order() -> None:
    steps = "- {id: a, exec: x, needs: [c]}\n- {id: b, exec: x, needs: [a]}\n- {id: c, exec: x, needs: [b]}"
    assert refused(plan(steps)) == ["p.yaml:3: Steps need each other in a circle: a needs c needs b needs a."]


def test_two_cycles_are_both_found() -> None:
    steps = "- {id: a, exec: x, needs: [a]}\n- {id: b, exec: x, needs: [c]}\n- {id: c, exec: x, needs: [b]}"
    assert len(refused(plan(steps))) == 2


def test_a_step_that_cannot_be_read_is_one_problem() -> None:
    assert len(refused(plan("- hello"))) == 1


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(Invalid, match="p.yaml:2: The file is not UTF-8."):
        plan_text(b"goal: g\n\xff", "p.yaml")


def test_bytes_that_are_too_many_are_refused() -> None:
    with pytest.raises(Invalid, match="larger than 1024 KiB"):
        plan_text(b" " * (1024 * 1024 + 1), "p.yaml")


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    text = plan_text(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode(), "p.yaml")
    assert parse_plan(text, "p.yaml") == parse_plan(WHOLE, "p.yaml")


def test_every_key_of_a_retry_policy_is_read() -> None:
    given = "attempts: 5, initial: 500ms, factor: 1.5, maximum: 5m, jitter: 0.1, deadline: 1h"
    kinds = "retry_on: [timeout, exit], give_up_on: denied"
    step = parse_plan(plan(f"- {{id: a, exec: x, retry: {{{given}, {kinds}}}}}"), "p.yaml").steps[0]
    assert step.retry == Retry(
        5,
        initial=0.5,
        factor=1.5,
        maximum=300,
        jitter=0.1,
        deadline=3600,
        retry_on=("timeout", "exit"),
        give_up_on="denied",
    )


def test_the_former_keys_of_a_retry_are_read_from_stored_plans_only() -> None:
    text = plan("- {id: a, exec: x, retry: {times: 3, wait: 10s}}")
    assert parse_plan(text, "p", is_stored=True).steps[0].retry == Retry(4, initial=10, factor=1)
    with pytest.raises(Invalid):
        parse_plan(text, "p")
