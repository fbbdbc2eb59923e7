"""A replica's files → record batches in offset order, and its complete snapshots.

In: a replica as `log.directory` finds it. Out: `LogBatch`es whose records are decoded when they are
asked for, and `Snapshot`s. What cannot be read is a fault. Runs wherever the files can be opened;
memory is bounded by one window of a file.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kraftlog.decode.records import Record, read_records
from kraftlog.decode.redaction import Redactor
from kraftlog.log import names
from kraftlog.log.batch import CONTROL, PREFIX_SIZE
from kraftlog.log.directory import LogFile, Replica, walk_file
from kraftlog.log.fault import Fault, FaultKind
from kraftlog.log.segment import Limits, Window

UNMASKED = Redactor(None)
DEFAULT_LIMITS = Limits()


class LogBatch(NamedTuple):
    """One record batch whose CRC is right; `end_offset` is exclusive, times are in ms."""

    base_offset: int
    end_offset: int
    batch_leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    is_control: bool
    path: str
    position: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete checkpoint: it begins with a header, ends with a footer, and holds no fault."""

    end_offset: int
    epoch: int
    last_contained_timestamp: int
    file: LogFile

    @property
    def name(self) -> str:
        return self.file.name


@dataclass(frozen=True, slots=True)
class RejectedSnapshot:
    """A checkpoint that cannot be loaded, and why."""

    file: LogFile
    reason: str


def log_files(replica: Replica, from_offset: int = 0) -> list[LogFile]:
    """The segments of a replica that may hold an offset or a later one, in offset order."""
    segments = [file for file in replica.files if file.kind == names.LOG]
    segments.sort(key=lambda file: file.parsed.base_offset or 0)
    bases = [file.parsed.base_offset or 0 for file in segments]
    before = [index for index, base in enumerate(bases) if base <= from_offset]
    return segments[before[-1] :] if before else segments


def read_batches(file: LogFile, limits: Limits = DEFAULT_LIMITS) -> Iterator[LogBatch | Fault]:
    """The batches of one file in file order, and the faults between them."""
    for found in walk_file(file, limits):
        if isinstance(found, Fault):
            yield found
        else:
            yield from batches_of(file.path, found)


def batches_of(path: str, window: Window) -> Iterator[LogBatch | Fault]:
    """The batches of a window of a file; one whose CRC is wrong is a fault."""
    batches = window.batches
    header = batches.headers
    columns = zip(
        header["base_offset"].tolist(),
        header["last_offset_delta"].tolist(),
        header["batch_leader_epoch"].tolist(),
        header["base_timestamp"].tolist(),
        header["max_timestamp"].tolist(),
        header["attributes"].tolist(),
        header["length"].tolist(),
        batches.positions.tolist(),
        batches.crc_valid.tolist(),
        strict=True,
    )
    for base, delta, epoch, first_ms, last_ms, attributes, length, position, valid in columns:
        size = length + PREFIX_SIZE
        if not valid:
            detail = f"the CRC-32C of the batch at offset {base} is wrong"
            yield Fault(FaultKind.BATCH_CRC, position, size, detail, position, base, epoch)
            continue
        start = position - window.position
        raw = window.buffer[start : start + size]
        is_control = bool(attributes & CONTROL)
        end = base + delta + 1
        yield LogBatch(base, end, epoch, first_ms, last_ms, is_control, path, position, raw)


def decoded(
    batch: LogBatch, redactor: Redactor, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Record | Fault]:
    """The records of a batch, and a fault for each that cannot be read."""
    return read_records(batch.raw, batch.position, redactor, limits.decompressed_size_bytes)


def find_snapshots(
    replica: Replica, limits: Limits = DEFAULT_LIMITS
) -> tuple[list[Snapshot], list[RejectedSnapshot]]:
    """The complete checkpoints of a replica, oldest first by (epoch, end offset), and the rest."""
    found: list[Snapshot] = []
    rejected: list[RejectedSnapshot] = []
    for file in replica.files:
        alone = len(replica.files) == 1 and file.kind in names.RECORD_KINDS - {names.LOG}
        if file.kind == names.CHECKPOINT or alone:
            one = _snapshot(file, limits)
            if isinstance(one, Snapshot):
                found.append(one)
            else:
                rejected.append(one)
    return sorted(found, key=lambda one: (one.epoch, one.end_offset)), rejected


def _snapshot(file: LogFile, limits: Limits) -> Snapshot | RejectedSnapshot:
    """Only the first and the last batch are decoded; the CRCs of all are checked."""
    first = last = None
    for found in read_batches(file, limits):
        if isinstance(found, Fault):
            return RejectedSnapshot(file, f"{found.kind} at byte {found.position}: {found.detail}")
        first, last = first or found, found
    if first is None or last is None:
        return RejectedSnapshot(file, "it is empty")
    head = next(decoded(first, UNMASKED, limits), None)
    if not (isinstance(head, Record) and head.type == "SNAPSHOT_HEADER" and head.data):
        return RejectedSnapshot(file, "it does not begin with a snapshot header")
    foot = [one for one in decoded(last, UNMASKED, limits) if isinstance(one, Record)]
    if not foot or foot[-1].type != "SNAPSHOT_FOOTER":
        return RejectedSnapshot(file, "it does not end with a snapshot footer")
    timestamp = head.data["lastContainedLogTimestamp"]
    return Snapshot(file.parsed.end_offset or 0, file.parsed.epoch or 0, timestamp, file)
