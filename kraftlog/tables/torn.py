"""The end of a Delta log as a machine leaves it that lost its power: the newest commits are there,
and empty or half.

In: the folder of a table on a disk. Out: whether its log was cut back to its last whole commit. An
object store shows an object when it is whole, and needs none of this. Source: the Delta protocol,
"Delta Log Entries".
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kraftlog.log.stores import is_remote


def cut_broken_end(table_path: str) -> bool:
    """Delete the newest commits that are no commits, down to one that is; whether there were any.

    Several processes may do so at once: each looks again when it is its turn, so that nobody deletes
    what another one has written instead."""
    folder = Path(table_path) / "_delta_log"
    if is_remote(table_path) or not folder.is_dir():
        return False
    with _alone_in(folder):
        commits = sorted(folder.glob("[0-9]" * 20 + ".json"), reverse=True)
        broken = []
        for one in commits:
            if is_commit(one):
                break
            broken.append(one)
        if len(broken) == len(commits):
            return False
        for one in broken:
            one.unlink()
    return bool(broken)


def is_commit(path: Path) -> bool:
    """Whether a file is a commit to its end: a JSON object in each line."""
    try:
        found = [json.loads(line) for line in path.read_bytes().splitlines()]
    except (OSError, ValueError, RecursionError):
        return False
    return bool(found) and all(isinstance(one, dict) for one in found)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time; the system lets go of what a killed one held."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
