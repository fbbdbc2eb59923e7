"""One file for readers that come at any time: they see the old one or the new one, never half."""

import os
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow.fs as pafs

from kraftlog.tables.parquet import lake_filesystem, make_folder_of


def write_whole(path: str, content: bytes) -> None:
    """Write a file beside its place and move it there; a full disk leaves the old one. A link stays
    one: what it leads to is written. A pipe or a device is no file that could be replaced: it is
    written to. An object store shows an object when it is whole.
    """
    filesystem, inner = lake_filesystem(path)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        with filesystem.open_output_stream(inner) as stream:
            stream.write(content)
        return
    if _is_stdout(inner):  # maybe a file, which holds the answer so far
        sys.stdout.flush()
        with os.fdopen(os.dup(1), "wb") as out:
            out.write(content)
        return
    if is_stream(inner):
        Path(inner).write_bytes(content)
        return
    inner = os.path.realpath(inner)  # of a loop it leaves what it is
    make_folder_of(filesystem, inner)
    part = f"{inner}.{uuid.uuid4().hex}.part"
    try:
        with filesystem.open_output_stream(part) as stream:
            stream.write(content)
        filesystem.move(part, inner)
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(part)
        raise


def is_stream(path: str) -> bool:
    """Whether a local path leads to a pipe, a device or the like, which is neither a file nor a
    folder, or to where this process prints.
    """
    found = Path(path)
    is_odd = found.exists() and not found.is_file() and not found.is_dir()
    return is_odd or _is_stdout(path)


def _is_stdout(path: str) -> bool:
    try:
        return os.path.samestat(Path(path).stat(), os.fstat(1))
    except OSError:
        return False
