"""The checkout reserves an item once although a reply of the warehouse is lost and the step is tried again."""

import importlib.util
import sys
from decimal import Decimal
from pathlib import Path
from types import ModuleType

import pytest

import perdure.testing
from perdure import current_step

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "checkout.py"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the example, with a ledger of its own."""
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("lost_reply_checkout", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


async def test_a_reservation_whose_reply_was_lost_is_there_once(checkout: ModuleType) -> None:
    reserve = checkout.reserve

    async def losing_the_reply(order: str, item: object) -> str:
        reserved = await reserve(order, item)
        if current_step().attempt == 1:
            raise ConnectionError("the reply was lost")
        return str(reserved)

    async with perdure.testing.home() as p:
        p.replace(reserve, losing_the_reply)
        order = checkout.Order("17", (checkout.Item("lamp", Decimal("9.90")),))
        handle = await p.goals.start(checkout.checkout, order)
        await p.clock.advance(10)
        assert (await handle.result(timeout_s=30)).value == checkout.Receipt("17", Decimal("9.90"), "parcel-17")
    ledger = [line.split()[0] for line in checkout.LEDGER.read_text().splitlines()]
    assert ledger == ["reserve", "charge", "parcel"]
