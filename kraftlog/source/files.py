"""Replicas → rows of the `files` relation: every file with what its name says, what a side file's
content says, and a hash of what is read whole.

Runs on the driver: side files are small, and reading them is bounded.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa

from kraftlog import relations
from kraftlog.log import names
from kraftlog.log.batch import content_hash
from kraftlog.log.directory import LogFile, Replica
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.sidefiles import (
    INDEX_ENTRY,
    INDEX_LIMIT,
    SIDE_FILE_LIMIT,
    TIME_INDEX_ENTRY,
    QuorumState,
    read_index,
)
from kraftlog.log.storage import open_file, read_whole
from kraftlog.log.stores import side_by_side
from kraftlog.plain import reason_of
from kraftlog.quorum.side_evidence import NODE_FILES

_INDEXES = {names.INDEX: INDEX_ENTRY, names.TIME_INDEX: TIME_INDEX_ENTRY}
_READ = NODE_FILES.keys() | _INDEXES.keys() | {names.PRODUCER_SNAPSHOT, names.QUORUM_DESCRIBE}


def file_rows(
    replicas: Iterable[Replica], id_key: bytes | None
) -> tuple[pa.Table, list[tuple[LogFile, Fault]]]:
    """The rows of `files`, and a fault for each side file that cannot be read or parsed. Contents
    are named under a key: a server.properties holds passwords.
    """
    files = [file for replica in replicas for file in replica.files]
    told = side_by_side(partial(_told, id_key), files)
    faults = [(file, fault) for file, (_, fault) in zip(files, told, strict=True) if fault]
    return pa.Table.from_pylist([row for row, _ in told], schema=relations.FILES.schema), faults


def _told(id_key: bytes | None, file: LogFile) -> tuple[dict[str, Any], Fault | None]:
    row = _row(file)
    try:
        if file.problem is None and file.kind in _READ:
            raw = _raw(file)
            row["content_hash"] = content_hash(raw, id_key)
            row.update(_content(file, raw))
    except FileNotFoundError:
        return row, _fault(FaultKind.VANISHED, file, "the file is gone")
    except OSError as error:
        row["problem"] = reason_of(error)
        return row, _fault(FaultKind.UNREADABLE, file, row["problem"])
    except ValueError as error:
        return row, _fault(FaultKind.FILE_FORMAT, file, str(error))
    return row, None


def _row(file: LogFile) -> dict[str, Any]:
    parsed = file.parsed
    return {
        "replica": file.replica,
        "path": file.path,
        "name": file.name,
        "kind": file.kind,
        "size_bytes": file.size_bytes,
        "modified": relations.moment(file.modified_ns // 1000 / 1000),
        "modified_ns": file.modified_ns,
        "base_offset": parsed.base_offset,
        "end_offset": parsed.end_offset,
        "epoch": parsed.epoch,
        "name_form": parsed.form,
        "problem": file.problem,
    }


def _raw(file: LogFile) -> bytes:
    with open_file(file.path) as handle:
        return read_whole(handle, INDEX_LIMIT if file.kind in _INDEXES else SIDE_FILE_LIMIT)


def _content(file: LogFile, raw: bytes) -> dict[str, Any]:
    """What the bytes of a file say."""
    if file.kind in NODE_FILES:
        _, read = NODE_FILES[file.kind]
        value = read(raw)
        shown = asdict(value) if isinstance(value, QuorumState) else value
        return {"content": json.dumps(shown, sort_keys=True)}
    if file.kind not in _INDEXES:
        return {}
    index = read_index(raw, _INDEXES[file.kind])
    told = {"entries": len(index.entries), "surplus_size_bytes": index.surplus_size_bytes}
    row = {"content": json.dumps(told), "padding_bytes": index.padding_size_bytes}
    # Kafka maps an index that it has open into memory: the content changes before the time does.
    return row | {"content_hash": None} if index.padding_size_bytes else row


def _fault(kind: FaultKind, file: LogFile, detail: str) -> Fault:
    return Fault(kind, 0, file.size_bytes, detail)
