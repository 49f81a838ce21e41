"""A home that is not opened by `async with` says how to open it."""

from pathlib import Path
from typing import Any

import pytest

from perdure import Invalid, Perdure

USE = r"async with Perdure\.open\(…\) as p:"


@pytest.mark.parametrize("name", ["goals", "memory", "forge", "anything"])
def test_an_attribute_of_a_home_that_is_not_open_says_how_to_open_it(name: str) -> None:
    opening: Any = Perdure.open()
    with pytest.raises(Invalid, match=f"no `{name}`. Open it: {USE}"):
        getattr(opening, name)


async def test_a_home_that_is_awaited_says_how_to_open_it() -> None:
    opening: Any = Perdure.open()
    with pytest.raises(Invalid, match=f"cannot be awaited: .* {USE}"):
        await opening


def test_a_home_in_a_plain_with_block_says_how_to_open_it() -> None:
    opening: Any = Perdure.open()
    with pytest.raises(Invalid, match=USE), opening:
        pass


async def test_a_home_is_opened_once_by_each_call(tmp_path: Path) -> None:
    opening = Perdure.open(tmp_path / "home")
    async with opening as p:
        assert await p.goals.list() == []
    with pytest.raises(Invalid, match="was already entered"):
        async with opening:
            pass


async def test_an_error_in_the_block_is_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with Perdure.open(tmp_path / "home"):
            raise KeyError


async def test_an_open_home_and_its_goals_are_shown_by_their_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Perdure.open(home) as p:
        assert (repr(p), repr(p.goals)) == (f"<Perdure home={str(home)!r}>", f"<goals of {home}>")
