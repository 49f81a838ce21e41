"""Ports of Forge: stores for drafts, past choices and bots. Imported whenever a database is opened."""

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
"""Stored but perhaps not yet on disk; on disk; replaced by a later version."""
Origin = Literal["assemble", "reconfigure", "rollback", "import"]


@dataclass(frozen=True, slots=True)
class BuilderDraft:
    """A stored session: its state as text, and the columns that a list shows."""

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
    """A draft in a list."""

    session_id: str
    initial_description: str
    phase: BuilderPhase | None
    """None, as the mode, if the stored value is not valid; the draft is damaged."""
    mode: BuilderMode | None
    revision: int
    updated_at_us: int

    @property
    def place(self) -> "DraftPlace":
        """Its place in a list."""
        return self.updated_at_us, self.session_id


DraftPlace = tuple[int, str]
"""A place in a list of drafts: the time of the last change and the session id; valid also after a deletion."""


@dataclass(frozen=True, slots=True)
class BuilderMemoryEntry:
    """The choices that were made for a bot; later interviews suggest them."""

    id: str
    purpose_category: str
    initial_description: str
    chosen_tone: str | None
    chosen_model: str | None
    """None, as tone and slug, if unknown, for example of a choice that another program recorded."""
    chosen_skills: tuple[str, ...]
    bot_slug: str | None
    created_at_us: int

    @property
    def place(self) -> "ChoicePlace":
        """Its place in a list."""
        return self.created_at_us, self.id


ChoicePlace = tuple[int, str]
"""A place in a list of choices: the time of a choice, and its id."""


@dataclass(frozen=True, slots=True)
class BotVersion:
    """A version of a bot: all its files, and the source of each line."""

    bot_id: str
    slug: str
    name: str
    category: str
    number: int
    state: VersionState
    origin: Origin
    files: Mapping[str, str]
    """Texts, by their path within the folder of the bot."""
    sha256: Mapping[str, str]
    config: Mapping[str, Any]
    """The complete config as JSON."""
    conversation: Sequence[Mapping[str, Any]] = ()
    provenance: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    session_id: str | None = None
    """The id of the session or of the call that made it."""
    created_at_us: int = 0
    hand_edits: Sequence[str] = ()
    """Paths of the files with hand edits since the version before; the edits are part of this version."""


@dataclass(frozen=True, slots=True)
class BotSummary:
    """A bot in a list."""

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
    """A version in a list."""

    number: int
    state: VersionState
    origin: Origin
    sha256: Mapping[str, str]
    created_at_us: int
    hand_edits: Sequence[str] = ()
    """See BotVersion.hand_edits."""


class BuilderDraftStore(Protocol):
    """Stores drafts. A write is durable when its call returns."""

    async def save_draft(
        self,
        draft: BuilderDraft,
        expected_revision: int,
        once: IdempotentCall | None = None,
        *,
        over: BuilderDraft | None = None,
    ) -> BuilderDraft:
        """Store a draft if the stored revision is the expected one (0: the draft is new); return it as stored.

        The revision increases by one; `created_at_us` never changes. The idempotent call `once` is recorded in the same
        transaction. With `over`, the stored draft must be exactly that one: not deleted and created again, and with the
        same state.

        Raises: Conflict when the draft was changed or deleted meanwhile, or the key was used.
        """
        ...

    async def load_draft(self, session_id: str) -> BuilderDraft:
        """Return a draft as it was stored, also one whose state cannot be decoded.

        Raises: NotFound; Damaged when its phase or its mode is not valid.
        """
        ...

    async def list_drafts(self, *, limit: int = 50, before: DraftPlace | None = None) -> Sequence[BuilderDraftSummary]:
        """Return drafts, the newest change first, by one index range; states are not read.

        `before` is the place of the last draft of the previous page, which may have been deleted since.

        Raises: Invalid when the limit is below 1.
        """
        ...

    async def find_drafts(self, prefix: str, *, limit: int = 50) -> Sequence[BuilderDraftSummary]:
        """Return drafts whose session id has a prefix, the last id first; states are not read.

        Raises: Invalid when the limit is below 1.
        """
        ...

    async def delete_draft(self, session_id: str, expected_revision: int | None = None) -> None:
        """Delete a draft.

        Raises: NotFound; Conflict when its revision is not the expected one.
        """
        ...


class BuilderMemoryStore(Protocol):
    """Stores choices. Damaged ones are omitted from results."""

    async def record_session(self, entry: BuilderMemoryEntry) -> None:
        """Store choices; an entry whose id exists is not changed."""
        ...

    async def recall_by_category(
        self, category: str, limit: int = 10, *, before: "ChoicePlace | None" = None
    ) -> Sequence[BuilderMemoryEntry]:
        """Return the choices for bots of a category, newest first; `before` as in `recall_recent`."""
        ...

    async def recall_recent(
        self, limit: int = 10, *, before: "ChoicePlace | None" = None
    ) -> Sequence[BuilderMemoryEntry]:
        """Return the last choices, newest first; `before` is the place of the last one of the previous page."""
        ...

    async def remove_choice(self, choice_id: str) -> None:
        """Delete one choice.

        Raises: NotFound
        """
        ...

    async def clear_choices(self) -> int:
        """Delete all choices, including damaged ones; return their number."""
        ...


class BotStore(Protocol):
    """Stores every version of every bot. The folders on disk are written from it."""

    async def save_version(
        self, version: BotVersion, choice: BuilderMemoryEntry | None = None, *, draft_revision: int | None = None
    ) -> BotVersion:
        """Store a version as pending, and the bot itself with its first version; return it as stored.

        The same transaction stores the choice and deletes the draft of the version's session, which must have the
        revision `draft_revision` unless that is None. If the session made a version before, that one is returned and
        nothing is changed.

        Raises: Conflict when another bot has the slug, the number is not the next one, or the draft was deleted or
        has another revision.
        """
        ...

    async def mark_current(self, bot_id: str, number: int) -> None:
        """Mark a version as current, and the one that was current as past. Idempotent.

        A version that a later one has replaced stays past.

        Raises: NotFound
        """
        ...

    async def version_of_session(self, session_id: str) -> BotVersion | None:
        """Return the version that a session or a call made; None if it made none."""
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

        `before` is the number of the last version of the previous page.

        Raises: NotFound when there is no such bot; Invalid when the limit is below 1.
        """
        ...

    async def list_bots(self, *, limit: int = 50, before: str | None = None) -> Sequence[BotSummary]:
        """Return bots in the order of their slugs; `before` is the slug of the last one of the previous page."""
        ...

    async def delete_bot(self, slug: str, number: int | None = None, *, with_choices: bool = False) -> None:
        """Delete a bot and all its versions; with a number, only if that is its newest version.

        With `with_choices`, the same transaction deletes the choices that were recorded for bots of that slug.

        Raises: NotFound; Conflict when another version is the newest.
        """
        ...
