"""The small files beside a log → parsed values, with a sentence where one does not follow its
format; and the topic folders beside it, as far as they were copied: which topic's data each says it
holds.

In: listed files; the path of a `__cluster_metadata-0` folder. Out: `SideFile` and `IndexEvidence`;
`PartitionFolder`s, of the log's own parent and of a `data` folder in it. Reads are bounded; of topic
folders only names and `partition.metadata` are read, never data. Source: KIP-595, KIP-516 (topic
ids), Kafka's UnifiedLog (names of folders that are being deleted).
"""

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kraftlog.log import names
from kraftlog.log.directory import IS_FOLDER, LogFile
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
    read_quorum_state,
    refused_transaction,
)
from kraftlog.log.storage import FileBytes, FolderEntry, list_folder, open_file, read_whole
from kraftlog.plain import reason_of
from kraftlog.quorum.evidence import FileProblem, IndexEvidence, PartitionFolder, SideFile
from kraftlog.quorum.settings import read_server_properties

NODE_FILES: dict[str, tuple[str, Callable[[bytes], Any]]] = {
    names.META_PROPERTIES: ("meta_properties", read_meta_properties),
    names.QUORUM_STATE: ("quorum_state", read_quorum_state),
    names.EPOCH_CHECKPOINT: ("epoch_checkpoint", read_epoch_checkpoint),
    names.PARTITION_METADATA: ("partition_metadata", read_partition_metadata),
    names.SERVER_PROPERTIES: ("server_properties", read_server_properties),
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


def refused_indexes(files: Sequence[LogFile]) -> Iterator[FileProblem]:
    """The indexes of segments at which Kafka throws when it opens a log: folders under their names,
    and transaction indexes of a version that it does not know. Of a segment without an `.index` it
    empties that file before it looks at it. Source: Kafka's LogLoader, LogSegment.sanityCheck.
    """
    there = {(one.kind, one.parsed.base_offset) for one in files}
    for one in files:
        base = one.parsed.base_offset
        if one.kind not in _INDEXES or (names.LOG, base) not in there:
            continue
        why = one.problem if one.problem == IS_FOLDER else None
        if one.kind == names.TRANSACTION_INDEX and (names.INDEX, base) in there:
            why = why or _refused_transaction(one)
        if why is not None:
            yield FileProblem(one.path, one.kind, why, False)


_INDEXES = (names.INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)


def _refused_transaction(file: LogFile) -> str | None:
    try:
        with _opened(file) as handle:
            raw = handle.read(0, min(handle.size_bytes, INDEX_LIMIT))
    except OSError:
        return None  # nobody knows
    return refused_transaction(raw, file.parsed.base_offset or 0)


_FOLDER = re.compile(
    r"(?P<topic>.+?)-(?P<number>\d+)(?:\.[0-9a-f]{32}-(?P<fate>delete|future|stray))?"
)
METADATA_FILE = "partition.metadata"


def partition_folders(log_folder: str) -> tuple[PartitionFolder, ...]:
    """The topic folders beside a metadata log; none where they cannot be listed."""
    parent = log_folder.rsplit("/", 1)[0]
    return tuple(
        found
        for folder in (parent, f"{parent}/data")
        for entry in _inside(folder)
        if (found := _folder(entry)) is not None
    )


def _inside(folder: str) -> Iterator[FolderEntry]:
    try:
        yield from list_folder(folder)
    except OSError:
        return  # nothing of the kind was copied


def _folder(entry: FolderEntry) -> PartitionFolder | None:
    found = _FOLDER.fullmatch(entry.name)
    if found is None or not entry.is_folder or entry.name == names.LOG_FOLDER:
        return None
    topic_id = _topic_id(entry.path)
    if topic_id is None and found["fate"] is None:
        return None  # any other folder whose name ends in a number
    number = int(found["number"])
    return PartitionFolder(entry.path, entry.name, found["topic"], number, found["fate"], topic_id)


def _topic_id(folder: str) -> str | None:
    try:
        with open_file(f"{folder}/{METADATA_FILE}") as file:
            raw = file.read(0, min(file.size_bytes, SIDE_FILE_LIMIT))
        return read_partition_metadata(raw)["topic_id"]
    except (OSError, ValueError):
        return None
