"""What the steps of random flows do to the world: a log that outlives the process, if it has a file."""

import asyncio
from collections import Counter
from pathlib import Path

from perdure import Happened, current_step


class Outside:
    """Notes each effect with its place and its idempotency key."""

    def __init__(self, file: Path | None = None, *, seed: int = 0, pace: float = 1.0) -> None:
        self._file = file
        self._effects: list[tuple[str, str]] = []
        self._retries = 0
        self.seed = seed
        self.folder = None if file is None else str(file.parent)
        self.pace = pace
        """How long a second of a program takes."""

    async def act(self, place: str, fails: int, takes_s: float) -> str:
        """Have an effect after some time; the first attempts fail."""
        if takes_s:
            await asyncio.sleep(takes_s * self.pace)
        return self._act(place, fails)

    def act_on_thread(self, place: str, fails: int) -> str:
        """Have an effect; the first attempts fail."""
        return self._act(place, fails)

    async def act_forever(self, place: str) -> None:
        """Have an effect, and never end."""
        self._note(place)
        await asyncio.Event().wait()

    async def act_when_mended(self, place: str, retries: int) -> str:
        """Have an effect after some retries of the goal; never end before."""
        if self.retries < retries:
            await asyncio.Event().wait()
        self._note(place)
        return place

    def act_if_mended(self, place: str, retries: int) -> str:
        """Have an effect after some retries of the goal; fail before."""
        if self.retries < retries:
            raise ValueError(place)
        self._note(place)
        return place

    @property
    def retries(self) -> int:
        """How often the goal was retried: what makes some of its steps fail is mended by then."""
        if self._file is None:
            return self._retries
        noted = self._file.with_suffix(".retries")
        return len(noted.read_bytes()) if noted.exists() else 0

    def note_retries(self, count: int) -> None:
        """Note how often the goal is retried from now on."""
        self._retries = count
        if self._file is not None:
            self._file.with_suffix(".retries").write_bytes(b"." * count)

    def has_happened(self, place: str, *_: object) -> Happened[str] | bool:
        """Look for the effect of a step, which returns its place: its check."""
        return Happened(place) if any(each == place for each, _key in self.effects()) else False

    def effects(self) -> list[tuple[str, str]]:
        """Return all effects with their keys, in their order."""
        if self._file is None:
            return self._effects
        if not self._file.exists():
            return []
        lines = self._file.read_text().splitlines()
        return [(place, key) for place, _, key in (line.partition(" ") for line in lines)]

    def by_place(self) -> Counter[str]:
        """Return how often each place had its effect."""
        return Counter(place for place, _key in self.effects())

    def _act(self, place: str, fails: int) -> str:
        self._note(place)
        if self._attempts(place) <= fails:
            raise ValueError(place)
        return place

    def _attempts(self, place: str) -> int:
        """Count the attempts of the step that had their effect; one that was cancelled before has not failed."""
        goal_id = current_step().idempotency_key.partition("/")[0]
        return len({key for each, key in self.effects() if each == place and key.partition("/")[0] == goal_id})

    def _note(self, place: str) -> None:
        if self._file is None:
            self._effects.append((place, current_step().idempotency_key))
            return
        with self._file.open("a") as file:
            file.write(f"{place} {current_step().idempotency_key}\n")


OUTSIDES: dict[int, Outside] = {}
"""The world of each seed; one that is kept in a file is found by its folder instead."""
REAL_PACE = 0.01
"""A second of a program takes so long where time is real."""


def outside_of(seed: int, folder: str | None) -> Outside:
    """Return the world of the goals of a seed."""
    return OUTSIDES[seed] if folder is None else Outside(Path(folder, str(seed)), seed=seed, pace=REAL_PACE)
