"""What Forge asks of a store: places for drafts, choices and bots. Imported whenever a database is opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from perdure.forge.vocabulary import BotPurpose, BuilderMode, BuilderPhase, PurposeCategory
from perdure.kernel.ports import IdempotentCall

__all__ = [
    "DRAFT_VERSION",
    "BotPurpose",
    "BotStore",
    "BotSummary",
    "BotVersion",
    "BuilderDraft",
    "BuilderDraftStore",
    "BuilderDraftSummary",
    "BuilderMemoryEntry",
    "BuilderMemoryStore",
    "BuilderMode",
    "BuilderPhase",
    "DraftPlace",
    "IdempotentCall",
    "Origin",
    "PurposeCategory",
    "VersionState",
    "VersionSummary",
]

DRAFT_VERSION = 1
VersionState = Literal["pending", "current", "past"]
"""In the database but perhaps not yet on disk; what is on disk; what was there before."""
Origin = Literal["assemble", "reconfigure", "rollback", "import"]


@dataclass(frozen=True, slots=True)
class BuilderDraft:
    """A session as it is kept: its state as text, and what a list shows of it."""

    session_id: str
    state_json: str
    initial_description: str
    phase: BuilderPhase
    mode: BuilderMode
    question_count: int
    schema_version: int = DRAFT_VERSION
    revision: int = 0
    created_at_us: int = 0
    updated_at_us: int = 0


@dataclass(frozen=True, slots=True)
class BuilderDraftSummary:
    """What a list of drafts shows."""

    session_id: str
    initial_description: str
    phase: BuilderPhase | None
    """None, as the mode: what is stored there is none, and the draft is damaged."""
    mode: BuilderMode | None
    revision: int
    updated_at_us: int

    @property
    def place(self) -> "DraftPlace":
        """Where it stands in a list."""
        return self.updated_at_us, self.session_id


DraftPlace = tuple[int, str]
"""A place in a list of drafts: when one was changed last, and its session id. It stays when the draft does not."""


@dataclass(frozen=True, slots=True)
class BuilderMemoryEntry:
    """What was chosen for a bot, remembered to make suggestions."""

    id: str
    purpose_category: str
    initial_description: str
    chosen_tone: str | None
    chosen_model: str | None
    """None, as tone and slug: not known, for example of a choice that another program has recorded."""
    chosen_skills: tuple[str, ...]
    bot_slug: str | None
    created_at_us: int

    @property
    def place(self) -> "ChoicePlace":
        """Where it stands in a list."""
        return self.created_at_us, self.id


ChoicePlace = tuple[int, str]
"""A place in a list of choices: when one was made, and its id."""


@dataclass(frozen=True, slots=True)
class BotVersion:
    """A bot as it was built: all its files, and where each line came from."""

    bot_id: str
    slug: str
    name: str
    category: str
    number: int
    state: VersionState
    origin: Origin
    files: Mapping[str, str]
    """Texts as they were written, by their path within the bot's folder."""
    sha256: Mapping[str, str]
    config: Mapping[str, Any]
    """The whole config, in its wire form."""
    conversation: Sequence[Mapping[str, Any]] = ()
    provenance: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    session_id: str | None = None
    """What made it: a session, or a call with an id."""
    created_at_us: int = 0
    hand_edits: Sequence[str] = ()
    """Paths of the files that were edited by hand since the version before; the edits are in this version."""


@dataclass(frozen=True, slots=True)
class BotSummary:
    """What a list of bots shows."""

    bot_id: str
    slug: str
    name: str
    category: str
    purpose: BotPurpose
    version: int
    state: VersionState
    created_at_us: int
    updated_at_us: int


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """What a list of versions shows."""

    number: int
    state: VersionState
    origin: Origin
    sha256: Mapping[str, str]
    created_at_us: int
    hand_edits: Sequence[str] = ()
    """See BotVersion.hand_edits."""


class BuilderDraftStore(Protocol):
    """Keeps drafts; what a call has returned for is durable."""

    async def save_draft(
        self,
        draft: BuilderDraft,
        expected_revision: int,
        once: IdempotentCall | None = None,
        *,
        over: BuilderDraft | None = None,
    ) -> BuilderDraft:
        """Store a draft if its revision is still the expected one (0: there is none yet); return it as stored.

        The revision rises by one; `created_at_us` never changes. The call that it is saved for, if it has a key, is
        kept in the same transaction. With `over`, it is stored over exactly that draft: the same one, not one that was
        deleted and created again, and with the same state.

        Raises: Conflict when the draft was changed or deleted meanwhile, or the key was used.
        """
        ...

    async def load_draft(self, session_id: str) -> BuilderDraft:
        """Return a draft as it was stored, also one whose state cannot be read.

        Raises: NotFound; Damaged when its phase or its mode is none.
        """
        ...

    async def list_drafts(self, *, limit: int = 50, before: DraftPlace | None = None) -> Sequence[BuilderDraftSummary]:
        """Return drafts, the newest change first, by one index range; states are not read.

        `before` is the place of the last one of the page before, whatever has become of that one.

        Raises: Invalid when the limit is below 1.
        """
        ...

    async def find_drafts(self, prefix: str, *, limit: int = 50) -> Sequence[BuilderDraftSummary]:
        """Return drafts whose session id begins so, letter by letter, the last id first; states are not read.

        Raises: Invalid when the limit is below 1.
        """
        ...

    async def delete_draft(self, session_id: str, expected_revision: int | None = None) -> None:
        """Remove a draft, if its revision is the expected one where one is given.

        Raises: NotFound; Conflict when it is at another revision.
        """
        ...


class BuilderMemoryStore(Protocol):
    """Remembers choices; one that is damaged is left out of what is recalled."""

    async def record_session(self, entry: BuilderMemoryEntry) -> None:
        """Remember what was chosen; an id that is there already is not changed."""
        ...

    async def recall_by_category(
        self, category: str, limit: int = 10, *, before: "ChoicePlace | None" = None
    ) -> Sequence[BuilderMemoryEntry]:
        """Return what was chosen for bots of a category, the newest first; `before` as in `recall_recent`."""
        ...

    async def recall_recent(
        self, limit: int = 10, *, before: "ChoicePlace | None" = None
    ) -> Sequence[BuilderMemoryEntry]:
        """Return what was chosen last, the newest first; `before` is the place of the last one of the page before."""
        ...

    async def remove_choice(self, choice_id: str) -> None:
        """Forget one choice.

        Raises: NotFound
        """
        ...

    async def clear_choices(self) -> int:
        """Forget all choices, also damaged ones; return how many there were."""
        ...


class BotStore(Protocol):
    """Keeps every version of every bot; the folder on disk is written from it."""

    async def save_version(
        self, version: BotVersion, choice: BuilderMemoryEntry | None = None, *, draft_revision: int | None = None
    ) -> BotVersion:
        """Store a version as pending, with the bot itself when it is the first; return it as stored.

        In the same transaction the choice is remembered and the draft of the version's session is removed: at the
        revision that the version was made of, or at any when that is None. A session that has made a version already
        gets that one back, and nothing is changed.

        Raises: Conflict when the slug is taken by another bot, the number is not the next, or the draft is gone or at
        another revision.
        """
        ...

    async def mark_current(self, bot_id: str, number: int) -> None:
        """Note that a version is on disk; the one that was current before is past. Doing it again changes nothing.

        A version that a later one has overtaken stays past.

        Raises: NotFound
        """
        ...

    async def made_by(self, session_id: str) -> BotVersion | None:
        """Return the version that a session has made."""
        ...

    async def version(self, slug: str, number: int | None = None) -> BotVersion:
        """Return one version of a bot; without a number the newest, pending or not.

        Raises: NotFound
        """
        ...

    async def versions(
        self, slug: str, *, limit: int | None = None, before: int | None = None
    ) -> Sequence[VersionSummary]:
        """Return versions of a bot, newest first, at most `limit`; files are not read.

        `before` is the number of the last one of the page before; after the oldest there is nothing.

        Raises: NotFound when there is no such bot; Invalid when the limit is below 1.
        """
        ...

    async def list_bots(self, *, limit: int = 50, before: str | None = None) -> Sequence[BotSummary]:
        """Return bots by slug; `before` is the slug of the last one of the page before."""
        ...

    async def delete_bot(self, slug: str, number: int | None = None, *, with_choices: bool = False) -> None:
        """Remove a bot and all its versions; with a number, only if that is its newest version.

        With choices, what was chosen for bots of that slug is forgotten in the same transaction.

        Raises: NotFound; Conflict when the newest version is another.
        """
        ...
