"""Windows of batch headers → `BatchColumns`, without an object per batch.

In: `log.batch.Batches` in file order. Out: the columns of a log or a checkpoint.
"""

import numpy as np

from kraftlog.log.batch import PREFIX_SIZE, Batches
from kraftlog.quorum.evidence import BatchColumns, no_batches


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
        """Append batches that are columns already."""
        if len(part):
            self._parts.append(part)
            self._count += len(part)

    def columns(self) -> BatchColumns:
        """All batches that were added."""
        return _joined(self._parts) if self._parts else no_batches()

    def drop_last(self) -> None:
        """Take the last batch back: it was found to be no batch by its own length."""
        last = self._parts.pop()
        self._count -= 1
        if len(last) > 1:
            kept = {name: getattr(last, name)[:-1] for name in BatchColumns.__slots__}
            self._parts.append(BatchColumns(**kept))

    def tail(self) -> BatchColumns | None:
        """The part that was added last."""
        return self._parts[-1] if self._parts else None


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


def _joined(parts: list[BatchColumns]) -> BatchColumns:
    names = BatchColumns.__slots__
    return BatchColumns(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    )
