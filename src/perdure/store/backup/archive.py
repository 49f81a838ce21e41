"""Archives: one file with a database and folders, written atomically and verified completely when it is read.

An archive is a gzipped tar: `database`, then the files of each folder, and last `manifest.json` with the size and
SHA-256 of every earlier entry. It contains regular files only; the manifest lists omitted links and empty folders.
Reading an archive never follows a link, never writes outside the target folders, and never overwrites a file.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from perdure import failpoints
from perdure.errors import Damaged, Invalid, Unavailable, from_os_error
from perdure.files.folders import FOLDER_MODE, ensure_folder
from perdure.files.fsync import fsync_file, fsync_folder
from perdure.files.opening import FILE_MODE, create_exclusive
from perdure.store.backup.new_file import new_file
from perdure.store.backup.places import DATABASE
from perdure.text.strict_json import PAYLOAD, parse_json

FORMAT = 1
MANIFEST = "manifest.json"
NOT_KEPT = ("*.lock", "*.idx.sqlite*", "*.idx.new*", "*.jsonl.new")
"""Files that are not backed up: locks, derived files, and temporary files, which may disappear at any moment."""
_CHUNK = 1 << 20
_LARGEST_MANIFEST = 64 << 20


@dataclass(frozen=True)
class Entry:
    """One file in an archive."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The description of an archive: its format, its origin and its entries."""

    format: int
    program: str
    created_at: str
    database: str
    version: int
    entries: tuple[Entry, ...]
    left_out: tuple[str, ...] = ()


def write_archive(
    target: Path, *, dump: Path, database: str, version: int, folders: Mapping[str, Path], program: str
) -> Manifest:
    """Write a new archive of a database dump and the regular files in some folders; `program` is the writer.

    Raises: Conflict when the target exists; Invalid when it lies in one of the folders; Denied when something cannot be
    read or written.
    """
    if inside := [folder for folder in folders.values() if target.resolve().is_relative_to(folder.resolve())]:
        raise Invalid(f"{target} lies in {inside[0]}, which is itself backed up. Choose a place outside.")
    with new_file(target) as part, _denied(target), tarfile.open(part, "w:gz", compresslevel=6) as archive:
        entries, left_out = [_add(archive, DATABASE, dump)], list[str]()
        for name, folder in sorted(folders.items()):
            entries += _add_all(archive, name, folder)
            left_out += [f"{name}/{path.relative_to(folder).as_posix()}" for path in _not_files(folder)]
        manifest = Manifest(
            format=FORMAT,
            program=program,
            created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            database=database,
            version=version,
            entries=tuple(entries),
            left_out=tuple(left_out),
        )
        text = json.dumps(asdict(manifest), indent=1).encode()
        archive.addfile(_member(MANIFEST, len(text)), io.BytesIO(text))
        return manifest


def unpack_archive(source: Path, places: Mapping[str, Path]) -> Manifest:
    """Unpack the parts of an archive to the places of the same names, which must not exist.

    Raises: Damaged when it is incomplete or was altered; Invalid when it has entries that Perdure does not write.
    """
    found: dict[str, Entry] = {}
    text = b""
    with _damaged(source), gzip.open(source) as unzipped, tarfile.open(fileobj=unzipped, mode="r:") as archive:
        for member in _plain_members(archive, source):
            content = archive.extractfile(member)
            if content is None or member.name in found or text:
                raise Invalid(f"{source} contains {member.name!r} twice, or after its manifest. Use another backup.")
            if member.name == MANIFEST:
                text = content.read(_LARGEST_MANIFEST)
            else:
                place = _place(member.name, places, source)
                found[member.name] = _unpack(content, member.name, place)
                place.chmod(FOLDER_MODE if member.mode & 0o100 else FILE_MODE)
        _read_to_the_end(unzipped)
    manifest = _read_manifest(text, source)
    if {entry.path: entry for entry in manifest.entries} != found or DATABASE not in found:
        raise Damaged(f"The contents of {source} differ from its manifest. Use another backup.")
    return manifest


def _plain_members(archive: tarfile.TarFile, source: Path) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive, and reject all but regular files of plausible size."""
    last = -1
    for member in archive:
        is_plain = member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and member.sparse is None
        if not is_plain or member.size < 0 or member.offset <= last:
            raise Invalid(f"{source} holds {member.name!r}, which is not a regular file. Nothing was restored.")
        if member.size > shutil.disk_usage(source.parent).free:
            raise Unavailable(f"There is no space for the {member.size:,} bytes of {member.name!r} in {source}.")
        last = member.offset
        yield member


def _below(folder: Path) -> list[Path]:
    """Return all paths below a folder except folders; a folder that cannot be read is an error."""

    def fail(error: OSError) -> None:
        raise error

    found = [Path(top, name) for top, folders, names in os.walk(folder, onerror=fail) for name in (*names, *folders)]
    return sorted((path for path in found if path.is_symlink() or not path.is_dir()), key=lambda p: (len(p.parts), p))


def _files(folder: Path) -> list[Path]:
    """Return the regular files below a folder that are backed up."""
    return [path for path in _everything(folder) if _is_plain(path) and not _is_derived(path)]


def _not_files(folder: Path) -> list[Path]:
    """Return links, sockets and pipes below a folder, which are omitted."""
    return [path for path in _everything(folder) if not _is_plain(path) and not _is_derived(path)]


def _everything(folder: Path) -> list[Path]:
    return _below(folder) if folder.is_dir() else []


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _is_derived(path: Path) -> bool:
    return any(fnmatch(path.name, skip) for skip in NOT_KEPT)


def _add_all(archive: tarfile.TarFile, name: str, folder: Path) -> list[Entry]:
    """Add the files of a folder, its own before those of subfolders, in two passes.

    The memory moves records from its log to a subfolder, possibly to a new file. A copy of the log, followed by a
    second listing of the subfolder, contains every record at least once.
    """
    entries, seen = list[Entry](), set[Path]()
    for _ in range(2):
        news = [path for path in _files(folder) if path not in seen]
        for path in news:
            failpoints.hit("store.backup.file")
            entries.append(_add(archive, f"{name}/{path.relative_to(folder).as_posix()}", path))
        seen.update(news)
    return entries


def _add(archive: tarfile.TarFile, name: str, path: Path) -> Entry:
    """Add the current bytes of a file; a log may grow meanwhile."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # of the open file: its name may belong to another file by now
        reader = _Hashing(file)
        archive.addfile(_member(name, size, is_program=os.access(path, os.X_OK)), reader)  # type: ignore[arg-type]
        return Entry(name, size, reader.sha256.hexdigest())


def _member(name: str, size: int, *, is_program: bool = False) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = FOLDER_MODE if is_program else FILE_MODE
    return member


class _Hashing:
    """A file that computes the SHA-256 of what is read from it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.sha256.update(data)
        return data


def _place(name: str, places: Mapping[str, Path], source: Path) -> Path:
    path = PurePosixPath(name)
    first, *rest = path.parts or ("",)
    is_plain = not path.is_absolute() and ".." not in path.parts and "\0" not in name
    if not is_plain or first not in places or (first == DATABASE) != (not rest):
        raise Invalid(f"{source} holds {name!r}, which does not belong into an archive. Nothing was restored.")
    return places[first].joinpath(*rest)


def _unpack(content: BinaryIO | object, name: str, place: Path) -> Entry:
    ensure_folder(place.parent)
    sha256, size = hashlib.sha256(), 0
    with os.fdopen(create_exclusive(place), "wb") as file:
        while data := content.read(_CHUNK):  # type: ignore[union-attr]
            file.write(data)
            sha256.update(data)
            size += len(data)
        file.flush()
        fsync_file(file.fileno())
    fsync_folder(place.parent)
    return Entry(name, size, sha256.hexdigest())


def _read_to_the_end(unzipped: gzip.GzipFile) -> None:
    """Read to the end, where gzip verifies its checksum."""
    while unzipped.read(_CHUNK):
        pass


def _read_manifest(text: bytes, source: Path) -> Manifest:
    if not text:
        raise Damaged(f"{source} is not whole: its manifest is missing. Use another backup.")
    try:
        content = parse_json(text, MANIFEST, PAYLOAD)
    except Invalid as error:
        raise Damaged(f"{source} has a manifest that cannot be read: {error.detail} Use another backup.") from error
    try:
        if content["format"] != FORMAT:
            raise Invalid(f"{source} has format {content['format']}; this Perdure reads format {FORMAT}.")
        entries = tuple(Entry(**entry) for entry in content.pop("entries"))
        manifest = Manifest(**content | {"entries": entries, "left_out": tuple(content["left_out"])})
        if not all(isinstance(entry.path, str) for entry in manifest.entries):
            raise TypeError("a path is a string")
    except (TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{source} has a manifest that cannot be read. Use another backup.") from error
    return manifest


@contextmanager
def _denied(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise from_os_error(str(error.filename or target), error) from error


@contextmanager
def _damaged(source: Path) -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        raise Damaged(f"{source} is not a whole archive: {error}. Use another backup.") from error
    except FileExistsError as error:
        raise Invalid(f"{source} holds the same file twice. Nothing was restored.") from error
