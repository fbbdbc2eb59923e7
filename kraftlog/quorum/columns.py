"""Windows of batch headers → `BatchColumns`, without an object per batch.

In: `log.batch.Batches` in file order, and the faults between them. Out: the columns of a log or a
checkpoint; faults told more exactly: which damaged ranges are whole batches behind a damaged length
or magic, as the CRC proves, which covers neither. Source: KIP-630 "Snapshot Format".
"""

import numpy as np

from kraftlog.log.batch import (
    HEADER_SIZE,
    INT32_AT,
    LAST_MAGIC,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    PREFIX_SIZE,
    Batches,
)
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.log.resync import streamed_crc_is_valid
from kraftlog.log.storage import open_file
from kraftlog.quorum.evidence import BatchColumns, no_batches

_REPAIRED = RANGE_KINDS - {FaultKind.BATCH_CRC}
_LIMIT = 64 << 20


class ColumnBuilder:
    """Collects batches; `columns()` joins them."""

    def __init__(self) -> None:
        self._parts: list[BatchColumns] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, file: int, batches: Batches, content: list[int]) -> None:
        """Append the batches of one window of a file."""
        self._parts.append(_columns(file, batches, content))
        self._count += len(batches)

    def extend(self, part: BatchColumns) -> None:
        if len(part):
            self._parts.append(part)
            self._count += len(part)

    def columns(self) -> BatchColumns:
        """All batches that were added."""
        if not self._parts:
            return no_batches()
        names = BatchColumns.__slots__
        joined = {
            name: np.concatenate([getattr(one, name) for one in self._parts]) for name in names
        }
        return BatchColumns(**joined)

    def explained(self, path: str, file: int, fault: Fault) -> Fault:
        """A fault of a file behind the batches that were added, as it is best told.

        Where the length of the batch right before it was made too small, the rest of that one looks
        like a fault of its own; together they have the right CRC, and the batch is taken back.
        """
        if fault.kind not in _REPAIRED or fault.size_bytes > _LIMIT:
            return fault
        whole = _whole(path, fault, fault.position, fault.size_bytes)
        before = self._parts[-1] if self._parts else None
        if whole is not None or before is None or before.file[-1] != file or before.crc_valid[-1]:
            return whole or fault
        start, size = int(before.positions[-1]), int(before.sizes[-1])
        if start + size != fault.position:
            return fault
        whole = _whole(path, fault, start, size + fault.size_bytes)
        if whole is None:
            return fault
        self._parts[-1:] = [before.between(0, len(before) - 1)] if len(before) > 1 else []
        self._count -= 1
        return whole


def _whole(path: str, fault: Fault, position: int, size: int) -> Fault | None:
    if size < HEADER_SIZE:
        return None
    try:
        with open_file(path) as file:
            if not streamed_crc_is_valid(file, position, size):
                return None
            header = file.read(position, MAGIC_POSITION + 1)
    except OSError:
        return None
    kind, what = fault.kind, "a damaged length or magic"
    (length,) = INT32_AT.unpack_from(header, LENGTH_POSITION)
    if PREFIX_SIZE + length == size and MAGIC < header[MAGIC_POSITION] <= LAST_MAGIC:
        kind, what = FaultKind.BATCH_MAGIC, f"magic {header[MAGIC_POSITION]} in the place of 2"
    detail = (
        f"a batch of {size:,} bytes has {what} in its header (its CRC proves the records whole)"
    )
    base = int.from_bytes(header[:LENGTH_POSITION], "big", signed=True)
    return fault._replace(kind=kind, position=position, size_bytes=size, detail=detail, offset=base)


def _columns(file: int, batches: Batches, content: list[int]) -> BatchColumns:
    rows = batches.headers
    base = rows["base_offset"].astype(np.int64)
    ids = np.frombuffer(batches.hashes, ">u8").reshape(-1, 2)
    return BatchColumns(
        np.full(len(batches), file, np.int32),
        batches.positions.astype(np.int64),
        rows["length"].astype(np.int64) + PREFIX_SIZE,
        base,
        base + rows["last_offset_delta"].astype(np.int64),
        rows["record_count"].astype(np.int32),
        rows["batch_leader_epoch"].astype(np.int32),
        rows["attributes"].astype(np.int32),
        rows["base_timestamp"].astype(np.int64),
        rows["max_timestamp"].astype(np.int64),
        batches.crc_valid.astype(np.bool_),
        ids.astype(np.uint64),
        np.array(content, np.int32),
    )
