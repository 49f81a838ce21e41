"""`perdure goal decide … skip --value`: validated by the code of the flow before anything is recorded."""

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal

SHOP = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from threading import Lock

from perdure import flow


@dataclass
class Receipt:
    total: Decimal
    day: date


def pay() -> Receipt:
    return Lock()


@flow
async def buy(goal) -> str:
    print("buying")
    return str(await goal.step(pay))
"""
GOOD, BAD = '{"total": "1.50", "day": "2026-11-16"}', '{"total": "1.50", "day": "someday"}'


def forget() -> None:
    """Let the module be imported anew, as another process would."""
    sys.modules.pop("skipshop", None)
    importlib.invalidate_caches()
    for path in [path for path in registry._FLOWS if path.startswith("skipshop:")]:
        del registry._FLOWS[path]


@pytest.fixture
def module(ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = ready / "skipshop.py"
    path.write_text(SHOP)
    forget()
    yield path
    forget()


def unknown(perdure: Terminal) -> str:
    assert perdure("run", "--flow", "skipshop:buy") == 5
    forget()
    return perdure.newest()


def seq(perdure: Terminal, goal: str) -> int:
    perdure("goal", "show", goal, "--json")
    return int(json.loads(perdure.out)["last_seq"])


@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_value_that_does_not_fit_is_rejected_and_a_better_one_is_taken(
    perdure: Terminal, module: Path, more: list[str]
) -> None:
    assert module.exists()
    goal = unknown(perdure)
    before = seq(perdure, goal)
    assert perdure("goal", "decide", goal, "skip", "--value", BAD, *more) == 2
    assert "The value for /pay#0 does not fit what its function returns: day: " in perdure.err
    assert "Nothing was recorded" in perdure.err
    assert "buying" not in perdure.out, "what the flow prints is not the answer of this command"
    assert seq(perdure, goal) == before
    assert perdure("goal", "decide", goal, "skip", "--value", GOOD, "--resume") == 0
    assert "Receipt(total=Decimal('1.50'), day=datetime.date(2026, 11, 16))" in perdure.out


@pytest.mark.parametrize("value", [[], ["--value", "null"]])
def test_a_step_with_a_result_is_not_skipped_without_a_value(perdure: Terminal, module: Path, value: list[str]) -> None:
    assert module.exists()
    goal = unknown(perdure)
    before = seq(perdure, goal)
    assert perdure("goal", "decide", goal, "skip", *value) == 2
    needed = "/pay#0 returns a result that is not null, of type Receipt: give it as JSON (--value)."
    assert f"{needed} Nothing was recorded." in perdure.err
    assert perdure("goal", "show", goal) == 0
    assert re.search(r"decide \S+ \S+ skip --value JSON", perdure.out + perdure.err)
    assert seq(perdure, goal) == before


def test_without_the_code_the_value_is_recorded_and_a_retry_asks_for_another(perdure: Terminal, module: Path) -> None:
    goal = unknown(perdure)
    away = module.rename(module.with_suffix(".away"))
    assert perdure("goal", "decide", goal, "skip", "--value", BAD) == 0
    away.rename(module)
    assert perdure("goal", "resume", goal) == 1
    assert "The value that was given for /pay#0 does not fit" in perdure.err + perdure.out
    forget()
    assert perdure("goal", "retry", goal) == 5
    forget()
    assert perdure("goal", "decide", goal, "skip", "--value", GOOD, "--resume") == 0


def test_without_the_code_a_missing_value_is_rejected_by_the_recorded_type(perdure: Terminal, module: Path) -> None:
    goal = unknown(perdure)
    before = seq(perdure, goal)
    away = module.rename(module.with_suffix(".away"))
    assert perdure("goal", "decide", goal, "skip") == 2
    assert "/pay#0 returns a result that is not null, of type Receipt: give it as JSON (--value)." in perdure.err
    assert seq(perdure, goal) == before
    away.rename(module)
    assert perdure("goal", "decide", goal, "skip", "--value", GOOD, "--resume") == 0
