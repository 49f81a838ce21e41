"""What may be done without asking."""

from pathlib import Path

from perdure.kernel.ports import Policy
from perdure.tools.policy import AllowAll
from tests.tools.calls import call, shell


def test_what_a_person_started_is_allowed(tmp_path: Path) -> None:
    policy: Policy = AllowAll()
    assert policy.judge(call(tmp_path, shell("true")).call) == "allow"
