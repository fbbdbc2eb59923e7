"""Which damaged ranges are whole batches behind a damaged length or magic: the CRC, which covers
neither, proves it.

In: a file, a fault that the walk found in it, and the batch before the fault. Out: the fault, told
more exactly. Source: KIP-630 "Snapshot Format".
"""

from kraftlog.log.batch import HEADER_SIZE
from kraftlog.log.fault import RANGE_KINDS, Fault, FaultKind
from kraftlog.log.resync import streamed_crc_is_valid
from kraftlog.log.storage import open_file
from kraftlog.quorum.evidence import BatchColumns

PROVEN = "its CRC proves the records whole"
"""What the detail of such a fault says."""

_KINDS = RANGE_KINDS - {FaultKind.BATCH_CRC}
_LIMIT = 64 << 20


def explain(path: str, before: BatchColumns | None, fault: Fault) -> tuple[Fault, bool]:
    """The fault as it is best told, and whether the batch before it is a part of it.

    `before` ends with the batch right before the fault. Where its length was made too small, the
    rest of it looks like a fault of its own; together they have the right CRC.
    """
    if fault.kind not in _KINDS or fault.size_bytes > _LIMIT:
        return fault, False
    whole = _whole(path, fault, fault.position, fault.size_bytes)
    if whole is not None or before is None or before.crc_valid[-1]:
        return whole or fault, False
    start, size = int(before.positions[-1]), int(before.sizes[-1])
    if start + size != fault.position:
        return fault, False
    whole = _whole(path, fault, start, size + fault.size_bytes)
    return (fault, False) if whole is None else (whole, True)


def _whole(path: str, fault: Fault, position: int, size: int) -> Fault | None:
    if size < HEADER_SIZE:
        return None
    try:
        with open_file(path) as file:
            if not streamed_crc_is_valid(file, position, size):
                return None
            base = int.from_bytes(file.read(position, 8), "big", signed=True)
    except OSError:
        return None
    detail = f"a batch of {size:,} bytes has a damaged length or magic in its header ({PROVEN})"
    return fault._replace(position=position, size_bytes=size, detail=detail, offset=base)
