"""Archives of bots: a zip with the texts, and a manifest with their SHA-256. Nothing in an archive is run."""

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from perdure.bots.bot import MOST_FILES, parse_bot
from perdure.bots.documents import MAX_BYTES, decode_text
from perdure.bots.folder import NEW, require_bot_path
from perdure.errors import Damaged, Invalid, NotFound, from_os_error
from perdure.text.strict_json import PAYLOAD, parse_json

FORMAT = 1
_ZIP = b"PK"
"""The first bytes of a zip file."""
MANIFEST = "perdure-bot.json"
MAX_ARCHIVE_BYTES = 16 << 20
MAX_ALL_BYTES = 32 << 20
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PackedBot:
    """The contents of an archive."""

    slug: str
    config: Mapping[str, Any]
    files: Mapping[str, str]


def pack_bot(bot: PackedBot) -> bytes:
    """Return the bytes of an archive; the same bot always returns the same bytes."""
    files = {path: text.encode() for path, text in sorted(bot.files.items()) if not path.endswith(NEW)}
    manifest = {
        "format": FORMAT,
        "slug": bot.slug,
        "config": bot.config,
        "sha256": {path: sha256(data).hexdigest() for path, data in files.items()},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {MANIFEST: json.dumps(manifest, indent=1).encode(), **files}.items():
            entry = zipfile.ZipInfo(name, _FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()


def read_archive(path: Path) -> PackedBot:
    """Read an archive from a file.

    Raises: NotFound; Invalid when it is not an archive of a bot; Damaged when it is incomplete or altered; Denied.
    """
    try:
        if not path.is_file():
            raise NotFound(f"There is no file {path}.")
        with path.open("rb") as file:
            data = file.read(MAX_ARCHIVE_BYTES + 1)
    except OSError as error:
        raise from_os_error(f"{path} cannot be read", error) from error
    return unpack_bot(data, str(path))


def unpack_bot(data: bytes, name: str) -> PackedBot:
    """Read an archive, and validate the bot in it.

    Raises: Invalid when it is not an archive of a bot; Damaged when it is incomplete or altered.
    """
    if len(data) > MAX_ARCHIVE_BYTES:
        raise Invalid(f"{name} is larger than {MAX_ARCHIVE_BYTES >> 20} MiB.")
    if not data.startswith(_ZIP[: len(data)]):
        raise Invalid(f"{name} is not an archive of a bot. `perdure bot export SLUG` writes one.")
    with _archive_errors(name), zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = dict(_contents(archive, name))
    if MANIFEST not in contents:
        raise Invalid(f"{name} is not an archive of a bot: {MANIFEST} is missing.")
    slug, config, hashes = _read_manifest(contents.pop(MANIFEST), name)
    if {path: sha256(each).hexdigest() for path, each in contents.items()} != hashes:
        raise Damaged(f"The files in {name} do not match its manifest. Export the bot again.")
    files = {path: decode_text(each, f"{name}: {path}") for path, each in contents.items()}
    parse_bot(slug, files)
    return PackedBot(slug, config, files)


def _contents(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive. Raises: Invalid for an entry that is not a regular file of a bot."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(entries) > MOST_FILES + 1 or len(set(names)) != len(names):
        raise Invalid(f"{name} contains a file twice, or more than {MOST_FILES} files.")
    left = MAX_ALL_BYTES
    for entry in entries:
        _require_plain(entry, name)
        with archive.open(entry) as stream:
            data = stream.read(MAX_BYTES + 1)
        left -= len(data)
        if len(data) > MAX_BYTES or left < 0:
            raise Invalid(f"{name} is too large for a bot, at {entry.filename!r}.")
        yield entry.filename, data


def _require_plain(entry: zipfile.ZipInfo, name: str) -> None:
    kind = entry.external_attr >> 28  # the upper half is the Unix mode, or 0
    is_supported = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not entry.flag_bits & 1
    if entry.filename.endswith(NEW) or kind not in (0, 0o10) or not is_supported:
        raise Invalid(f"{name} contains {entry.filename[:200]!r}, which is not a regular file of a bot.")
    try:
        if entry.filename != MANIFEST:
            require_bot_path(entry.filename)
    except Invalid as error:
        raise Invalid(f"{name} contains {entry.filename[:200]!r}, which is not a file of a bot.") from error


def _read_manifest(data: bytes, name: str) -> tuple[str, Mapping[str, Any], Mapping[str, str]]:
    try:
        content = parse_json(data, MANIFEST, PAYLOAD)
    except Invalid as error:
        raise Invalid(f"{name} has a {MANIFEST} that cannot be read: {error.detail}") from error
    try:
        if content["format"] != FORMAT:
            raise Invalid(f"{name} has format {content['format']!r:.60}; this Perdure reads format {FORMAT}.")
        slug, config, hashes = content["slug"], content["config"], content["sha256"]
        is_valid = isinstance(slug, str) and isinstance(config, dict) and isinstance(hashes, dict)
        if not is_valid or not all(isinstance(each, str) and _HASH.fullmatch(each) for each in hashes.values()):
            raise TypeError("of another type")
    except (TypeError, KeyError) as error:
        raise Invalid(f"{name} has a {MANIFEST} that cannot be read.") from error
    return slug, config, hashes


@contextmanager
def _archive_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, struct.error) as error:
        raise Damaged(f"{name} is an incomplete archive of a bot: {error}.") from error
    except (NotImplementedError, RuntimeError) as error:
        raise Invalid(f"{name} is packed in an unsupported way: {error}.") from error
