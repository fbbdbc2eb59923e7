"""Writing files of our own: never through a link, whole or not at all, for their owner only.

In: paths below `--out`, and bytes. Out: files. Raises OSError, which `pull.folder` tells in one
sentence.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kraftlog.state.checkpoint import ONLY_READABLE_BY_OWNER


def free_name(path: Path) -> Path:
    """A name that nothing has yet: Kafka's own suffix, as often as it takes."""
    while path.exists():
        path = path.with_name(path.name + ".deleted")
    return path


def replace_file(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    part = path.with_name(path.name + ".part")
    with open_own(part, os.O_TRUNC) as handle:
        write_all(handle, text.encode())
        os.fsync(handle)
    rename(part, path)


def rename(source: Path, target: Path) -> None:
    source.replace(target)
    with suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def open_own(path: Path, flags: int) -> Iterator[int]:
    """A file of ours to write, never through a link; only its owner may read it, as the log holds
    secrets in clear.
    """
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, ONLY_READABLE_BY_OWNER)
    try:
        yield handle
    finally:
        os.close(handle)


def write_all(handle: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(handle, left) :]
