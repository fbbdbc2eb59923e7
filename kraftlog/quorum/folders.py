"""The topic folders beside a copy of the metadata log, as far as they were copied: which topic's
data each says it holds.

In: the path of a `__cluster_metadata-0` folder. Out: `PartitionFolder`s, of the log's own parent
and of a `data` folder in it. Only names and `partition.metadata` are read, never data. Source:
KIP-516 (topic ids), Kafka's UnifiedLog (names of folders that are being deleted).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kraftlog.log import names
from kraftlog.log.sidefiles import SIDE_FILE_LIMIT, read_partition_metadata
from kraftlog.log.storage import FolderEntry, list_folder, open_file

_NAME = re.compile(
    r"(?P<topic>.+?)-(?P<number>\d+)(?:\.[0-9a-f]{32}-(?P<fate>delete|future|stray))?"
)
METADATA_FILE = "partition.metadata"


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """A topic partition's folder on a broker. `fate` is delete, future or stray where its name
    says so; `topic_id` is None where its partition.metadata is missing or unreadable.
    """

    path: str
    name: str
    topic: str
    number: int
    fate: str | None
    topic_id: str | None


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
    found = _NAME.fullmatch(entry.name)
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
