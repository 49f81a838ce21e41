"""The limit of open files of this process and of the programs that it starts."""

import resource

MOST_FILES = 65_536

_soft_before: int | None = None


def raise_file_limit() -> None:
    """Raise the limit of open files of this process to the maximum that the system allows, up to 65,536.

    Programs that it starts keep the original limit, see `restore_file_limit`.
    """
    global _soft_before  # noqa: PLW0603 (the limit belongs to the process, too)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _soft_before = soft


def restore_file_limit(pid: int) -> None:
    """Restore the original limit in a child, because programs that use select(2) may fail with a higher one."""
    if _soft_before is not None:
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (_soft_before, hard))
