"""Kill -9 at every step of a rollback and an import with a key: the same call again makes one version, and says so."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from perdure import AssemblyResult, DatabaseClient
from perdure.app.builder.bots import Bots, open_bots
from perdure.bots.folder import verify
from perdure.kernel.ports import IdempotentCall
from tests import children
from tests.forge.bots import Home, emptied, home_at, ready, url_of

COMMITS = [
    ("sqlite", "store.commit.before", 1),
    *(("sqlite", "store.commit.after", number) for number in (1, 2, 3, 4)),
    *(("postgresql", "store.commit.after", number) for number in (1, 2, 4)),
]
"""The key, the version, that it is on disk, and the answer."""
ROLLBACK = ("forge.version.after", "forge.current.before", "bots.file.after", "bots.aside.before", "bots.aside.after")
IMPORT = ("forge.version.after", "bots.folder.after", "bots.file.after")


@dataclass(frozen=True)
class Place:
    """A home, and its database."""

    folder: Path
    url: str

    @property
    def archive(self) -> Path:
        return self.folder / "ada.zip"


def call_of(route: str, key: str = "k") -> IdempotentCall:
    return IdempotentCall(key, route, bytes(32))


async def with_bots(place: Place, act: Callable[[Bots], Awaitable[AssemblyResult]]) -> AssemblyResult:
    async with await DatabaseClient.create(place.url) as client:
        return await act(open_bots(client, place.folder / "bots"))


async def roll_back(place: Place) -> AssemblyResult:
    return await with_bots(place, lambda bots: bots.rollback("ada", 1, once=call_of("rollback")))


async def load(place: Place) -> AssemblyResult:
    data = place.archive.read_bytes()
    return await with_bots(place, lambda bots: bots.load_archive(data, once=call_of("import")))


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return url_of(kind, request, tmp_path)


@pytest.fixture
async def place(url: str, tmp_path: Path) -> Place:
    await emptied(url)
    async with await DatabaseClient.create(url) as client:
        await client.transaction(lambda tx: [tx.execute("DELETE FROM idempotency_keys")])
    async with home_at(tmp_path, url) as home:
        await home.assembler.assemble(ready(session_id="s"))
        home.edit("ada/SOUL.md", "## Purpose\n", "## Purpose\n\nAlso water the plants.\n")
        (tmp_path / "ada.zip").write_bytes(await home.assembler.export_bot("ada"))
    return Place(tmp_path, url)


async def numbers(home: Home, slug: str) -> list[int]:
    """The versions of a bot that is well."""
    assert verify(home.path(slug)) == []
    return [version.number for version in await home.store.versions(slug)]


@pytest.mark.parametrize(("kind", "point", "hits"), [*(("sqlite", point, 1) for point in ROLLBACK), *COMMITS])
async def test_a_rollback_with_a_key_makes_one_version(place: Place, point: str, hits: int) -> None:
    children.run_until(point, roll_back, place, hits=hits)
    result = await roll_back(place)
    assert (result.bot_slug, result.version) == ("ada", 2)
    assert await roll_back(place) == result
    async with home_at(place.folder, place.url) as home:
        assert await numbers(home, "ada") == [2, 1]
        assert "Also water the plants." in home.path("ada/SOUL.md.old").read_text()


@pytest.mark.parametrize(("kind", "point", "hits"), [*(("sqlite", point, 1) for point in IMPORT), *COMMITS])
async def test_an_import_with_a_key_makes_one_bot(place: Place, point: str, hits: int) -> None:
    children.run_until(point, load, place, hits=hits)
    result = await load(place)
    assert (result.bot_slug, result.version) == ("ada-2", 1)
    assert await load(place) == result
    async with home_at(place.folder, place.url) as home:
        assert await numbers(home, "ada-2") == [1]
        assert [each.slug for each in await home.store.list_bots()] == ["ada", "ada-2"]
