"""The small files beside a log → parsed values, with a sentence where one does not follow its
format.

In: listed files. Out: `SideFile` and `IndexEvidence`. Reads are bounded. Source: KIP-595.
"""

import errno
from collections.abc import Callable
from typing import Any

import numpy as np

from kraftlog.log import names
from kraftlog.log.directory import LogFile
from kraftlog.log.sidefiles import (
    INDEX_ENTRY,
    INDEX_LIMIT,
    SIDE_FILE_LIMIT,
    TIME_INDEX_ENTRY,
    read_disk_free,
    read_epoch_checkpoint,
    read_index,
    read_meta_properties,
    read_partition_metadata,
    read_properties,
    read_quorum_state,
)
from kraftlog.log.storage import FileBytes, open_file, read_whole
from kraftlog.plain import reason_of
from kraftlog.quorum.evidence import FileProblem, IndexEvidence, SideFile

NODE_FILES: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    names.META_PROPERTIES: ("meta_properties", read_meta_properties),
    names.QUORUM_STATE: ("quorum_state", read_quorum_state),
    names.EPOCH_CHECKPOINT: ("epoch_checkpoint", read_epoch_checkpoint),
    names.PARTITION_METADATA: ("partition_metadata", read_partition_metadata),
    names.SERVER_PROPERTIES: ("server_properties", read_properties),
    names.DISK_FREE: ("disk_free", read_disk_free),
}
"""Kind of file → field of `ReplicaEvidence`, and its reader."""


def read_side_file(file: LogFile, read: Callable[[bytes], Any] | None = None) -> SideFile:
    """A small file's value, or the reason why it has none; `read` reads one that is no text."""
    modified = file.modified_ns // 1_000_000
    try:
        with _opened(file) as handle:
            raw = read_whole(handle, SIDE_FILE_LIMIT)
        return SideFile(file.path, modified, (read or NODE_FILES[file.kind][1])(raw))
    except OSError as error:
        return SideFile(file.path, modified, None, unread=_problem(file, error))
    except (ValueError, OverflowError, RecursionError) as error:
        return SideFile(file.path, modified, None, str(error))


def _opened(file: LogFile) -> FileBytes:
    """Open a file; one that its listing has found not to be one raises OSError as well."""
    if file.problem is not None:
        raise OSError(errno.EINVAL, file.problem, file.path)
    return open_file(file.path)


def _problem(file: LogFile, error: OSError) -> FileProblem:
    is_gone = isinstance(error, FileNotFoundError)
    return FileProblem(file.path, file.kind, reason_of(error), is_gone)


def read_index_file(file: LogFile) -> IndexEvidence:
    """An index's entries as log offsets and positions or timestamps."""
    base = file.parsed.base_offset or 0
    time = file.kind == names.TIME_INDEX
    nothing = np.empty(0, np.int64)
    try:
        with _opened(file) as handle:
            # A preallocated index is a hole after its entries; there is no need to read it.
            whole = handle.size_bytes
            size = min(whole, INDEX_LIMIT)
            raw = handle.read(0, size) if handle.next_data(0) < handle.size_bytes else b""
    except OSError as error:
        unread = _problem(file, error)
        return IndexEvidence(file.path, base, time, nothing, nothing, 0, unread)
    entry = TIME_INDEX_ENTRY if time else INDEX_ENTRY
    index = read_index(raw, entry)
    value = "timestamp" if time else "position"
    # 10 MiB are no whole number of .timeindex entries: zeros at the end are padding.
    surplus = index.surplus_size_bytes if any(raw[len(raw) - index.surplus_size_bytes :]) else 0
    return IndexEvidence(
        file.path,
        base,
        time,
        index.entries["relative_offset"].astype(np.int64) + base,
        index.entries[value].astype(np.int64),
        surplus,
        padding_bytes=max(0, whole - len(index.entries) * entry.itemsize - surplus),
    )
