"""Replicas → rows of the `files` relation: every file with what its name says, and what a side
file's content says.

Runs on the driver: side files are small, and reading them is bounded.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from kraftlog import relations
from kraftlog.log import names
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
from kraftlog.plain import reason_of
from kraftlog.quorum.side_evidence import NODE_FILES

_INDEXES = {names.INDEX: INDEX_ENTRY, names.TIME_INDEX: TIME_INDEX_ENTRY}


def file_rows(replicas: Iterable[Replica]) -> tuple[pa.Table, list[tuple[LogFile, Fault]]]:
    """The rows of `files`, and a fault for each side file that cannot be read or parsed."""
    rows: list[dict[str, Any]] = []
    faults: list[tuple[LogFile, Fault]] = []
    for replica in replicas:
        for file in replica.files:
            row = _row(file)
            try:
                row.update(_content(file))
            except FileNotFoundError:
                faults.append((file, _fault(FaultKind.VANISHED, file, "the file is gone")))
            except OSError as error:
                row["problem"] = reason_of(error)
                faults.append((file, _fault(FaultKind.UNREADABLE, file, row["problem"])))
            except ValueError as error:
                faults.append((file, _fault(FaultKind.FILE_FORMAT, file, str(error))))
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=relations.FILES.schema), faults


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


def _content(file: LogFile) -> dict[str, Any]:
    if file.problem is not None or file.kind not in NODE_FILES.keys() | _INDEXES.keys():
        return {}
    with open_file(file.path) as handle:
        raw = read_whole(handle, INDEX_LIMIT if file.kind in _INDEXES else SIDE_FILE_LIMIT)
    if file.kind in NODE_FILES:
        _, read = NODE_FILES[file.kind]
        value = read(raw)
        shown = asdict(value) if isinstance(value, QuorumState) else value
        return {"content": json.dumps(shown, sort_keys=True)}
    index = read_index(raw, _INDEXES[file.kind])
    told = {"entries": len(index.entries), "surplus_size_bytes": index.surplus_size_bytes}
    return {"content": json.dumps(told), "padding_bytes": index.padding_size_bytes}


def _fault(kind: FaultKind, file: LogFile, detail: str) -> Fault:
    return Fault(kind, 0, file.size_bytes, detail)
