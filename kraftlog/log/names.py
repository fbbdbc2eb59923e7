"""File names of a metadata log's folder: what kind of file each is, and the offsets that its name
carries.

Source: KIP-630 "Snapshot Format" (two epoch widths), Kafka's Snapshots and LogFileUtils (the
shipped widths, and how names are parsed).
"""

import re
from dataclasses import dataclass

LOG_FOLDER = "__cluster_metadata-0"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""What a partition.metadata in that folder names."""

MAIN = "main"
"""What the history is called that all copies share, where each contradicting copy's own goes by its
label: no copy has this one.
"""

LOG = "log"
CHECKPOINT = "checkpoint"
BOOTSTRAP = "bootstrap_checkpoint"
CHECKPOINT_PART = "checkpoint_part"
CHECKPOINT_DELETED = "checkpoint_deleted"
LOG_DELETED = "log_deleted"
LOG_SWAP = "log_swap"
INDEX = "index"
TIME_INDEX = "time_index"
TRANSACTION_INDEX = "transaction_index"
PRODUCER_SNAPSHOT = "producer_snapshot"
META_PROPERTIES = "meta_properties"
QUORUM_STATE = "quorum_state"
PARTITION_METADATA = "partition_metadata"
EPOCH_CHECKPOINT = "leader_epoch_checkpoint"
SERVER_PROPERTIES = "server_properties"
QUORUM_DESCRIBE = "quorum_describe"
DISK_FREE = "disk_free"
LEFT_OUT = "left_out"
"""What nobody looks into: an archive, and a name that is not followed. It may hold a whole log."""
UNKNOWN = "unknown"

LAST_OFFSET = (1 << 63) - 1
"""20 digits say more than an offset can be: such a name is none of Kafka's."""

FILE_LIMIT_BYTES = (1 << 31) - 1
"""Kafka opens no larger file of records (FileRecords), so it neither loads nor serves such a snapshot.
"""

RECORD_KINDS = frozenset(
    {LOG, LOG_DELETED, CHECKPOINT, CHECKPOINT_PART, CHECKPOINT_DELETED, BOOTSTRAP}
)
"""Kinds whose bytes are record batches."""

SHIPPED, KIP_PADDED, KIP_PLAIN = "shipped", "kip_18_digits", "kip_unpadded"

_FIXED_NAMES = {
    "leader-epoch-checkpoint": EPOCH_CHECKPOINT,
    "partition.metadata": PARTITION_METADATA,
    "quorum-state": QUORUM_STATE,
    "meta.properties": META_PROPERTIES,
    "bootstrap.checkpoint": BOOTSTRAP,
    "server.properties": SERVER_PROPERTIES,
    "quorum-describe": QUORUM_DESCRIBE,
    "df.txt": DISK_FREE,
    ".kafka_cleanshutdown": "clean_shutdown",
    ".lock": "lock",
}
_SEGMENT_SUFFIXES = {
    ".log": LOG,
    ".index": INDEX,
    ".timeindex": TIME_INDEX,
    ".txnindex": TRANSACTION_INDEX,
    ".snapshot": PRODUCER_SNAPSHOT,
}
_SEGMENT = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)((?:\.deleted|\.cleaned|\.swap)*)",
    re.ASCII,
)
_CHECKPOINT = re.compile(r"(\d{1,20})-(\d{1,18})\.checkpoint(\.part|\.deleted)?", re.ASCII)
_CHECKPOINT_TEMPORARY = re.compile(r"(\d{1,20})-(\d{1,18})-[^/]*\.checkpoint(\.part)", re.ASCII)
_CHECKPOINT_KINDS = {"": CHECKPOINT, ".part": CHECKPOINT_PART, ".deleted": CHECKPOINT_DELETED}


@dataclass(frozen=True, slots=True)
class FileName:
    """What a name says: `base_offset` of a segment's files, `end_offset` (exclusive) and `epoch` of
    a snapshot's.
    """

    kind: str
    base_offset: int | None = None
    end_offset: int | None = None
    epoch: int | None = None
    form: str | None = None


_ARCHIVE = (".tar", ".tgz", ".zip", ".7z", ".rar")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".lz4")


def is_archive(name: str) -> bool:
    """Whether a file holds folders, by its name."""
    plain = name.lower()
    for one in _COMPRESSED:
        plain = plain.removesuffix(one)
    return plain.endswith(_ARCHIVE)


def is_packed(name: str) -> bool:
    """Whether a file is an archive, or compressed, by its name: its bytes say nothing as they are."""
    return is_archive(name) or name.lower().endswith(_COMPRESSED)


def classify(name: str) -> FileName:
    """The kind of a file, by its name alone."""
    if name in _FIXED_NAMES:
        return FileName(_FIXED_NAMES[name])
    segment = _SEGMENT.fullmatch(name)
    if segment:
        base, suffix, after = segment.groups()
        if int(base) > LAST_OFFSET:
            return FileName(UNKNOWN)
        kind = _SEGMENT_SUFFIXES[suffix]
        return FileName(kind + after.replace(".", "_"), base_offset=int(base))
    checkpoint = _CHECKPOINT.fullmatch(name) or _CHECKPOINT_TEMPORARY.fullmatch(name)
    if checkpoint and int(checkpoint.group(1)) <= LAST_OFFSET:
        end, epoch, after = checkpoint.group(1), checkpoint.group(2), checkpoint.group(3) or ""
        return FileName(
            _CHECKPOINT_KINDS[after], end_offset=int(end), epoch=int(epoch), form=_form(end, epoch)
        )
    return FileName(UNKNOWN)


def _form(end: str, epoch: str) -> str | None:
    """Which of the three known ways of writing a snapshot id this is; None for any other."""
    if len(end) != 20:
        return None
    if len(epoch) == 10:
        return SHIPPED
    if len(epoch) == 18:
        return KIP_PADDED
    return KIP_PLAIN if str(int(epoch)) == epoch else None


CLEANED_ENDING = ".cleaned"
SEGMENT_ENDINGS = (*_SEGMENT_SUFFIXES, ".swap", CLEANED_ENDING)
SNAPSHOT_ENDING = ".checkpoint"
SNAPSHOT_ENDINGS = tuple(f"{SNAPSHOT_ENDING}{one}" for one in _CHECKPOINT_KINDS)
"""Names with one of these endings are parsed when Kafka opens a folder, whatever they begin with."""


def is_refused(name: str) -> bool:
    """Whether Kafka fails to parse the name of a file, and so does not start."""
    if name.endswith(SNAPSHOT_ENDINGS):
        return id_by_columns(name) is None
    return name.endswith(SEGMENT_ENDINGS) and offset_before_dot(name) is None


def id_by_columns(name: str) -> tuple[int, int] | None:
    """(epoch, end offset) as Kafka reads them from fixed columns of a snapshot's name, whatever
    follows; None where one is no number.
    """
    end, epoch = _number(name[:20], 64), _number(name[21:31], 32)
    return None if end is None or epoch is None else (epoch, end)


def offset_before_dot(name: str) -> int | None:
    """The offset that Kafka reads from the name of a segment's file: any number that goes before
    its first dot. None where there is none.
    """
    return _number(name.partition(".")[0], 64)


def _number(text: str, bits: int) -> int | None:
    """A text as Java's `parseLong` or `parseInt` reads it."""
    found = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
    return found if found is not None and -1 << bits - 1 <= found < 1 << bits - 1 else None


def begins_as_segment(name: str) -> bool:
    """Whether a file's name begins with that of a segment, whatever follows."""
    return _SEGMENT.match(name) is not None and name[20:24] == ".log"


def segment_name(base_offset: int) -> str:
    """The name of the segment that begins at an offset."""
    return f"{base_offset:020d}.log"


def checkpoint_name(end_offset: int, epoch: int) -> str:
    """The name that Kafka ships for the snapshot (end offset, epoch)."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"
