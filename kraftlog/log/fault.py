"""Damage as data: a fault says what could not be read, where, and how many bytes it covers.

Kinds below `RANGE_KINDS` cover bytes of a file that are in no valid record batch; together with the
valid batches they cover every byte. The other kinds point at something inside a batch whose CRC is
right.
"""

from enum import StrEnum
from typing import Any, NamedTuple


class FaultKind(StrEnum):
    """What was found. The text is what a fault row holds."""

    UNREADABLE = "unreadable"
    """The file cannot be opened or read: permission, a folder under its name, an I/O error."""
    VANISHED = "vanished"
    """The file was listed, and gone or shorter when it was read: normal in a live copy."""
    BATCH_CRC = "batch_crc"
    """A batch with sane framing whose CRC-32C is wrong."""
    BATCH_HEADER = "batch_header"
    """Bytes that are no batch, with a valid batch after them."""
    BATCH_MAGIC = "batch_magic"
    """A whole batch, as its CRC proves, of a magic above 2: Kafka's recovery keeps it, and no reader of
    its takes it.
    """
    TORN_BATCH = "torn_batch"
    """The start of a batch that the file's end cuts off."""
    ZEROS = "zeros"
    """Nothing but zero bytes."""
    GARBAGE = "garbage"
    """Other bytes after the last valid batch."""
    SEARCH_ABANDONED = "search_abandoned"
    """So many false batch headers that looking for the next valid batch was given up."""
    BATCH_TOO_LARGE = "batch_too_large"
    """A valid batch over the size that is held in memory; its records are not decoded."""
    COMPRESSION = "compression"
    """An unknown codec, or bytes that do not unpack."""
    DECOMPRESSION_LIMIT = "decompression_limit"
    """A batch that unpacks to more than the limit."""
    RECORD_COUNT = "record_count"
    """A batch that holds fewer records than its header says."""
    BATCH_TRAILING = "batch_trailing"
    """Bytes left over after the last record of a batch."""
    RECORD_FRAME = "record_frame"
    """A record whose envelope (lengths, key, headers) is broken."""
    RECORD_VALUE = "record_value"
    """A record whose body does not follow its message spec."""
    RECORD_TRAILING = "record_trailing"
    """Bytes left over after the body of a record that is no control record."""
    TOO_MANY_FAULTS = "too_many_faults"
    """So many records of a batch that cannot be read that the rest of it is not decoded."""
    FILE_FORMAT = "file_format"
    """A side file that does not follow its format."""


RANGE_KINDS = frozenset(
    {
        FaultKind.BATCH_CRC,
        FaultKind.BATCH_HEADER,
        FaultKind.BATCH_MAGIC,
        FaultKind.TORN_BATCH,
        FaultKind.ZEROS,
        FaultKind.GARBAGE,
        FaultKind.SEARCH_ABANDONED,
    }
)

READING_KINDS = frozenset({FaultKind.BATCH_TOO_LARGE, FaultKind.VANISHED, FaultKind.UNREADABLE})
"""Faults of reading, not of the bytes: Kafka does not stop at them."""

KEPT_KINDS = READING_KINDS | {FaultKind.BATCH_MAGIC}
"""Faults at which Kafka's recovery cuts no log."""


class Fault(NamedTuple):
    """One fault. `position` and `size_bytes` are bytes in the file; `batch_position` that of the
    batch, where there is one.

    `offset` is the log offset of the batch or record that is meant; None where it cannot be known.
    `content_hash` is of the raw bytes, so that replicas compare without showing what may be secret.
    """

    kind: FaultKind
    position: int
    size_bytes: int
    detail: str
    batch_position: int | None = None
    offset: int | None = None
    batch_leader_epoch: int | None = None
    record_index: int | None = None
    content_hash: str | None = None

    def row(self, path: str) -> dict[str, Any]:
        """Its columns wherever faults of a file are told."""
        told = self._asdict()
        return {"path": path, "fault": str(told.pop("kind")), **told}
