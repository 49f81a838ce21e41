"""Values that would come back as others are refused when they are recorded, whatever their annotation is."""

import asyncio
import dataclasses
import enum
import re
import sys
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Protocol,
    Required,
    TypeVar,
)
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict
from typing_extensions import TypedDict

from perdure.errors import Invalid
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.values.json_form import is_json
from perdure.minds.flow.values.values import arguments_to_json, reader_of, require_readable, result_to_json

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")
MIDNIGHT = datetime(2026, 1, 2)  # noqa: DTZ001 (it has no time zone)


Name = NewType("Name", str)


class Size(enum.IntEnum):
    LARGE = 2


class Unit(enum.StrEnum):
    KG = "kg"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Text(str):
    """A text of its own type."""


class Row(dict[str, int]):
    """A dict of its own type."""


def cancels(_number: int) -> int:
    raise asyncio.CancelledError


class Cancelling(BaseModel):
    number: Annotated[int, AfterValidator(cancels)]


class Noted(NamedTuple):
    number: int
    note: Any


class Pair(NamedTuple):
    left: int
    right: str = ""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int


class OpenDecimals(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Decimal]


class Apple(BaseModel):
    weight: int


class Pear(BaseModel):
    weight: int


class BigApple(Apple):
    """An apple that looks like any other."""


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    lives: int


class Loose(BaseModel):
    some: Any = None
    other: object = None


class Tree(BaseModel):
    value: int
    children: "list[Tree]" = []


class Page(BaseModel, Generic[T]):
    items: list[T]


@dataclasses.dataclass
class PageOf(Generic[T]):
    items: list[T]


@dataclasses.dataclass
class AnyField:
    some: Any


@dataclasses.dataclass
class ObjectField:
    some: object


@dataclasses.dataclass
class Parts:
    some: dict[str, list[Any]]


@dataclasses.dataclass
class Chain:
    value: int
    next: Optional["Chain"] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    number: int
    dates: list[date] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class KeywordOnly:
    number: int
    _: dataclasses.KW_ONLY
    price: Decimal = Decimal(1)


@dataclasses.dataclass
class Derived:
    number: int
    double: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.double = self.number * 2


@dataclasses.dataclass
class SetLater:
    number: int
    later: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Cached:
    number: int
    cache: dict[str, int] = dataclasses.field(init=False, compare=False, default_factory=dict)


@dataclasses.dataclass
class Uncompared:
    number: int
    note: Any = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass
class Counting:
    number: int

    def __post_init__(self) -> None:
        self.number += 1


@dataclasses.dataclass
class WithInitVar:
    number: int
    step: dataclasses.InitVar[int] = 0

    def __post_init__(self, step: int) -> None:
        self.number += step


@dataclasses.dataclass
class NeedsInitVar:
    number: int
    step: dataclasses.InitVar[int]

    def __post_init__(self, step: int) -> None:
        self.number = step


class Trip(TypedDict):
    number: Required[int]
    day: NotRequired[date]


class Named(Protocol):
    name: str


@dataclasses.dataclass
class Person:
    name: str


def returns(annotation: Any) -> Callable[..., Any]:
    """Make a function with a return annotation."""

    def fn() -> Any:
        """Do nothing."""

    fn.__annotations__["return"] = annotation
    return fn


def come_back(annotation: Any, value: Any) -> Any:
    fn = returns(annotation)
    return reader_of(fn)(orjson.loads(orjson.dumps(result_to_json(fn, value, "It"))))


def opened(more: Any) -> Open:
    return Open.model_validate({"number": 1, "more": more})


def later(number: int, moment: int) -> SetLater:
    made = SetLater(number)
    made.later = moment
    return made


def cached() -> Cached:
    made = Cached(1)
    made.cache["a"] = 1
    return made


LISTS: defaultdict[str, list[int]] = defaultdict(list, a=[1])
DAY, NOON = date(2026, 1, 2), datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Open, opened([1, {"a": None}])),
        (OpenDecimals, OpenDecimals.model_validate({"price": Decimal("1.10")})),
        (Size, Size.LARGE),
        (Unit, Unit.KG),
        (Access, Access.READ | Access.WRITE),
        (list[Unit], [Unit.KG]),
        (dict[Unit, Size], {Unit.KG: Size.LARGE}),
        (OrderedDict[str, int], OrderedDict(b=1, a=2)),
        (Counter[str], Counter("aab")),
        (defaultdict[str, list[int]], LISTS),
        (deque[int], deque([1, 2])),
        (frozenset[date], frozenset([DAY])),
        (set[Decimal], {Decimal("1.0")}),
        (Pair, Pair(1, "b")),
        (tuple[Any, ...], (1, "a", [None])),
        (AnyField, AnyField({"a": [1, 2.5, None]})),
        (ObjectField, ObjectField("text")),
        (Frozen, Frozen(number=1, dates=[DAY])),
        (KeywordOnly, KeywordOnly(1, price=Decimal("2.50"))),
        (Derived, Derived(2)),
        (SetLater, SetLater(1)),
        (Cached, Cached(1)),
        (WithInitVar, WithInitVar(1, 5)),
        (Uncompared, Uncompared(1, "note")),
        (Chain, Chain(1, Chain(2))),
        (Tree, Tree(value=1, children=[Tree(value=2)])),
        (Page[Apple], Page[Apple](items=[Apple(weight=1)])),
        (PageOf[Apple], PageOf([Apple(weight=1)])),
        (list[Page[date]], [Page[date](items=[DAY])]),
        (Trip, {"number": 1}),
        (Trip, {"number": 1, "day": DAY}),
        (Literal["a", 1], 1),
        (Literal[Size.LARGE], Size.LARGE),
        (Annotated[Decimal, "euro"], Decimal("-0")),
        (Decimal, Decimal("1E+3")),
        (Apple | Pear, Apple(weight=1)),
        (Cat | Dog, Dog(lives=1)),
        (list[Cat | Dog], [Dog(lives=1), Cat(lives=9)]),
        (Optional[list[Optional[date]]], [None, DAY]),  # noqa: UP045 (that is the point)
        (datetime, MIDNIGHT),
        (float, -0.0),
        (bytes, b"\xff\x00"),
    ],
    ids=lambda given: re.sub(r" at 0x[0-9a-f]+", "", str(given)),
)  # fmt: skip
def test_a_value_comes_back_equal_and_of_its_own_type(annotation: Any, value: Any) -> None:
    read = come_back(annotation, value)
    assert (read, type(read), repr(read)) == (value, type(value), repr(value))


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (Open, opened(DAY), "datetime.date (at .more) that would come back from the annotation Open as"),
        (Open, opened((1,)), "tuple (at .more)"),
        (Open, opened({1: 2}), "dict (at .more)"),
        (Open, opened(b"a"), "bytes (at .more)"),
        (AnyField, AnyField((1, 2)), "tuple (at .some)"),
        (AnyField, AnyField({1}), "set (at .some)"),
        (AnyField, AnyField(b"a"), "bytes (at .some)"),
        (AnyField, AnyField(Size.LARGE), "Size (at .some)"),
        (AnyField, AnyField(Unit.KG), "Unit (at .some)"),
        (AnyField, AnyField(Text("a")), "Text (at .some)"),
        (AnyField, AnyField(OrderedDict(a=1)), "collections.OrderedDict (at .some)"),
        (AnyField, AnyField(Decimal(1)), "decimal.Decimal (at .some)"),
        (AnyField, AnyField(Apple(weight=1)), "Apple (at .some)"),
        (Noted, Noted(1, (1, 2)), "tuple (at .note)"),
        (list[Noted], [Noted(1, [(1,)])], "tuple (at [0].note[0])"),
        (Cancelling, Cancelling.model_construct(number=1), "CancelledError"),
        (Annotated[int, AfterValidator(abs)], -1, "another value"),
        (dict[str, Annotated[int, AfterValidator(abs)]], {"a": -1}, "another value"),
        (list[AnyField], [AnyField([(1,)])], "tuple (at [0].some[0])"),
        (ObjectField, ObjectField({"a": (1,)}), "tuple (at .some.a)"),
        (Parts, Parts({"a": [1, Pair(1)]}), "Pair (at .some.a[1])"),
        (Loose, Loose(some=(1,)), "tuple (at .some)"),
        (Loose, Loose(other=Apple(weight=1)), "Apple (at .other)"),
        (PageOf, PageOf([(1,)]), "tuple (at .items[0])"),
        (Page, Page[Apple](items=[Apple(weight=1)]), "annotate its exact type"),
        (dict[int, Any], {1: (1,)}, "tuple (at [1])"),
        (tuple[Any, ...], ((1,),), "tuple (at [0])"),
        (set, {(1,)}, "set"),
        (date, MIDNIGHT, "datetime.datetime that would come back from the annotation date as a value of"),
        (date, NOON, "datetime.datetime that its annotation date cannot read"),
        (list[date], [MIDNIGHT], "datetime.datetime (at [0])"),
        (datetime, DAY, "datetime.date that would come back from the annotation datetime"),
        (datetime, MIDNIGHT.replace(fold=1), "use a time zone"),
        (time, time(1, fold=1), "use a time zone"),
        (time, time(1, tzinfo=BERLIN), "use a time zone"),
        (datetime, datetime(1900, 1, 1, tzinfo=timezone(timedelta(seconds=3208))), "cannot read"),
        (Decimal, Decimal("NaN"), "the Decimal NaN; JSON has no NaN and no infinity: use None or a string"),
        (list[float], [float("inf")], "the number inf (at [0]); JSON has no NaN"),
        (defaultdict[str, int], defaultdict(lambda: 5, a=1), "collections.defaultdict"),
        (deque[int], deque([1], maxlen=3), "collections.deque"),
        (Row, Row(a=1), "pydantic does not support that annotation (Unable to generate pydantic-core schema for"),
        (Text, Text("a"), "pydantic does not support that annotation"),
        (Named, Person("a"), "Person that would come back from the annotation Named as a value of type dict"),
        (list[Named], [Person("a")], "Person (at [0])"),
        (str, DAY, "datetime.date that would come back from the annotation str as a value of type str"),
        (Name, DAY, "datetime.date that would come back from the annotation"),
        (None, DAY, "datetime.date that would come back"),
        (list[str], {"a"}, "set that would come back from the annotation list[str]"),
        (dict[str, str], {"a": Decimal(1)}, "decimal.Decimal (at .a)"),
        (Collection[int], {1}, "set that would come back"),
        (later(1, 5).__class__, later(1, 5), "(at .later)"),
        (Uncompared, Uncompared(1, DAY), "datetime.date (at .note)"),
        (Counting, Counting(1), "make __post_init__ and validators stable"),
        (NeedsInitVar, NeedsInitVar(1, 5), "step: Field required"),
        (Trip, {"number": 1, "price": 2}, "the annotation has no key 'price'; add it"),
        (Trip, {"number": 1, "day": MIDNIGHT}, "datetime.datetime (at .day)"),
        (Apple | Pear, Pear(weight=1), 'that tells them apart, such as kind: Literal["a"]'),
        (list[Apple | Pear], [Pear(weight=1)], "Pear (at [0])"),
        (Apple, BigApple(weight=1), "annotate its exact type"),
        (Apple | dict[str, int], {"weight": 1}, "dict that would come back"),
        (Apple | dict[str, Any], {"weight": 1}, "dict that would come back"),
        (list[Person | dict[str, Any]], [{"name": "a"}], "dict (at [0])"),
        (list[Apple | dict[str, int]], [{"weight": 1}], "dict (at [0])"),
        (range, range(3), "a value of type range; use JSON, a dataclass or a type that pydantic knows"),
    ],
    ids=lambda given: re.sub(r" at 0x[0-9a-f]+", "", str(given)),
)  # fmt: skip
def test_a_value_that_would_come_back_as_another_is_refused_with_what_to_do(
    annotation: Any, value: Any, said: str
) -> None:
    with pytest.raises(Invalid, match="It cannot be stored as JSON") as raised:
        result_to_json(returns(annotation), value, "It")
    assert said in raised.value.detail


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        (int, Size.LARGE, 2),
        (str, Unit.KG, "kg"),
        (list[str], [Unit.KG], ["kg"]),
        (str, Text("a"), "a"),
        (dict[str, int], Row(a=1), {"a": 1}),
        (dict[str, date], OrderedDict(b=DAY), {"b": DAY}),
        (dict[str, int], Counter("aab"), {"a": 2, "b": 1}),
        (dict[str, list[int]], LISTS, {"a": [1]}),
        (tuple[int, str], Pair(1, "b"), (1, "b")),
        (Sequence[date], (DAY,), [DAY]),
        (Mapping[str, date], OrderedDict(a=DAY), {"a": DAY}),
        (AbstractSet[int], {1}, frozenset([1])),
        (Page[Apple], Page(items=[Apple(weight=1)]), Page[Apple](items=[Apple(weight=1)])),
    ],
    ids=lambda given: re.sub(r" at 0x[0-9a-f]+", "", str(given)),
)
def test_a_value_of_a_subclass_comes_back_as_the_type_that_the_annotation_names(
    annotation: Any, value: Any, read: Any
) -> None:
    found = come_back(annotation, value)
    assert (found, type(found)) == (read, type(read))


class OldTrip(typing.TypedDict):
    number: int


@dataclasses.dataclass
class Travel:
    trip: OldTrip


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic reads it there")
def test_a_typed_dict_that_pydantic_does_not_read_in_a_dataclass_is_refused_with_the_other_one() -> None:
    with pytest.raises(Invalid, match=r"\(Please use `typing_extensions.TypedDict` instead of `typing.TypedDict`"):
        result_to_json(returns(Travel), Travel({"number": 1}), "It")


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("clock", ["2026-07-01T12:00", "2026-10-25T02:30", "2026-03-29T02:30"])
def test_a_moment_of_a_zone_keeps_its_clock_time_and_its_offset(clock: str, fold: int) -> None:
    moment = datetime.fromisoformat(clock).replace(tzinfo=BERLIN, fold=fold)
    read = come_back(datetime, moment)
    assert read.utcoffset() == moment.utcoffset()
    assert read.replace(tzinfo=None) == datetime.fromisoformat(clock)
    assert read.astimezone(UTC) == moment.astimezone(UTC)


def test_what_an_author_declares_as_no_part_of_the_value_is_not_compared() -> None:
    assert come_back(Cached, cached()) == Cached(1)


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers(-(2**53), 2**53)),
    (str, st.text("ab 1-", max_size=4)),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (date, st.dates()),
    (datetime, st.datetimes().map(lambda moment: moment.replace(fold=0))),
    (timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=4)),
    (Size, st.sampled_from(Size)),
    (Unit, st.sampled_from(Unit)),
    (Apple, st.builds(Apple, weight=st.integers(0, 9))),
    (Frozen, st.builds(Frozen, number=st.integers(0, 9), dates=st.lists(st.dates(), max_size=2))),
    (Any, st.none() | st.integers(0, 9) | st.text("ab", max_size=2)),
]
Typed = tuple[Any, st.SearchStrategy[Any]]


def generic(kind: Any, *parts: Any) -> Any:
    """Return an annotation such as `list[int]`."""
    return kind[parts if len(parts) > 1 else parts[0]]


def wider(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Make annotations, each with its values, of smaller ones."""

    def lists(each: Typed) -> st.SearchStrategy[list[Any]]:
        return st.lists(each[1], max_size=2)

    return st.one_of(
        inner.map(lambda each: (generic(list, each[0]), lists(each))),
        inner.map(lambda each: (generic(tuple, each[0], ...), lists(each).map(tuple))),
        inner.map(lambda each: (generic(dict, str, each[0]), st.dictionaries(st.text("ab"), each[1], max_size=2))),
        inner.map(lambda each: (generic(Optional, each[0]), st.none() | each[1])),
        inner.map(lambda each: (generic(PageOf, each[0]), lists(each).map(PageOf))),
    )


TYPED = st.recursive(st.sampled_from(LEAVES), wider, max_leaves=4)


def plain(value: Any) -> Any:
    """Return a value with lists for tuples: what an annotation may make of either."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_value_of_any_annotation_comes_back_or_is_refused(data: st.DataObject) -> None:
    annotation, values = data.draw(TYPED)
    value = data.draw(values)
    try:
        read = come_back(annotation, value)
    except Invalid:
        assert "Any" in str(annotation)
        return
    assert read == value
    assert repr(read) == repr(value)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_a_value_of_another_annotation_is_never_changed_in_silence(data: st.DataObject) -> None:
    annotation, _ = data.draw(TYPED)
    _, values = data.draw(TYPED)
    value = data.draw(values)
    try:
        read = come_back(annotation, value)
    except (Invalid, ValueError):
        return
    is_open = "Any" in str(annotation)
    assert plain(read) == plain(value) or is_json(plain(value)) or is_open


async def ship(goal: Goal, day: date, *more: AnyField, name: str = "", **named: Decimal) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((MIDNIGHT,), {}, "The argument day of ship is a value of type datetime.datetime"),
        ((DAY, AnyField(1), AnyField((1,))), {}, "The argument more of ship is a value of type tuple (at .some)"),
        ((DAY,), {"name": DAY}, "The argument name of ship is a value of type datetime.date"),
    ],
)
def test_an_argument_of_a_flow_that_would_be_another_is_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    given = arguments_to_json("ship", ship, args, kwargs, is_given_goal=True)
    with pytest.raises(Invalid) as raised:
        require_readable(ship, args, kwargs, given)
    assert said in raised.value.detail


def test_arguments_that_an_annotation_parses_are_taken() -> None:
    args: tuple[Any, ...] = ("2026-01-02", {"some": 1})
    kwargs: dict[str, Any] = {"name": Unit.KG, "price": 3}
    require_readable(ship, args, kwargs, arguments_to_json("ship", ship, args, kwargs, is_given_goal=True))
