"""The edge for values, to the letter: what is just allowed, and what is just not."""

import json

import pytest

from perdure import Invalid
from perdure.interfaces.api.json_body import DEEPEST, read_json


@pytest.mark.parametrize("innermost", ["", "1", '"x"'])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":[', "]}")])
def test_containers_are_nested_64_deep_and_no_deeper(begin: str, end: str, innermost: str) -> None:
    levels = DEEPEST // len(end)
    deep = begin * levels + innermost + end * levels
    assert read_json(deep.encode()) == json.loads(deep)
    with pytest.raises(Invalid, match="64 levels"):
        read_json(f"[{deep}]".encode())


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
def test_integers_of_64_bits_are_read(number: int) -> None:
    assert read_json(str(number).encode()) == number


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 5_000, f"-{'0' * 30}1"])
def test_larger_ones_are_not(number: str) -> None:
    with pytest.raises(Invalid):
        read_json(f'{{"a": [{number}]}}'.encode())


@pytest.mark.parametrize("deep", [0, 63, 64])
def test_what_is_innermost_is_seen_to_like_everything_else(deep: int) -> None:
    with pytest.raises(Invalid, match="NUL"):
        read_json(("[" * deep + '"\\u0000"' + "]" * deep).encode())
