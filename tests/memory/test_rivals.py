"""Many processes at once: the same thing is stored once, different things each."""

from pathlib import Path

import pytest

from perdure import read_records
from tests import children
from tests.crash.goals import rest_of
from tests.memory import jobs

MANY = 50


@pytest.mark.parametrize("kinds", [1, MANY])
def test_fifty_processes_store_what_is_the_same_once(tmp_path: Path, kinds: int) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(MANY)
    rivals = [
        children.start(jobs.add_at_once, tmp_path, f"key {number % kinds}", barrier, theirs) for number in range(MANY)
    ]
    theirs.close()
    answers = list(rest_of(ours))
    assert [children.end_of(rival) for rival in rivals] == [0] * MANY
    added = [answer["id"] for answer in answers if answer["added"]]
    assert len(answers) == MANY
    assert sorted(added) == sorted(record["id"] for record in read_records(tmp_path / "memory.jsonl"))
    assert len(added) == kinds
    assert {answer["existing_id"] for answer in answers if not answer["added"]} <= set(added)
