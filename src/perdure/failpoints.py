"""Named points in front of and behind every durable write, where a test may kill, raise or delay.

In production nothing is armed and `hit` is one look into an empty dictionary. A test arms a point with
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
        # a file that is replaced or made as a whole: its part is written, flushed, given its name, and that is flushed
        "files.write.before",
        "files.fsync.before",
        "files.name.before",
        "files.folder.before",
        "files.folder.after",
        # the flush of a folder after write_file has given a file its name
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
        # the note that a flush has failed, written and taken back
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
        # an index of the memory that was made beside its place, and is renamed into it
        "memory.index.before",
        "memory.index.after",
        # a record that is added under a key: the key is kept, then it is added, then the answer is kept
        "memory.once.before",
        "memory.once.after",
        # a record that a bot files
        "memory.remember.before",
        "memory.remember.after",
        # a new SQLite file, made beside its place and renamed into it
        "store.create.before",
        "store.create.after",
        # one migration; "copy" is the copy of the file that is made first
        "store.migrate.copy.before",
        "store.migrate.copy.after",
        "store.migrate.commit.before",
        "store.migrate.commit.after",
        # a version of a bot: kept in the database, written, and then noted as written; a bot that is deleted
        "forge.version.before",
        "forge.version.after",
        "forge.current.before",
        "forge.current.after",
        "forge.delete.before",
        "forge.delete.after",
        # the folder of a new bot; one file of a bot replaced, removed, or given another name; a folder removed
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
        # a restore: the plan is written down, then each piece is swapped in
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
    """Run what is armed at this point; normally nothing."""
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
