"""Hand edits across the versions of a bot: which files have them, and which of them a rollback drops."""

from collections.abc import Mapping, Sequence

from perdure.bots.folder import NEW
from perdure.forge.ports import VersionSummary


def edited_files(version: Mapping[str, str], disk: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths whose text on disk is not that of the version, sorted; files `NAME.new` are left out."""
    paths = (path for path in {*version, *disk} if not path.endswith(NEW))
    return tuple(sorted(path for path in paths if version.get(path) != disk.get(path)))


def dropped_edits(versions: Sequence[VersionSummary], number: int) -> frozenset[str]:
    """Return the paths that have hand edits in the version before `number`, and lack them in version `number`.

    An edit is identified by the version that first contains it. A version contains the edits of the version before it
    and its own, unless the file has the SHA-256 of an earlier version: a rollback brought that text back, and with it
    exactly the edits of that version. A file that is not there contains none.
    """
    ordered = sorted((each for each in versions if each.number <= number), key=lambda each: each.number)
    paths = {path for version in ordered for path in version.sha256 if not path.endswith(NEW)}
    return frozenset(path for path in paths if _is_dropped(ordered, path))


def _is_dropped(ordered: Sequence[VersionSummary], path: str) -> bool:
    known: dict[str | None, frozenset[int]] = {None: frozenset()}
    before, edits = frozenset[int](), frozenset[int]()
    for version in ordered:
        before = edits
        own = {version.number} if path in version.hand_edits else set()
        edits = known.setdefault(version.sha256.get(path), before | own)
    return bool(before - edits)
