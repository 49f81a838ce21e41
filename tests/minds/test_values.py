"""Values by annotation: what comes back is what was given, or a clear error says that it cannot be stored."""

import dataclasses
import enum
import functools
import gc
import os
import subprocess
import sys
import typing
import weakref
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    RootModel,
    SecretStr,
)

from perdure import failpoints
from perdure.errors import Invalid
from perdure.kernel.calls.decisions import choose
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.values.comparison import is_same
from perdure.minds.flow.values.values import (
    arguments_to_json,
    digest,
    read_arguments,
    reader_of,
    require_readable,
    require_result,
    result_to_json,
    to_json,
)
from tests.kernel.test_decisions import post
from tests.kernel.world import World
from tests.minds.test_flow import ended, run

T = TypeVar("T")
UserId = NewType("UserId", UUID)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Unit(enum.StrEnum):
    KG = "kg"


class Pair(NamedTuple):
    left: Decimal
    right: bytes = b""


class Options(TypedDict, total=False):
    at: datetime
    sizes: list[Size]


@dataclasses.dataclass(frozen=True)
class Item:
    sku: UUID
    price: Decimal
    tags: frozenset[str] = frozenset()
    pair: Pair | None = None


@dataclasses.dataclass
class Order:
    id: UserId
    placed: datetime
    items: list[Item]
    notes: dict[int, str] = dataclasses.field(default_factory=dict)
    wait: timedelta = timedelta(0)
    raw: bytes = b""


class Receipt(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    total: Decimal = Field(alias="sum")
    paid: datetime
    lines: dict[str, Item]
    colours: set[Colour] = set()


class Ratings(RootModel[dict[date, float]]):
    pass


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False)
ZONES = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
MOMENTS = st.datetimes(timezones=ZONES) | st.datetimes().map(lambda moment: moment.replace(fold=0))
INTS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PATHS = st.lists(st.text("abc é.", min_size=1), min_size=1, max_size=3).map(lambda parts: Path(*parts))
PAIRS = st.builds(Pair, DECIMALS, st.binary())
ITEMS = st.builds(Item, st.uuids(), DECIMALS, st.frozensets(TEXTS, max_size=4), st.none() | PAIRS)
ORDERS = st.builds(
    Order,
    st.uuids(),
    MOMENTS,
    st.lists(ITEMS, max_size=3),
    st.dictionaries(INTS, TEXTS, max_size=3),
    st.timedeltas(),
    st.binary(),
)
RECEIPTS = st.builds(
    lambda total, paid, lines, colours: Receipt(sum=total, paid=paid, lines=lines, colours=colours),
    DECIMALS,
    MOMENTS,
    st.dictionaries(TEXTS, ITEMS, max_size=2),
    st.sets(st.sampled_from(Colour)),
)
TYPED: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": (bool, st.booleans()),
    "int": (int, INTS),
    "float": (float, FLOATS),
    "str": (str, TEXTS),
    "None": (None, st.none()),
    "bytes": (bytes, st.binary()),
    "bytearray": (bytearray, st.binary().map(bytearray)),
    "datetime": (datetime, MOMENTS),
    "date": (date, st.dates()),
    "time": (time, st.times().map(lambda clock: clock.replace(fold=0))),
    "timedelta": (timedelta, st.timedeltas()),
    "Decimal": (Decimal, DECIMALS),
    "UUID": (UUID, st.uuids()),
    "Path": (Path, PATHS),
    "Enum": (Colour, st.sampled_from(Colour)),
    "IntEnum": (Size, st.sampled_from(Size)),
    "StrEnum": (Unit, st.just(Unit.KG)),
    "set": (set[int], st.sets(INTS)),
    "frozenset": (frozenset[date], st.frozensets(st.dates())),
    "tuple": (tuple[int, Decimal, str], st.tuples(INTS, DECIMALS, TEXTS)),
    "long tuple": (tuple[date, ...], st.lists(st.dates()).map(tuple)),
    "NamedTuple": (Pair, PAIRS),
    "TypedDict": (
        Options,
        st.fixed_dictionaries({}, optional={"at": MOMENTS, "sizes": st.lists(st.sampled_from(Size))}),
    ),
    "Optional": (Decimal | None, st.none() | DECIMALS),
    "int or str": (int | str, INTS | TEXTS),
    "str or int": (str | int, INTS | TEXTS),
    "number": (float | Decimal, FLOATS | DECIMALS),
    "date or datetime": (date | datetime, st.dates() | MOMENTS),
    "Literal": (Literal["a", 2], st.sampled_from(["a", 2])),
    "Annotated": (Annotated[timedelta, "how long"], st.timedeltas()),
    "NewType": (UserId, st.uuids()),
    "keys": (dict[int, set[str]], st.dictionaries(INTS, st.sets(TEXTS, max_size=3), max_size=3)),
    "keys of dates": (dict[date, int], st.dictionaries(st.dates(), INTS, max_size=3)),
    "keys of an enum": (dict[Size, int], st.dictionaries(st.sampled_from(Size), INTS)),
    "mapping": (Mapping[UUID, bytes], st.dictionaries(st.uuids(), st.binary(), max_size=2)),
    "sequence": (Sequence[Path], st.lists(PATHS, max_size=3)),
    "dataclass": (Order, ORDERS),
    "dataclasses": (dict[str, list[Order]], st.dictionaries(TEXTS, st.lists(ORDERS, max_size=1), max_size=1)),
    "model": (Receipt, RECEIPTS),
    "models": (list[Receipt | Item], st.lists(RECEIPTS | ITEMS, max_size=2)),
    "root model": (Ratings, st.dictionaries(st.dates(), FLOATS, max_size=2).map(Ratings)),
}


def returns(annotation: Any) -> Callable[..., Any]:
    """Make a function with a return annotation."""

    def fn() -> Any:
        """Do nothing."""

    fn.__annotations__["return"] = annotation
    return fn


def through_text(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


@pytest.mark.parametrize("name", TYPED)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_an_annotated_value_comes_back_equal_and_of_its_type(name: str, data: st.DataObject) -> None:
    annotation, values = TYPED[name]
    value, fn = data.draw(values), returns(annotation)
    stored = through_text(result_to_json(fn, value, "It"))
    read = reader_of(fn)(stored)
    assert is_same(value, read)
    assert type(read) is type(value)
    assert read == value
    assert result_to_json(fn, read, "It") == stored


@settings(max_examples=50, deadline=None)
@given(ORDERS, RECEIPTS)
def test_the_arguments_of_a_flow_come_back_equal(order: Order, receipt: Receipt) -> None:
    async def ship(goal: object, order: Order, *others: Order, receipt: Receipt, **more: Receipt) -> None:
        """Do nothing."""

    args, kwargs = [order, order], {"receipt": receipt, "other": receipt}
    stored = through_text(arguments_to_json("ship", ship, args, kwargs, is_given_goal=True))
    require_readable(ship, args, kwargs, stored)
    read_args, read_kwargs = read_arguments(ship, stored["args"], stored["kwargs"])
    assert (read_args, read_kwargs) == (args, kwargs)
    assert read_args[0].placed.utcoffset() == order.placed.utcoffset()
    assert [item.sku for item in read_args[1].items] == [item.sku for item in order.items]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ((1, (2,)), [1, [2]]),
        ({3, 20, 100}, [100, 20, 3]),
        ({"b": {Decimal("1.10")}}, {"b": ["1.10"]}),
        (Pair(Decimal(1), b"\xff"), ["1", "_w=="]),
        ({Colour.RED: Size.LARGE, Colour.BLUE: Size.SMALL}.get(Colour.BLUE), 1),
        (bytearray(b"a"), "YQ=="),
        (time(1, 2, tzinfo=UTC), "01:02:00+00:00"),
        (timedelta(days=-1, microseconds=5), "-P0DT86399.999995S"),
        (IPv4Address("10.0.0.1"), "10.0.0.1"),
        (Item(UUID(int=1), Decimal("2.0"), frozenset("ba")), {
            "sku": "00000000-0000-0000-0000-000000000001", "price": "2.0", "tags": ["a", "b"], "pair": None,
        }),
    ],
)  # fmt: skip
def test_without_an_annotation_the_json_form_comes_back(value: Any, form: Any) -> None:
    for annotation in (Any, object, "Nowhere", dict, T, object()):
        fn = returns(annotation)
        stored = result_to_json(fn, value, "It")
        assert stored == form
        assert reader_of(fn)(stored) == form


def iter_nothing() -> Iterator[int]:
    yield from ()


class Opaque:
    """Known to nobody."""


@dataclasses.dataclass
class Holder:
    inner: dict[str, list[Any]]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Opaque(), "a value of type tests.minds.test_values.Opaque"),
        (Holder({"a": [1, Opaque()]}), "test_values.Opaque (at .inner.a[1])"),
        (len, "a value of type builtin_function_or_method"),
        (Opaque, "a value of type type"),
        (iter_nothing(), "a value of type generator"),
        (float("inf"), "the number inf"),
        ([float("nan")], "the number nan"),
        (Decimal("sNaN"), "the Decimal sNaN"),
        (2**64, "64-bit"),
        ("\ud800", "surrogate"),
        ({"\udfff": 1}, "surrogate"),
        (Path("\udcff"), "surrogate"),
        ({1: 2}, "a key of type int; an annotation such as dict[int, …] stores it"),
        ({None: 2}, "a key of type NoneType"),
    ],
)
def test_what_has_no_json_form_is_named_with_its_type_and_place(value: Any, said: str) -> None:
    with pytest.raises(Invalid) as raised:
        to_json(value, "It")
    assert raised.value.detail.startswith("It cannot be stored as JSON: ")
    assert said in raised.value.detail


def test_a_value_that_contains_itself_is_said() -> None:
    array: list[Any] = []
    array.append([array])
    mapping: dict[str, Any] = {}
    mapping["a"] = mapping
    for ring in (array, mapping):
        with pytest.raises(Invalid, match="cannot be stored as JSON"):
            to_json(ring, "It")
        with pytest.raises(Invalid, match="contains itself"):
            to_json((ring, Decimal(1)), "It")


@dataclasses.dataclass
class Shape:
    name: str


@dataclasses.dataclass
class Circle(Shape):
    radius: float


class Secret(BaseModel):
    token: SecretStr


class Rounded(BaseModel):
    value: Annotated[float, PlainSerializer(lambda value: round(value, 1))]


class OldBytes(BaseModel):
    raw: bytes


class Odd(enum.Enum):
    PAIR = (1, 2)


LMT = timezone(timedelta(minutes=53, seconds=28))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (datetime | str, "2026-11-15T00:00:00"),
        (str | datetime, datetime(2026, 11, 15, tzinfo=UTC)),
        (str | Decimal, Decimal("1.5")),
        (str | bytes, b"abc"),
        (dict[int | str, int], {1: 2}),
        (dict[tuple[int, int], str], {(1, 2): "a"}),
        (Shape, Circle("c", radius=2.0)),
        (list[Shape], [Shape("s"), Circle("c", 2.0)]),
        (Secret, Secret(token=SecretStr("hunter2"))),
        (Rounded, Rounded(value=1.25)),
        (OldBytes, OldBytes(raw=b"\xff")),
        (Odd, Odd.PAIR),
        (datetime, datetime(1900, 1, 1, tzinfo=LMT)),
        (set[Decimal], {Decimal("NaN")}),
        pytest.param(dict[int, Any], {1: {2: 3}} | {1: Opaque()}, id="dict-of-opaque"),
    ],
    ids=str,
)
def test_a_value_that_would_come_back_as_another_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(Invalid, match=r"It cannot be stored as JSON"):
        result_to_json(returns(annotation), value, "It")


def test_the_fields_of_a_subclass_are_stored_where_no_annotation_drops_them() -> None:
    circle = Circle("c", radius=2.0)
    assert to_json(circle, "It") == {"name": "c", "radius": circle.radius}


def test_two_keys_that_are_one_text_are_refused() -> None:
    with pytest.raises(Invalid, match="two keys"):
        result_to_json(returns(dict[int | str, int]), {1: 1, "1": 2}, "It")


def test_the_name_of_a_time_zone_becomes_its_offset() -> None:
    fn, moment = returns(datetime), datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    read = reader_of(fn)(result_to_json(fn, moment, "It"))
    assert (read, read.utcoffset()) == (moment, timedelta(hours=2))


class Tuned(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes
    shown: int = Field(default=0, exclude=True)
    point: Annotated[complex, PlainSerializer(lambda z: [z.real, z.imag]), BeforeValidator(lambda v: complex(*v))] = 0j


def test_a_model_is_written_by_its_own_configuration_and_serializers() -> None:
    fn = returns(Tuned)
    stored = result_to_json(fn, Tuned(raw=b"\xff", shown=5, point=[1, 2]), "It")  # type: ignore[arg-type] # validated
    assert stored == {"raw": "_w==", "point": [1.0, 2.0]}
    assert reader_of(fn)(stored) == Tuned(raw=b"\xff", point=[1, 2])  # type: ignore[arg-type]
    text = returns(OldBytes)
    assert reader_of(text)(result_to_json(text, OldBytes(raw="é".encode()), "It")) == OldBytes(raw="é".encode())


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (list[int], (1, 2), [1, 2]),
        (Path, "a/b", Path("a/b")),
        (bytes, "YWJj", b"abc"),
        (datetime, "2026-11-15T00:00:00Z", datetime(2026, 11, 15, tzinfo=UTC)),
        (Decimal, 3, Decimal(3)),
        (int, Size.LARGE, 2),
        (tuple[str, ...], ["a"], ("a",)),
        (Receipt | None, None, None),
        (Order, None, None),
        (dict[str, Any], {"at": date(2026, 1, 2)}, {"at": "2026-01-02"}),
        (Iterable[int], [1], [1]),
        (Opaque, {"a": 1}, {"a": 1}),
        (list[Opaque], [1], [1]),
        (Callable[[], int], 3, 3),
        (list["Nowhere"], [1], [1]),  # type: ignore[name-defined] # noqa: F821 (that is the point)
        (Coroutine[Any, Any, Decimal], Decimal("1.0"), Decimal("1.0")),
    ],
    ids=str,
)
def test_a_value_that_is_not_what_the_annotation_names_comes_back_as_it_says_or_as_json(
    annotation: Any, value: Any, read: Any
) -> None:
    fn = returns(annotation)
    found = reader_of(fn)(result_to_json(fn, value, "It"))
    assert (found, type(found)) == (read, type(read))


def test_a_result_that_does_not_fit_its_annotation_is_stored_and_rejected_when_it_is_read() -> None:
    fn = returns(Order)
    stored = result_to_json(fn, {"id": 1}, "It")
    assert stored == {"id": 1}
    with pytest.raises(ValueError, match="id: UUID input should be"):
        reader_of(fn)(stored)


def test_a_value_that_a_person_gives_is_validated_also_where_json_has_the_type() -> None:
    require_result(returns(int), 5)
    require_result(returns(int), None)
    require_result(returns(Opaque), "anything")
    require_result(returns(Item), {"sku": str(UUID(int=1)), "price": "1"})
    for annotation, value in ((int, "five"), (dict[str, int], {"a": "b"}), (Item, {"price": 1}), (Colour, "green")):
        with pytest.raises(ValueError, match=r"\w"):
            require_result(returns(annotation), value)


def double(number: Decimal, *more: date, **named: UUID) -> Decimal:
    assert not more
    assert not named
    return number * 2


class Shop:
    def price(self, of: Item) -> Decimal:
        return of.price

    @classmethod
    def open(cls, at: datetime) -> datetime:
        return at

    def __call__(self, at: date) -> date:
        return at


class Unhashable(Shop):
    __hash__ = None  # type: ignore[assignment] # as of a class with __eq__

    def __eq__(self, other: object) -> bool:
        return False


@functools.wraps(double)
def redoubled(*args: Any) -> Any:
    return double(*args)


ITEM = Item(UUID(int=1), Decimal("1.10"))


@pytest.mark.parametrize(
    ("fn", "args", "result"),
    [
        (double, (Decimal(1),), Decimal(2)),
        (Shop().price, (ITEM,), Decimal("1.10")),
        (Shop.open, (datetime(2026, 1, 1, tzinfo=UTC),), datetime(2026, 1, 1, tzinfo=UTC)),
        (Shop(), (date(2026, 1, 1),), date(2026, 1, 1)),
        (Unhashable(), (date(2026, 1, 1),), date(2026, 1, 1)),
        (Unhashable().price, (ITEM,), Decimal("1.10")),
        (functools.partial(double, Decimal(4)), (), Decimal(8)),
        (functools.partial(functools.partial(double), Decimal(4)), (), Decimal(8)),
        (functools.lru_cache(double), (Decimal(1),), Decimal(2)),
        (redoubled, (Decimal(1),), Decimal(2)),
        (Item, (UUID(int=1), Decimal("1.10")), ITEM),
        (Receipt.model_validate, ({"sum": 1, "paid": "2026-01-01", "lines": {}},), None),
        (sorted, ([2, 1],), [1, 2]),
        (dict, ([["a", 1]],), {"a": 1}),
        (str, (1,), "1"),
    ],
)
def test_every_kind_of_callable_is_a_step(fn: Callable[..., Any], args: tuple[Any, ...], result: Any) -> None:
    given = arguments_to_json("fn", fn, args, {})
    assert arguments_to_json("fn", fn, args, {}) == given
    found = fn(*args)
    read = reader_of(fn)(result_to_json(fn, found, "It"))
    assert result is None or read == found == result


def test_annotations_that_are_text_and_local_classes_are_found() -> None:
    @dataclasses.dataclass
    class Local:
        at: datetime

    def make(at: "datetime") -> "list[Local]":
        return [Local(at)]

    found = make(datetime(2026, 1, 1, tzinfo=UTC))
    assert reader_of(make)(result_to_json(make, found, "It")) == found


def test_one_annotation_that_cannot_be_resolved_leaves_the_others() -> None:
    def make(what: "Nowhere", keys: "dict[int, str]") -> "Decimal":  # type: ignore[name-defined] # noqa: F821
        return Decimal(len(keys)) if what else Decimal(0)

    assert arguments_to_json("make", make, (1, {2: "a"}), {}) == {"args": [1, {"2": "a"}], "kwargs": {}}
    assert reader_of(make)("1") == Decimal(1)


class Box(BaseModel, Generic[T]):
    inside: T


def test_generic_models_come_back() -> None:
    fn, box = returns(Box[list[Decimal]]), Box[list[Decimal]](inside=[Decimal("1.0")])
    assert reader_of(fn)(result_to_json(fn, box, "It")) == box


def test_no_cache_keeps_a_closure_or_a_local_class_alive() -> None:
    def make() -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        class Local(BaseModel):
            number: int

            def again(self, number: Decimal) -> "Local":
                return Local(number=int(number))

        def step() -> list[Local]:
            return [Local(number=1)]

        for fn in (step, Local(number=1).again):
            result_to_json(fn, fn(*([Decimal(1)] if fn is not step else [])), "It")
            arguments_to_json("fn", fn, [Decimal(1)], {})
            reader_of(fn)
        return weakref.ref(Local), weakref.ref(step)

    local, step = make()
    gc.collect()
    assert step() is None
    assert local() is None


def test_a_decorator_that_copies_the_dict_of_a_function_does_not_copy_its_annotations() -> None:
    fn = returns(Decimal)
    assert reader_of(fn)("1") == Decimal(1)
    other = returns(date)
    other.__dict__.update(fn.__dict__)
    assert reader_of(other)("2026-01-02") == date(2026, 1, 2)


_DIGESTS = """
import dataclasses, sys
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID
from pydantic import BaseModel
from perdure.minds.flow.values.values import arguments_to_json, digest
class Model(BaseModel):
    names: set[str]
    days: frozenset[date]
@dataclasses.dataclass
class Row:
    ids: set[UUID]
    inner: dict[str, set[tuple[str, int]]]
def f(a: Any, b: set[str], *, c: Row, d: Model) -> None: ...
names = {f"name {n}" for n in range(50)}
row = Row({UUID(int=n) for n in range(20)}, {"x": {(name, len(name)) for name in names}})
model = Model(names=names, days=frozenset(date(2026, 1, n) for n in range(1, 20)))
given = arguments_to_json("f", f, ({Decimal(n) for n in range(9)} | names, names), {"c": row, "d": model})
print(digest(given), given["args"][1][:3])
"""


def test_a_digest_does_not_depend_on_the_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", _DIGESTS],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert len(said) == 1
    assert "name 0" in said.pop()


def test_json_values_skip_pydantic_and_are_copied() -> None:
    rows = {"a": [1, {"b": None}]}
    stored = arguments_to_json("f", returns(dict), (rows,), {"more": rows})
    rows["a"].clear()
    assert stored == {"args": [{"a": [1, {"b": None}]}], "kwargs": {"more": {"a": [1, {"b": None}]}}}
    assert digest(stored) == digest({"kwargs": stored["kwargs"], "args": stored["args"]})
    assert typing.get_type_hints(returns(int)) == {"return": int}


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
async def test_a_once_step_whose_result_cannot_be_stored_is_unknown_when_its_worker_dies_beside_the_record(
    world: World, point: str
) -> None:
    calls: Counter[str] = Counter()

    def connect() -> Any:
        calls["connect"] += 1
        return Opaque()

    async def connecting(goal: Goal) -> Any:
        return await goal.step(connect)

    def die() -> None:
        if calls["connect"]:
            raise Death

    with failpoints.armed(point, die), pytest.raises(Death):
        await run(world, connecting)
    ran = await world.resume()
    assert ran.state.waiting_for == "person"
    assert calls["connect"] == 1
    await post(world, choose(ran.state, "skip", None, "connected"))
    assert ended(await world.resume()).value == "connected"
    assert calls["connect"] == 1


class Death(BaseException):
    """The end of a worker."""
