"""What is compared with others: the cases, who takes part, what was found, and who is ahead of us."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from bench.table import Counted, Target, markdown

Place = Literal["tmpfs", "disk", "PostgreSQL"]
Way = Literal["run", "bytes", "flushes"]


@dataclass(frozen=True)
class Case:
    """A line of the table: which work, where, how much of it, and what of it is looked at."""

    name: str
    work: str
    place: Place
    n: int
    unit: str
    repeats: int
    way: Way = "run"
    prepared_by: tuple[str, int] | None = None
    """The work that comes before, once for all repeats, and how much of it."""
    more_is_better: bool = False
    is_warmed: bool = True
    """Whether what is prepared is used once before it is measured, so that Python has compiled what it needs."""


@dataclass(frozen=True)
class Contender:
    """One who takes part: a program of `bench.peers`, and what has to be installed for it; nothing for our own."""

    name: str
    module: str
    packages: tuple[str, ...] = ()
    variant: str = ""
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    """Works that it does not do, and why."""
    is_for_node: bool = False
    """Whether the packages are npm's; the program itself runs in our own Python."""


FLOOR = Contender("floor", "floor")
FLOW = Contender("Perdure, flow", "flow")
APPEND = Contender("Perdure, append", "append", leaves_out={"list": "as the flow"})
_LANGGRAPH = ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "psycopg[binary,pool]")
_SAME = "as LangGraph"
DBOS = Contender("DBOS", "dbos", ("dbos", "psycopg[binary]"))
PEERS = (
    DBOS,
    Contender("LangGraph", "langgraph", _LANGGRAPH),
    Contender("LangGraph, all kept", "langgraph", _LANGGRAPH, "all", {"many": _SAME, "list": _SAME, "cold": _SAME}),
    Contender("eventsourcing", "eventsourcing", ("eventsourcing[postgres]", "psycopg[binary]"), "", {"list": "none"}),
)
ALL = (FLOOR, FLOW, APPEND, *PEERS)

CASES = (
    Case("step of one goal, SQLite on tmpfs", "steps", "tmpfs", 300, "µs", 5),
    Case("step of one goal, SQLite on disk", "steps", "disk", 150, "µs", 5),
    Case("step of one goal, PostgreSQL", "steps", "PostgreSQL", 100, "µs", 5),
    Case("64 goals x 50 steps, SQLite on disk", "many", "disk", 50, "/s", 3, more_is_better=True),
    Case("64 goals x 50 steps, PostgreSQL", "many", "PostgreSQL", 50, "/s", 3, more_is_better=True),
    Case("resume after 1,000 steps", "resume", "tmpfs", 1, "ms", 5, prepared_by=("prepare", 1000)),
    Case("resume after 10,000 steps", "resume", "tmpfs", 1, "ms", 3, prepared_by=("prepare", 10_000), is_warmed=False),
    Case("list of 50 of 100,000", "list", "tmpfs", 1, "ms", 3, prepared_by=("fill", 100_000)),
    Case("cold start", "cold", "tmpfs", 1, "ms", 4, prepared_by=("steps", 1)),
    Case("bytes a step, SQLite", "steps", "tmpfs", 300, "B", 1, "bytes"),
    Case("bytes a step, PostgreSQL", "steps", "PostgreSQL", 200, "B", 1, "bytes"),
    Case("flushes a step, one goal, SQLite", "steps", "disk", 100, "", 1, "flushes"),
    Case("flushes a step, 64 goals, SQLite", "many", "disk", 10, "", 1, "flushes"),
)


@dataclass(frozen=True)
class Found:
    """What was measured for one case, of one who took part; or why nothing was."""

    values: tuple[float, ...] = ()
    why_not: str = ""
    is_slow: bool = False

    @property
    def middle(self) -> float:
        return median(self.values)

    def shown(self, unit: str) -> str:
        """Write the median, and the least and the most where there are several."""
        if not self.values:
            return self.why_not
        text = f"{self.only_middle(unit)} {unit}".strip()
        if len(self.values) > 1:
            text += f" ({_number(min(self.values), unit)} to {_number(max(self.values), unit)})"
        return text

    def only_middle(self, unit: str) -> str:
        """Write the median alone, without its unit."""
        return _number(self.middle, unit)


@dataclass(frozen=True)
class Comparison:
    """All that was found, by the names of case and contender, and the versions of the contenders."""

    found: Mapping[str, Mapping[str, Found]]
    versions: Mapping[str, str]
    seconds: float

    def of(self, case: Case, contender: Contender) -> Found:
        return self.found.get(case.name, {}).get(contender.name, Found(why_not="not run"))


@dataclass(frozen=True)
class Ahead:
    """A case in which a peer did better than we."""

    case: Case
    peer: Contender
    theirs: Found
    ours: Found
    appended: Found

    @property
    def sentence(self) -> str:
        """Name who, with the figures."""
        unit = self.case.unit
        text = f"**{self.peer.name}** {self.theirs.shown(unit)} beside our {self.ours.shown(unit)}"
        if self.appended.values:
            text += f", the append alone {self.appended.shown(unit)}"
        return f"{text}, spreads overlap" if self._overlap() else text

    def _overlap(self) -> bool:
        theirs, ours = self.theirs.values, self.ours.values
        return len(theirs) > 1 and min(theirs) <= max(ours) and min(ours) <= max(theirs)


@dataclass(frozen=True)
class Contest:
    """Which cases are compared, and who takes part: the floor, ours, what ours is made of, the peers."""

    cases: tuple[Case, ...]
    floor: Contender
    ours: Contender
    peers: tuple[Contender, ...]
    appended: Contender | None = None

    @property
    def all(self) -> tuple[Contender, ...]:
        return (self.floor, self.ours, *([self.appended] if self.appended else []), *self.peers)


GOALS = Contest(CASES, FLOOR, FLOW, PEERS, APPEND)


def who_is_ahead(comparison: Comparison, contest: Contest = GOALS) -> Iterator[tuple[Case, list[Ahead]]]:
    """Find every line in which the median of a peer is better than ours, and those peers."""
    for case in contest.cases:
        ours = comparison.of(case, contest.ours)
        appended = comparison.of(case, contest.appended) if contest.appended else Found()
        others = [(peer, comparison.of(case, peer)) for peer in contest.peers]
        ahead = [Ahead(case, peer, found, ours, appended) for peer, found in others if _is_better(case, found, ours)]
        if ahead:
            yield case, ahead


def _is_better(case: Case, theirs: Found, ours: Found) -> bool:
    if not (ours.values and theirs.values):
        return False
    return theirs.middle > ours.middle if case.more_is_better else theirs.middle < ours.middle


def bytes_beside(comparison: Comparison) -> Counted:
    """Compare the bytes of a step on SQLite with those of DBOS, in the same run."""
    [case] = [case for case in CASES if case.name == "bytes a step, SQLite"]
    ours, theirs = comparison.of(case, FLOW), comparison.of(case, DBOS)
    ratio = ours.middle / theirs.middle if ours.values and theirs.values else None
    shown = f"{ours.shown(case.unit)} beside {theirs.shown(case.unit)}"
    return Counted("bytes a step on SQLite, beside DBOS", ratio, Target("value", "≤", 1), shown)


def comparison_table(comparison: Comparison, contest: Contest = GOALS) -> str:
    rows = [[case.name, *(comparison.of(case, one).shown(case.unit) for one in contest.all)] for case in contest.cases]
    return markdown(["median (least to most)", *(one.name for one in contest.all)], rows)


def _number(value: float, unit: str) -> str:
    digits = 0 if unit in ("B", "/s") or value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"
