"""Named points in front of and behind every durable write, where a test may kill, raise or delay.

In production nothing is armed, and `hit` is one check of an empty dictionary. A test arms a point with
`armed(name, action)`; the action runs in the thread that reaches the point. There is no way to arm one from
outside the process.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

POINTS = frozenset(
    {
        # one append of the runner, and one run of a tool
        "kernel.append.before",
        "kernel.append.after",
        "kernel.effect.before",
        "kernel.effect.after",
        # the children of durable intents are created or found
        "kernel.children.before",
        "kernel.children.after",
        # an atomic write of a file: its part is written, flushed and renamed, and the folder is flushed
        "files.write.before",
        "files.fsync.before",
        "files.name.before",
        "files.folder.before",
        "files.folder.after",
        # the flush of a folder after write_file has renamed a file in it
        "tools.write.flush",
        # the note of a forked process, in that process
        "tools.forks.note.before",
        # one write transaction
        "store.commit.before",
        "store.commit.after",
        # one transaction that appends of several goals may share
        "store.append.before",
        "store.append.after",
        # a lease taken, renewed, released
        "store.claim.before",
        "store.claim.after",
        "store.renew.before",
        "store.renew.after",
        "store.release.before",
        "store.release.after",
        # the lease of a worker that has ended, removed
        "store.retire.before",
        "store.retire.after",
        # one append to the memory's log; "some" is in front of each single write
        "memory.write.before",
        "memory.write.some",
        "memory.write.after",
        "memory.flush.before",
        "memory.flush.after",
        # the flush of the folder after a log was made or replaced
        "memory.names.before",
        "memory.names.after",
        # the record of a failed flush is written, or removed
        "memory.mark.before",
        "memory.mark.after",
        "memory.clear.before",
        "memory.clear.after",
        # a rewrite of the log: a draft is written and flushed, then renamed
        "memory.draft.before",
        "memory.draft.after",
        "memory.swap.before",
        # records written to the archive, forgotten there, or damaged bytes moved aside
        "memory.archive.before",
        "memory.archive.after",
        "memory.purge.before",
        "memory.purge.between",
        "memory.purge.after",
        "memory.quarantine.before",
        "memory.quarantine.after",
        # a new index of the memory is renamed over the old one
        "memory.index.before",
        "memory.index.after",
        # a record with an idempotency key: the key is stored, the record is added, the answer is stored
        "memory.once.before",
        "memory.once.after",
        # a record that a bot stores with `remember`
        "memory.remember.before",
        "memory.remember.after",
        # a new SQLite file, created under another name and renamed
        "store.create.before",
        "store.create.after",
        # one migration; "copy" is the copy of the file before it
        "store.migrate.copy.before",
        "store.migrate.copy.after",
        "store.migrate.commit.before",
        "store.migrate.commit.after",
        # a version of a bot: stored in the database, written to disk, marked as current; a bot is deleted
        "forge.version.before",
        "forge.version.after",
        "forge.current.before",
        "forge.current.after",
        "forge.delete.before",
        "forge.delete.after",
        # the folder of a new bot; one file of a bot is replaced, removed, or renamed; a folder is removed
        "bots.folder.before",
        "bots.folder.after",
        "bots.file.before",
        "bots.file.after",
        "bots.remove.before",
        "bots.remove.after",
        "bots.aside.before",
        "bots.aside.after",
        "bots.delete.before",
        "bots.delete.after",
        # a backup, published by a rename; "file" is in front of each file that is copied from a folder
        "store.backup.file",
        "store.backup.before",
        "store.backup.after",
        # a restore: the plan is written, then each part is swapped in
        "store.restore.plan.before",
        "store.restore.plan.after",
        "store.restore.swap.before",
        "store.restore.swap.between",
        "store.restore.swap.after",
        "store.restore.done.before",
        "store.restore.done.after",
    }
)

_armed: dict[str, Callable[[], None]] = {}


def hit(name: str) -> None:
    """Run the action that a test armed at this point, if any."""
    if _armed:
        action = _armed.get(name)
        if action is not None:
            action()


@contextmanager
def armed(name: str, action: Callable[[], None]) -> Iterator[None]:
    """Run `action` whenever the point `name` is reached inside the block."""
    if name not in POINTS:
        raise ValueError(f"no fail-point is called {name!r}")
    _armed[name] = action
    try:
        yield
    finally:
        del _armed[name]
