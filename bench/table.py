"""The lines of the tables: what was measured, beside what, and whether it is as it should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """Where a line should be: its ratio to the floor, its difference from it, or our own value."""

    of: Literal["ratio", "difference", "value"]
    sign: Literal["≤", "≥", "="]
    limit: float

    def is_met(self, value: float) -> bool:
        match self.sign:
            case "≤":
                return value <= self.limit
            case "≥":
                return value >= self.limit
            case "=":
                return value == self.limit


@dataclass(frozen=True)
class Timed:
    """A line whose times are only good beside the floor of the same run."""

    what: str
    floor: float
    ours: float
    unit: str
    target: Target | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.floor

    @property
    def is_met(self) -> bool:
        if self.target is None:
            return True
        found = {"ratio": self.ratio, "difference": self.ours - self.floor, "value": self.ours}
        return self.target.is_met(found[self.target.of])

    def cells(self) -> list[str]:
        met = "" if self.target is None else ("met" if self.is_met else "**not met**")
        return [self.what, self._show(self.floor), self._show(self.ours), _ratio(self.ratio), self.wanted, met]

    @property
    def wanted(self) -> str:
        if self.target is None:
            return ""
        units = {"ratio": "x", "difference": f" {self.unit} more", "value": f" {self.unit}"}
        unit = units[self.target.of]
        return f"{self.target.sign} {self.target.limit:.3g}{unit}"

    @property
    def shortfall(self) -> str:
        """Describe what was wanted and what was found."""
        found = self._show(self.ours)
        if self.target is not None and self.target.of == "ratio":
            found = f"{_ratio(self.ratio)}x"
        elif self.target is not None and self.target.of == "difference":
            found = f"{self._show(self.ours - self.floor)} more"
        return f"not met: {self.what}: {found}, wanted {self.wanted}"

    def _show(self, value: float) -> str:
        digits = 2 if value < 10 else 1 if value < 1000 else 0
        return f"{value:,.{digits}f} {self.unit}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


@dataclass(frozen=True)
class Counted:
    """A line that is exact, whatever the machine does meanwhile; None was not counted, and so does not hold."""

    what: str
    found: float | None
    target: Target
    note: str = ""

    @property
    def holds(self) -> bool:
        return self.found is not None and self.target.is_met(self.found)

    @property
    def shown(self) -> str:
        return "not counted" if self.found is None else f"{round(self.found, 4):g}"

    def cells(self) -> list[str]:
        wanted = f"{self.target.sign} {self.target.limit:g}"
        return [self.what, self.shown, wanted, "holds" if self.holds else "**does not hold**", self.note]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def timed_table(rows: Sequence[Timed]) -> str:
    return markdown(["what", "floor", "ours", "ratio", "target", ""], [row.cells() for row in rows])


def counted_table(rows: Sequence[Counted]) -> str:
    return markdown(["what", "counted", "must be", "", "of what"], [row.cells() for row in rows])
