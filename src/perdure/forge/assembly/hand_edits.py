"""Hand edits across the versions of a bot: the files that have them, and those that a rollback would drop."""

from collections.abc import Mapping, Sequence

from perdure.bots.folder import NEW
from perdure.forge.ports import VersionSummary


def edited_files(version: Mapping[str, str], disk: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths whose text on disk is not that of the version, sorted; files `NAME.new` are left out."""
    paths = (path for path in {*version, *disk} if not path.endswith(NEW))
    return tuple(sorted(path for path in paths if version.get(path) != disk.get(path)))


def dropped_edits(versions: Sequence[VersionSummary], number: int) -> frozenset[str]:
    """Return the paths whose hand edits are in the version before `number` but not in version `number`.

    An edit is identified by the first version that contains it. A version contains its own edits and those of the
    version before it. The exception is a file with the SHA-256 of an earlier version: a rollback restored that text, so
    it contains exactly the edits of that version. A missing file contains none.
    """
    ordered = sorted((each for each in versions if each.number <= number), key=lambda each: each.number)
    paths = {path for version in ordered for path in version.sha256 if not path.endswith(NEW)}
    return frozenset(path for path in paths if _is_dropped(ordered, path))


def _is_dropped(ordered: Sequence[VersionSummary], path: str) -> bool:
    edits_by_hash: dict[str | None, frozenset[int]] = {None: frozenset()}
    before, edits = frozenset[int](), frozenset[int]()
    for version in ordered:
        before = edits
        own = {version.number} if path in version.hand_edits else set()
        edits = edits_by_hash.setdefault(version.sha256.get(path), before | own)
    return bool(before - edits)
