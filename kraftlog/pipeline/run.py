"""A run: what it reads, where it writes, which number it has.

In: options. Out: a `Run` that the steps share, and the lake's redaction key. Runs on the driver.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraftlog.config import Options
from kraftlog.decode.redaction import Redactor
from kraftlog.errors import LakeError, UsageError
from kraftlog.log.segment import Limits
from kraftlog.log.storage import absolute
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
    """32 random bytes, made once per lake, so that masked values compare from run to run.

    Whoever may read both the key and the tables could test guesses of a secret: share the tables'
    folders, not this file.
    """
    filesystem, path = filesystem_of(f"{lake.root.rstrip('/')}/{KEY_FILE}")
    try:
        if filesystem.get_file_info(path).is_file:
            with filesystem.open_input_stream(path) as stream:
                return bytes(stream.read())[:KEY_SIZE]
        filesystem.create_dir(path.rsplit("/", 1)[0], recursive=True)
        key = os.urandom(KEY_SIZE)
        with filesystem.open_output_stream(path) as stream:
            stream.write(key)
        if "://" not in lake.root:
            Path(path).chmod(0o600)
        return key
    except OSError as error:
        raise LakeError(f"{lake.root}: the lake cannot be written ({error})") from error


def newest_run(lake: Lake) -> dict[str, Any]:
    """The row of the lake's newest run.

    Raises LakeError where nothing has been decoded yet."""
    runs: list[dict[str, Any]] = lake.read("runs").sort_by("number").to_pylist()
    if not runs:
        raise LakeError(f"{lake.root}: no run has finished yet; run the decode job first")
    return runs[-1]
