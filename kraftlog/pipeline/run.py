"""A run: what it reads, where it writes, which number it has.

In: options. Out: a `Run` that the steps share, and the lake's redaction key. Runs on the driver.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow.fs as pafs

from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import LakeError, UsageError
from kraftlog.log.segment import Limits
from kraftlog.log.storage import absolute
from kraftlog.plain import in_line
from kraftlog.source.settings import KEY_SIZE
from kraftlog.tables.lake import Lake
from kraftlog.tables.lease import held
from kraftlog.tables.parquet import filesystem_of
from kraftlog.tables.place import KEY_FILE


@dataclass(frozen=True, slots=True)
class Run:
    """One run over one lake. `number` counts the lake's runs from 1."""

    lake: Lake
    number: int
    run_id: str
    limits: Limits
    redactor: Redactor


def lake_of(options: Options) -> Lake:
    """The lake that the options name, under the lease that this thread holds.

    Raises UsageError where they name none."""
    if not options.lake:
        raise UsageError("no lake is named: say --lake FOLDER, where the Delta tables go")
    root = absolute(options.lake)
    lease = held(root)
    return Lake(root, lease.token if lease else 0)


def lake_key(lake: Lake) -> bytes:
    """32 random bytes, made once per lake: under them secrets are masked and contents named, which
    so compare from run to run.

    Whoever may read both the key and the tables can test guesses of a secret: share the tables'
    folders, not this file. Raises LakeError where it is missing beside tables, or broken."""
    filesystem, path = filesystem_of(f"{lake.root.rstrip('/')}/{KEY_FILE}")
    try:
        if not filesystem.get_file_info(path).is_file:
            if lake.exists("runs"):
                raise LakeError(
                    f"{path}, the key of the lake's masks and names, is missing: {_BACK}"
                )
            _make_key(filesystem, path)
        with filesystem.open_input_stream(path) as stream:
            key = bytes(stream.read())
    except OSError as error:
        raise LakeError(f"{lake.root}: the lake cannot be written ({in_line(error)})") from error
    if len(key) != KEY_SIZE:
        raise LakeError(f"{path}, the key of the lake's masks, is broken: {_BACK}")
    return key


_BACK = "put its backup back, or name another lake"


def _make_key(filesystem: pafs.FileSystem, path: str) -> None:
    """Write a new key in one step: nobody sees a part of it, or may read what others may not. Where
    another run is first, its key stays.
    """
    folder = path.rsplit("/", 1)[0]
    filesystem.create_dir(folder, recursive=True)
    key = os.urandom(KEY_SIZE)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        # An object store shows an object when it is whole.
        with filesystem.open_output_stream(path) as stream:
            stream.write(key)
        return
    with NamedTemporaryFile(dir=folder, prefix=KEY_FILE) as unfinished:
        unfinished.write(key)
        unfinished.flush()
        os.fsync(unfinished.fileno())
        with suppress(FileExistsError):
            os.link(unfinished.name, path)


def newest_run(lake: Lake) -> dict[str, Any]:
    """The row of the lake's newest run.

    Raises LakeError where nothing has been decoded yet."""
    runs: list[dict[str, Any]] = lake.read("runs").sort_by("number").to_pylist()
    if not runs:
        raise LakeError(f"{lake.root}: no run has finished yet; run the decode job first")
    return runs[-1]
