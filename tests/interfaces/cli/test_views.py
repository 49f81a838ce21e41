"""Lists and single goals fit a terminal of 80 columns, and use the room of a wider one."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command_result import print_table
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.goals.display.listing import goal_table
from perdure.interfaces.cli.output.terminal import cut_to, width_of
from perdure.interfaces.cli.output.times import age, in_words, short_moment
from perdure.kernel.ports import Summary
from tests.interfaces.cli.terminal import Screen, Terminal

NOW_US = 1_794_816_000_000_000  # 2026-11-16T08:00:00Z
MINUTE_US = 60_000_000
DAY_US = 24 * 60 * MINUTE_US

FLOW = """
from perdure import flow

def price(item):
    return {"lamp": 300}[item]

@flow
async def order(goal, *items):
    prices = await goal.gather(*[goal.step(price, item) for item in items])
    return {"total": sum(prices), "items": "lamp " * 100}
"""


def goal(goal_id: str, text: str = "text", **fields: object) -> GoalView:
    summary = Summary(goal_id, text, "command", "done", NOW_US - 12 * MINUTE_US, NOW_US - 9 * MINUTE_US, 4, steps=12)
    return GoalView(replace(summary, **fields))  # type: ignore[arg-type]


REPORT = "20261116-074800-nightly-report-b7vlzh"
GOALS = [
    goal("20261116-074800-order-lamp-ql3xyz", "order('lamp', 'table')", status="waiting", waiting_for="person"),
    goal(REPORT, status="failed", detail="KeyError: 'price' (report.py, line 12) while the total was computed"),
    goal("20261110-091201-import-b2rvmq", "import the customers", created_us=NOW_US - 6 * DAY_US),
]
LONGEST = goal("20261116-074800-a-name-that-goes-on-and-on-and-o-b7vlzh", status="waiting", waiting_for="person")


def listed(goals: list[GoalView], columns: int) -> list[str]:
    screen = Screen()
    print_table(goal_table(goals, NOW_US, columns), screen)
    assert max(map(width_of, screen.lines)) <= columns
    return screen.lines


def test_a_list_at_80_columns_has_one_line_a_goal_and_the_failure_below_it() -> None:
    assert listed(GOALS, 80) == [
        "goal                                   status           started       took",
        "20261116-074800-order-lamp-ql3xyz      waiting: person  12m ago       12m 00s",
        "20261116-074800-nightly-report-b7vlzh  failed           12m ago       3m 00s",
        "  KeyError: 'price' (report.py, line 12) while the total was computed",
        "20261110-091201-import-b2rvmq          done             Nov 10 08:00  5d 23h",
    ]


def test_a_wide_list_uses_the_room_for_the_text_and_the_failure() -> None:
    assert listed(GOALS, 127) == [
        "goal                                   status           started       took     calls  text",
        "20261116-074800-order-lamp-ql3xyz      waiting: person  12m ago       12m 00s  12     order('lamp', 'table')",
        "20261116-074800-nightly-report-b7vlzh  failed           12m ago       3m 00s   12     KeyError: 'price' "
        "(report.py, line 12) w…",
        "20261110-091201-import-b2rvmq          done             Nov 10 08:00  5d 23h   12     import the customers",
    ]


def test_a_failure_with_fewer_than_40_columns_beside_its_goal_is_below_it() -> None:
    short = goal("20261116-074800-report-b7vlzh", "report()", status="failed", detail="KeyError: 'price' of the lamp")
    assert listed([short], 80) == [
        "goal                           status  started  took    calls  text",
        "20261116-074800-report-b7vlzh  failed  12m ago  3m 00s  12     report()",
        "  KeyError: 'price' of the lamp",
    ]


def test_the_longest_id_stays_whole_at_80_columns() -> None:
    (_, line) = listed([LONGEST], 80)
    assert line == f"{LONGEST.id}  waiting: person"


def test_a_file_gets_every_column_without_tabs_and_whole_ids() -> None:
    table = goal_table([*GOALS, LONGEST], NOW_US, None)
    assert table.headers == ("goal", "status", "started", "took", "calls", "text")
    assert [row[0] for row in table.rows] == [each.id for each in (*GOALS, LONGEST)]
    assert not any("\t" in cell for row in table.rows for cell in row)
    assert table.rows[0][2] == "2026-11-16 07:48:00"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (6, "6 ms"),
        (3500, "3.5 s"),
        (192_000, "3m 12s"),
        (59_970, "1m 00s"),
        (3_900_000, "1h 05m"),
        (183_600_000, "2d 03h"),
    ],
)
def test_a_duration_is_short(milliseconds: int, text: str) -> None:
    assert in_words(milliseconds) == text


def test_a_moment_is_an_age_today_and_a_date_before() -> None:
    moments = [NOW_US - 5_000_000, NOW_US - 3 * 60 * MINUTE_US, NOW_US - DAY_US, NOW_US - 400 * DAY_US]
    said = [short_moment(each, NOW_US) for each in moments]
    assert said == ["5s ago", "3h ago", "Nov 15 08:00", "2025-10-12"]
    assert age(NOW_US - 4 * DAY_US, NOW_US) == "4d ago"


def test_a_text_is_cut_by_the_columns_that_it_takes() -> None:
    assert cut_to("日本語のテキスト", 8) == "日本語…"
    assert cut_to("fits", 4) == "fits"


@pytest.fixture
def ordered(perdure: Terminal, ready: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A goal that is done, with a long value, and one that failed."""
    (ready / "orders_of_views.py").write_text(FLOW)
    monkeypatch.syspath_prepend(str(ready))
    assert perdure("run", "--flow", "orders_of_views:order", "--args", '["lamp", "lamp"]', "--key", "k-1") == 0
    done = perdure.newest()
    assert perdure("run", "--flow", "orders_of_views:order", "--args", '["lamp", "a table that nobody knows"]') == 1
    return done, perdure.newest()


@pytest.mark.parametrize("columns", [80, 120])
def test_show_fits_the_terminal(
    ordered: tuple[str, str], monkeypatch: pytest.MonkeyPatch, ready: Path, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for goal_id in ordered:
        monkeypatch.setattr(sys, "stdout", screen := Screen())
        assert run(["goal", "show", goal_id]) == 0
        shown = [line.rstrip() for line in screen.lines]
        assert max(map(len, shown)) <= columns, shown
        assert shown[0].startswith(f"{goal_id}: ")
        assert any(re.fullmatch(r"started +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \(\d+s ago\)", line) for line in shown)
        value = next((n for n, line in enumerate(shown) if line.startswith("value ")), None)
        assert value is None or shown[value + 1].startswith(" " * len("started  "))
        assert str(ready) in "".join(line.strip() for line in shown).replace("folder", "")
        assert any(re.search(r"2-[45] +g1.0/price#0 +step, once +done +1 ", line) for line in shown), "\n".join(shown)


def test_show_has_the_value_shortened_and_the_failure_with_its_line(
    perdure: Terminal, ordered: tuple[str, str]
) -> None:
    done, failed = ordered
    perdure("goal", "show", done)
    assert re.search(r'^value +\{"total": 600, "items": "lamp .*…$', perdure.out, re.MULTILINE)
    assert re.search(r"^key +k-1$", perdure.out, re.MULTILINE)
    assert perdure.json("goal", "show", done, "--output", "value")["output"]["total"] == 600
    perdure("goal", "show", failed)
    assert re.search(r"^failed +.*KeyError.*orders_of_views.py, line \d+", perdure.out, re.MULTILINE)


def test_the_events_of_a_step_are_a_range_over_all_its_tries(perdure: Terminal) -> None:
    plan = "goal: g\nsteps:\n  - {id: a, exec: [sh, -c, 'exit 3'], retry: {attempts: 2}}\n  - {id: b, wait: 1h}\n"
    Path("plan.yaml").write_text(plan)
    perdure("run", "--plan", "plan.yaml")
    perdure("goal", "show", "20")
    assert re.search(r"^2-6 +a +exec, once +failed: exit 3 +2 ", perdure.out, re.MULTILINE), perdure.out
    assert re.search(r"^3- +b +wait +waits until", perdure.out, re.MULTILINE)


def test_a_list_is_filtered_by_words_and_times(perdure: Terminal) -> None:
    perdure("run", "--", "true")
    perdure("run", "--", "false")
    assert [each["status"] for each in perdure.goals("--status", "failed,done")] == ["failed", "done"]
    assert [each["status"] for each in perdure.goals("--status", "failed", "--status", "waiting")] == ["failed"]
    assert perdure.goals("--until", "1h") == perdure.goals("--flow", "x") == perdure.goals("--tag", "t") == []
    assert len(perdure.goals("--since", "1h", "--limit", "5")) == 2
    assert perdure("goal", "list", "--since", "soon") == 2
    assert "a duration such as 2h" in perdure.err
